// Inner products of the rows at both ends of each edge, head by head, and the sums that carry their gradients back.
#pragma once
#include <algorithm>

#include "common/dispatch.hpp"
#include "common/gather.hpp"
#include "common/matrix.hpp"

namespace kernels {

constexpr int64_t kEdgeChunk = 2048;  // edges dealt to a thread at a time

template <class T, class I>
struct SddmmTask {
    CsrView<I> a;
    const T* on_rows;     // [rows, heads, width]
    const T* on_columns;  // [columns, heads, width]
    T* out;               // [nnz, heads]
    int64_t heads, width;
};

template <class T, class I>
inline void inner_edges(const SddmmTask<T, I>& t, int64_t row, int64_t begin, int64_t end) {
    const int64_t stride = t.heads * t.width, limit = t.a.indptr[t.a.rows];
    for (int64_t e = begin; e < end; ++e) {
        if (e + kAhead < limit) prefetch_row(t.on_columns + int64_t(t.a.indices[e + kAhead]) * stride, stride);
        const T *one = t.on_rows + row * stride, *other = t.on_columns + int64_t(t.a.indices[e]) * stride;
        for (int64_t h = 0; h < t.heads; ++h)
            t.out[e * t.heads + h] = inner(one + h * t.width, other + h * t.width, t.width);
    }
}

// Edges are independent, so pieces are counted in edges and a hub is no special case.
template <class T, class I>
void sddmm(const SddmmTask<T, I>& t, int threads) {
    const int64_t nnz = t.a.indptr[t.a.rows], chunks = (nnz + kEdgeChunk - 1) / kEdgeChunk;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 4)
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        int64_t e = chunk * kEdgeChunk;
        const int64_t end = std::min(e + kEdgeChunk, nnz);
        int64_t row = std::upper_bound(t.a.indptr, t.a.indptr + t.a.rows + 1, I(e)) - t.a.indptr - 1;
        for (; e < end; ++row) {
            const int64_t stop = std::min<int64_t>(t.a.indptr[row + 1], end);
            inner_edges(t, row, e, stop);
            e = stop;
        }
    }
}

// y[row, h] = sum over the row's edges e of factor[place(e), h] * x[source(e), h].
template <class T, class I>
struct HeadSumTask {
    CsrView<I> a;
    const I* place;   // [nnz]: where in `factor` an edge's are, or null for its own position
    const T* factor;  // [nnz, heads]
    const T* x;       // [columns, heads, width]
    T* y;             // [rows, heads, width]
    int64_t heads, width;

    inline const T* factors(int64_t edge) const {
        return factor + (place != nullptr ? int64_t(place[edge]) : edge) * heads;
    }
};

// Vectors [first, first + V) of a span of a row's columns; a span is one head, or all where vectors cross no head.
template <class T, class I, int V>
inline void sum_group(const HeadSumTask<T, I>& t, int64_t row, int64_t base, int64_t span, int64_t first) {
    const int64_t stride = t.heads * t.width, limit = t.a.indptr[t.a.rows];
    vec<T> acc[V] = {};
    int64_t at[V], head[V];
    for (int v = 0; v < V; ++v) {
        at[v] = base + offset<T>(first + v, span);
        head[v] = at[v] / t.width;
    }
    for (int64_t e = t.a.indptr[row]; e < t.a.indptr[row + 1]; ++e) {
        if (base + first == 0 && e + kAhead < limit)
            prefetch_row(t.x + int64_t(t.a.indices[e + kAhead]) * stride, stride);
        const T *factor = t.factors(e), *from = t.x + int64_t(t.a.indices[e]) * stride;
        for (int v = 0; v < V; ++v) acc[v] += broadcast(factor[head[v]]) * load(from + at[v]);
    }
    for (int v = 0; v < V; ++v) store(t.y + row * stride + at[v], acc[v]);
}

template <class T, class I>
inline void sum_narrow(const HeadSumTask<T, I>& t, int64_t row, int64_t head) {
    const int64_t stride = t.heads * t.width, base = head * t.width;
    T acc[lanes<T>] = {};
    for (int64_t e = t.a.indptr[row]; e < t.a.indptr[row + 1]; ++e) {
        const T *factor = t.factors(e), *from = t.x + int64_t(t.a.indices[e]) * stride + base;
        for (int64_t c = 0; c < t.width; ++c) acc[c] += factor[head] * from[c];
    }
    std::copy_n(acc, t.width, t.y + row * stride + base);
}

// Groups of columns are independent, so a hub's may go to different threads.
template <class T, class I>
void sum_row(const HeadSumTask<T, I>& t, int64_t row, int threads) {
    const int64_t spans = t.width % lanes<T> == 0 ? 1 : t.heads, span = t.heads * t.width / spans;
    const int64_t vectors = (span + lanes<T> - 1) / lanes<T>, groups = (vectors + kGroup - 1) / kGroup;
    const auto work = [&](int64_t piece) {
        if (span < lanes<T>) return sum_narrow(t, row, piece);
        const int64_t base = piece / groups * span, g = piece % groups, first = g * vectors / groups;
        with_vectors<kGroup>((g + 1) * vectors / groups - first,
                             [&]<int V>() { sum_group<T, I, V>(t, row, base, span, first); });
    };
    if (threads == 1) {
        for (int64_t piece = 0; piece < spans * groups; ++piece) work(piece);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t piece = 0; piece < spans * groups; ++piece) work(piece);
}

template <class T, class I>
void sum_heads(const HeadSumTask<T, I>& t, const RowPlan& plan, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
        for (int64_t row = plan.bounds[chunk]; row < plan.bounds[chunk + 1]; ++row)
            if (t.a.indptr[row + 1] - t.a.indptr[row] <= kHubSegment) sum_row(t, row, 1);
    for (int64_t hub = 0; hub < plan.hub_count; ++hub) sum_row(t, plan.hubs[hub], threads);
}

}  // namespace kernels
