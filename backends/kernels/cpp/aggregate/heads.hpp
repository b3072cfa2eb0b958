// Sums over edges of rows made of heads: the columns of one head, or several heads that fill whole vectors, at a time.
// With `Shared` the sources have one row each, which all heads read.
#pragma once
#include <algorithm>
#include <vector>

#include "aggregate/edge_scores.hpp"
#include "common/dispatch.hpp"
#include "common/gather.hpp"
#include "common/matrix.hpp"

namespace kernels {

// Operands of a sum over the edges of some rows; prefetches may read the ends of `readable` edges.
template <class T, class I>
struct Stretch {
    Rows<I> rows;
    const I* ends;  // from the first edge
    int64_t readable;
    const T* factor;  // [edges, heads], from the first head in question
    int64_t heads;
    const T* table;  // [nodes, heads, width], from the first column in question
    int64_t stride;  // of the table's rows
    int64_t own_stride;  // of the results' rows
    bool streams;        // whether those go around the caches
};

// Walks over the edges of a stretch; what it needs is kept in registers.
template <class T, class I>
struct Walk {
    const I* ends;
    const T *factor, *table;
    int64_t heads, stride, e, last;

    explicit Walk(const Stretch<T, I>& s)
        : ends(s.ends), factor(s.factor), table(s.table), heads(s.heads), stride(s.stride), e(0), last(s.readable - 1) {}

    const T* row() const { return table + int64_t(ends[e]) * stride; }
    const T* ahead(int64_t edges) const { return table + int64_t(ends[std::min(e + edges, last)]) * stride; }

    void next() {
        ++e;
        factor += heads;
    }
};

// First column of vector v of a part in a source's row; P vectors of N lanes make a head, 0 if all belong to one.
template <bool Shared, int N, int V, int P>
constexpr int64_t source_column(int v, int64_t width) {
    return Shared && P > 0 ? v % (P > 0 ? P : 1) * N : column<N, V>(v, width);
}

// out [rows, width] (+)= sum of factor * row of the table, times the `scale` [rows, heads] of its head.
template <class T, class I, bool Shared>
struct HeadSum {
    using Function = void (*)(const Stretch<T, I>&, int64_t, T*, bool, const T*);

    // V vectors of N lanes; P of them make a head, 0 if all belong to one.
    template <int N, int V, int P>
    static void run(const Stretch<T, I>& s, int64_t width, T* out, bool fresh, const T* scale) {
        constexpr int distinct = Shared && P > 0 ? P : V;
        Walk<T, I> edge(s);
        for (int64_t r = 0; r < s.rows.count; ++r, out += s.own_stride, scale += s.heads) {
            vecn<T, N> acc[V] = {};
            for (int v = 0; !fresh && v < V; ++v) acc[v] = load_pack<N>(out + column<N, V>(v, width));
            for (const int64_t end = s.rows.edge(r + 1); edge.e < end; edge.next()) {
                prefetch<T, N, distinct>(edge.ahead(ahead_of<T, N, distinct>));
                const T* row = edge.row();
#pragma GCC unroll 16
                for (int v = 0; v < V; ++v)
                    acc[v] += edge.factor[P == 0 ? 0 : v / P] *
                              load_pack<N>(row + source_column<Shared, N, V, P>(v, width));
            }
#pragma GCC unroll 16
            for (int v = 0; v < V; ++v) acc[v] *= scale[P == 0 ? 0 : v / P];
            write<T, N, V>(acc, out, width, T(1), s.streams);
        }
    }

    template <int N, int V, int P = 0>
    Function pick() const {
        return &run<N, V, P>;
    }
};

// Columns of a row that one call computes: a group of a head's, or some whole heads.
template <class Function>
struct Part {
    int64_t head, first, width;
    Function compute;
};

// Heads of P vectors of N lanes each, as many to a part as registers hold.
template <class T, class Kind, int N, int P>
void add_several(int64_t heads, int64_t width, std::vector<Part<typename Kind::Function>>& parts) {
    constexpr int64_t most = std::min(kGroup / P, N < lanes<T> ? 8 : kGroup);
    const int64_t groups = (heads + most - 1) / most;
    for (int64_t g = 0; g < groups; ++g) {
        const int64_t first = g * heads / groups, last = (g + 1) * heads / groups;
        Part<typename Kind::Function> part{first, first * width, (last - first) * width, nullptr};
        with_vectors<most>(last - first, [&]<int K>() { part.compute = Kind{}.template pick<N, K * P, P>(); });
        parts.push_back(part);
    }
}

// Cut rows of `heads` heads of `width` columns.
template <class T, class Kind>
std::vector<Part<typename Kind::Function>> parts_of(int64_t heads, int64_t width) {
    std::vector<Part<typename Kind::Function>> parts;
    constexpr int L = lanes<T>;
    if (heads > 1) {
        if (width == L / 2) add_several<T, Kind, L / 2, 1>(heads, width, parts);
        if (width == L) add_several<T, Kind, L, 1>(heads, width, parts);
        if (width == 2 * L) add_several<T, Kind, L, 2>(heads, width, parts);
        if (width == 4 * L) add_several<T, Kind, L, 4>(heads, width, parts);
        if (!parts.empty()) return parts;
    }
    const Cut<T> cut(width);
    for (int64_t h = 0; h < heads; ++h)
        for (int64_t g = 0; g < cut.groups; ++g) {
            const Columns columns = cut.group(g);
            parts.push_back({h, h * width + columns.first, columns.width, choose<T>(columns.width, Kind{})});
        }
    return parts;
}

}  // namespace kernels
