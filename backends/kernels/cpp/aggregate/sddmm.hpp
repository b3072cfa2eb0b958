// Inner products of the rows at both ends of each edge, head by head, and the sums that carry their gradients back.
#pragma once
#include <algorithm>

#include "common/dispatch.hpp"
#include "common/gather.hpp"
#include "common/hub_segments.hpp"

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
inline void sum_group(const HeadSumTask<T, I>& t, int64_t begin, int64_t end, int64_t base, int64_t span, int64_t first,
                      T* to) {
    const int64_t stride = t.heads * t.width, limit = t.a.indptr[t.a.rows];
    vec<T> acc[V] = {};
    int64_t at[V], head[V];
    for (int v = 0; v < V; ++v) {
        at[v] = base + offset<T>(first + v, span);
        head[v] = at[v] / t.width;
    }
    for (int64_t e = begin; e < end; ++e) {
        if (base + first == 0 && e + kAhead < limit)
            prefetch_row(t.x + int64_t(t.a.indices[e + kAhead]) * stride, stride);
        const T *factor = t.factors(e), *from = t.x + int64_t(t.a.indices[e]) * stride;
        for (int v = 0; v < V; ++v) acc[v] += broadcast(factor[head[v]]) * load(from + at[v]);
    }
    for (int v = 0; v < V; ++v) store(to + at[v], acc[v]);
}

template <class T, class I>
inline void sum_narrow(const HeadSumTask<T, I>& t, int64_t begin, int64_t end, int64_t head, T* to) {
    const int64_t stride = t.heads * t.width, base = head * t.width;
    T acc[lanes<T>] = {};
    for (int64_t e = begin; e < end; ++e) {
        const T *factor = t.factors(e), *from = t.x + int64_t(t.a.indices[e]) * stride + base;
        for (int64_t c = 0; c < t.width; ++c) acc[c] += factor[head] * from[c];
    }
    std::copy_n(acc, t.width, to + base);
}

// The sum of edges [begin, end) of a row, into `to` [heads, width].
template <class T, class I>
void sum_edges(const HeadSumTask<T, I>& t, int64_t begin, int64_t end, T* to) {
    const int64_t spans = t.width % lanes<T> == 0 ? 1 : t.heads, span = t.heads * t.width / spans;
    const int64_t vectors = (span + lanes<T> - 1) / lanes<T>, groups = (vectors + kGroup - 1) / kGroup;
    for (int64_t piece = 0; piece < spans * groups; ++piece) {
        if (span < lanes<T>) {
            sum_narrow(t, begin, end, piece, to);
            continue;
        }
        const int64_t base = piece / groups * span, g = piece % groups, first = g * vectors / groups;
        with_vectors<kGroup>((g + 1) * vectors / groups - first,
                             [&]<int V>() { sum_group<T, I, V>(t, begin, end, base, span, first, to); });
    }
}

template <class T, class I>
void sum_hub_heads(const HeadSumTask<T, I>& t, const RowPlan& plan, int threads) {
    const HubSegments<I> segments(t.a.indptr, plan);
    const int64_t count = segments.count(), stride = t.heads * t.width;
    std::vector<T> partial(count * stride);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < count; ++s)
            sum_edges(t, segments[s].begin, segments[s].end, partial.data() + s * stride);
#pragma omp for schedule(dynamic, 1)
        for (int64_t hub = 0; hub < plan.hub_count; ++hub)
            std::copy_n(segments.summed(partial, stride, hub), stride, t.y + segments.row(hub) * stride);
    }
}

template <class T, class I>
void sum_heads(const HeadSumTask<T, I>& t, const RowPlan& plan, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
        for (int64_t row = plan.bounds[chunk]; row < plan.bounds[chunk + 1]; ++row) {
            const int64_t begin = t.a.indptr[row], end = t.a.indptr[row + 1];
            if (end - begin <= kHubSegment) sum_edges(t, begin, end, t.y + row * t.heads * t.width);
        }
    if (plan.hub_count > 0) sum_hub_heads(t, plan, threads);
}

}  // namespace kernels
