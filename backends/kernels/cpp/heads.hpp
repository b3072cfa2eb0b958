// Sums over edges of rows that consist of heads: one head's columns, or several heads that fill whole vectors, at a time.
#pragma once
#include "dispatch.hpp"
#include "scores.hpp"
#include "spmm.hpp"

namespace kernels {

// Edges whose ends' rows are added up: `readable` of them may be looked at ahead, `count` belong to the sum.
template <class T, class I>
struct Stretch {
    const I* ends;
    int64_t count, readable;
    const T* factor;  // [count, heads], from the first head in question
    int64_t heads;
    const T* table;  // [nodes, heads, width], from the first column in question
    int64_t stride;

    const T* row(int64_t e) const { return table + int64_t(ends[e]) * stride; }
    const T* ahead(int64_t e) const { return row(std::min(e + kAhead, readable - 1)); }
};

// out [width] (+)= sum of factor * row of the table, times its head's `scale`.
template <class T, class I>
struct HeadSum {
    using Function = void (*)(const Stretch<T, I>&, int64_t, T*, bool, const T*);

    // V vectors of N lanes; P of them make a head, 0 if all belong to one.
    template <int N, int V, int P>
    static void run(const Stretch<T, I>& s, int64_t width, T* out, bool fresh, const T* scale) {
        vecn<T, N> acc[V] = {};
        for (int v = 0; !fresh && v < V; ++v) acc[v] = load_pack<N>(out + column<N, V>(v, width));
        for (int64_t e = 0; e < s.count; ++e) {
            prefetch<T, N, V>(s.ahead(e));
            const T* row = s.row(e);
            const T* factor = s.factor + e * s.heads;
#pragma GCC unroll 16
            for (int v = 0; v < V; ++v) acc[v] += factor[P == 0 ? 0 : v / P] * load_pack<N>(row + column<N, V>(v, width));
        }
        for (int v = 0; v < V; ++v) store_pack<N>(out + column<N, V>(v, width), acc[v] * scale[P == 0 ? 0 : v / P]);
    }

    template <int N, int V, int P = 0>
    Function pick() const {
        return &run<N, V, P>;
    }
};

// Columns of a row that one call computes: a group of a head's, or some whole heads.
template <class Kind>
struct Part {
    int64_t head, first, width;
    typename Kind::Function compute;
};

template <class T, class Kind, int P>
void add_several(int64_t heads, int64_t width, std::vector<Part<Kind>>& parts) {
    constexpr int64_t most = kGroup / P;
    const int64_t groups = (heads + most - 1) / most;
    for (int64_t g = 0; g < groups; ++g) {
        const int64_t first = g * heads / groups, last = (g + 1) * heads / groups;
        Part<Kind> part{first, first * width, (last - first) * width, nullptr};
        with_vectors<most>(last - first, [&]<int K>() { part.compute = Kind{}.template pick<lanes<T>, K * P, P>(); });
        parts.push_back(part);
    }
}

// Cut rows of `heads` heads of `width` columns.
template <class T, class Kind>
std::vector<Part<Kind>> parts_of(int64_t heads, int64_t width) {
    std::vector<Part<Kind>> parts;
    const int64_t vectors = width % lanes<T> == 0 ? width / lanes<T> : 0;
    if (heads > 1 && vectors == 1) add_several<T, Kind, 1>(heads, width, parts);
    if (heads > 1 && vectors == 2) add_several<T, Kind, 2>(heads, width, parts);
    if (heads > 1 && vectors == 4) add_several<T, Kind, 4>(heads, width, parts);
    if (!parts.empty()) return parts;
    const Cut<T> cut(width);
    for (int64_t h = 0; h < heads; ++h)
        for (int64_t g = 0; g < cut.groups; ++g) {
            const Columns columns = cut.group(g);
            parts.push_back({h, h * width + columns.first, columns.width, choose<T>(columns.width, Kind{})});
        }
    return parts;
}

}  // namespace kernels
