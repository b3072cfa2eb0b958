// Y = A X over in-edges: a row's sums stay in registers across its edges and are written once.
#pragma once
#include <algorithm>
#include <vector>

#include "vector.hpp"

namespace kernels {

constexpr int64_t kAhead = 8;            // edges between a prefetch and its use
constexpr int64_t kEdgeBlock = 512;      // edges whose source rows all column groups share while they are in cache
constexpr int64_t kHubSegment = 1 << 15; // edges of one partial sum of a hub; fixed, so that threads change no result
constexpr int kGroup = 8;                // vectors held in registers at once

template <class I>
struct CsrView {
    const I* indptr;
    const I* indices;
    int64_t rows;
};

// Rows cut into pieces of about equal work, and the rows with more than kHubSegment edges, which are split.
struct RowPlan {
    const int64_t* bounds;  // [chunks + 1]
    int64_t chunks;
    const int64_t* hubs;
    int64_t hub_count;
};

template <class T, class I>
struct SpmmTask {
    CsrView<I> a;
    const T* x;
    const T* weight;     // [nnz] or null
    const T* row_scale;  // [rows] or null
    T* y;
    int64_t width;
};

template <class T>
inline void prefetch_row(const T* row, int64_t width) {
    const char* from = reinterpret_cast<const char*>(row);
    const int64_t lines = std::min<int64_t>((width * int64_t(sizeof(T)) + 63) / 64, 8);
    for (int64_t line = 0; line < lines; ++line) __builtin_prefetch(from + 64 * line, 0, 3);
}

// Add edges [begin, end) of one row to columns of group [first, first + V) of `out`; `fresh` starts from zero.
template <class T, class I, int V, bool Weighted>
inline void add_group(const SpmmTask<T, I>& t, int64_t begin, int64_t end, int64_t first, T* out, bool fresh, bool ahead) {
    vec<T> acc[V];
    int64_t at[V];
    for (int v = 0; v < V; ++v) {
        at[v] = offset<T>(first + v, t.width);
        acc[v] = fresh ? vec<T>{} : load(out + at[v]);
    }
    for (int64_t e = begin; e < end; ++e) {
        const T* row = t.x + int64_t(t.a.indices[e]) * t.width;
        if (ahead) prefetch_row(t.x + int64_t(t.a.indices[e + kAhead]) * t.width, t.width);
        if constexpr (Weighted) {
            const vec<T> w = broadcast(t.weight[e]);
            for (int v = 0; v < V; ++v) acc[v] += w * load(row + at[v]);
        } else {
            for (int v = 0; v < V; ++v) acc[v] += load(row + at[v]);
        }
    }
    for (int v = 0; v < V; ++v) store(out + at[v], acc[v]);
}

template <class T, class I, bool Weighted>
inline void add_narrow(const SpmmTask<T, I>& t, int64_t begin, int64_t end, T* out, bool fresh) {
    T acc[lanes<T>];
    for (int64_t c = 0; c < t.width; ++c) acc[c] = fresh ? T(0) : out[c];
    for (int64_t e = begin; e < end; ++e) {
        const T* row = t.x + int64_t(t.a.indices[e]) * t.width;
        const T w = Weighted ? t.weight[e] : T(1);
        for (int64_t c = 0; c < t.width; ++c) acc[c] += w * row[c];
    }
    for (int64_t c = 0; c < t.width; ++c) out[c] = acc[c];
}

template <class T, class I, bool Weighted>
inline void dispatch_group(const SpmmTask<T, I>& t, int64_t b, int64_t e, int64_t first, int count, T* out, bool fresh, bool ahead) {
    switch (count) {
        case 1: return add_group<T, I, 1, Weighted>(t, b, e, first, out, fresh, ahead);
        case 2: return add_group<T, I, 2, Weighted>(t, b, e, first, out, fresh, ahead);
        case 3: return add_group<T, I, 3, Weighted>(t, b, e, first, out, fresh, ahead);
        case 4: return add_group<T, I, 4, Weighted>(t, b, e, first, out, fresh, ahead);
        case 5: return add_group<T, I, 5, Weighted>(t, b, e, first, out, fresh, ahead);
        case 6: return add_group<T, I, 6, Weighted>(t, b, e, first, out, fresh, ahead);
        case 7: return add_group<T, I, 7, Weighted>(t, b, e, first, out, fresh, ahead);
        default: return add_group<T, I, 8, Weighted>(t, b, e, first, out, fresh, ahead);
    }
}

// Sum edges [begin, end) into `out` [width]. `limit` is the number of edges that may be read ahead.
template <class T, class I, bool Weighted>
inline void sum_edges(const SpmmTask<T, I>& t, int64_t begin, int64_t end, int64_t limit, T* out) {
    if (begin == end) {
        std::fill(out, out + t.width, T(0));
        return;
    }
    const int64_t vectors = (t.width + lanes<T> - 1) / lanes<T>;
    const int64_t groups = (vectors + kGroup - 1) / kGroup;
    for (int64_t block = begin; block < end; block += kEdgeBlock) {
        const int64_t stop = std::min(block + kEdgeBlock, end);
        if (t.width < lanes<T>) {
            add_narrow<T, I, Weighted>(t, block, stop, out, block == begin);
            continue;
        }
        for (int64_t g = 0; g < groups; ++g) {
            const int64_t first = g * vectors / groups, last = (g + 1) * vectors / groups;
            const int count = int(last - first);
            const bool fresh = block == begin, ahead = g == 0;
            const int64_t safe = ahead ? std::max(block, std::min(stop, limit - kAhead)) : block;
            if (safe > block) dispatch_group<T, I, Weighted>(t, block, safe, first, count, out, fresh, true);
            if (stop > safe) dispatch_group<T, I, Weighted>(t, safe, stop, first, count, out, fresh && safe == block, false);
        }
    }
}

template <class T>
inline void scale_row(T* row, int64_t width, const T* scale, int64_t index) {
    if (scale == nullptr) return;
    for (int64_t c = 0; c < width; ++c) row[c] *= scale[index];
}

template <class T, class I, bool Weighted>
void sum_hub(const SpmmTask<T, I>& t, int64_t row, int threads) {
    const int64_t begin = t.a.indptr[row], end = t.a.indptr[row + 1], limit = t.a.indptr[t.a.rows];
    const int64_t segments = (end - begin + kHubSegment - 1) / kHubSegment;
    std::vector<T> partial(segments * t.width);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t s = 0; s < segments; ++s) {
        const int64_t from = begin + s * kHubSegment;
        sum_edges<T, I, Weighted>(t, from, std::min(from + kHubSegment, end), limit, partial.data() + s * t.width);
    }
    T* out = t.y + row * t.width;
    std::copy(partial.begin(), partial.begin() + t.width, out);
    for (int64_t s = 1; s < segments; ++s)
        for (int64_t c = 0; c < t.width; ++c) out[c] += partial[s * t.width + c];
    scale_row(out, t.width, t.row_scale, row);
}

template <class T, class I, bool Weighted>
void spmm_rows(const SpmmTask<T, I>& t, const RowPlan& plan, int threads) {
    const int64_t limit = t.a.indptr[t.a.rows];
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk) {
        for (int64_t row = plan.bounds[chunk]; row < plan.bounds[chunk + 1]; ++row) {
            const int64_t begin = t.a.indptr[row], end = t.a.indptr[row + 1];
            if (end - begin > kHubSegment) continue;
            sum_edges<T, I, Weighted>(t, begin, end, limit, t.y + row * t.width);
            scale_row(t.y + row * t.width, t.width, t.row_scale, row);
        }
    }
    for (int64_t h = 0; h < plan.hub_count; ++h) sum_hub<T, I, Weighted>(t, plan.hubs[h], threads);
}

}  // namespace kernels
