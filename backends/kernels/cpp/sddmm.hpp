// Inner products of the rows at both ends of each edge, head by head, and the sums that carry their gradients back.
#pragma once
#include "spmm.hpp"

namespace kernels {

constexpr int64_t kEdgeChunk = 2048;  // edges dealt to a thread at a time

template <class T>
inline T inner(const T* a, const T* b, int64_t width) {
    constexpr int64_t step = 4 * lanes<T>;
    vec<T> acc[4] = {};
    int64_t c = 0;
    for (; c + step <= width; c += step)
        for (int v = 0; v < 4; ++v) acc[v] += load(a + c + v * lanes<T>) * load(b + c + v * lanes<T>);
    for (; c + lanes<T> <= width; c += lanes<T>) acc[0] += load(a + c) * load(b + c);
    T total = sum<T>((acc[0] + acc[1]) + (acc[2] + acc[3]));
    for (; c < width; ++c) total += a[c] * b[c];
    return total;
}

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
};

template <class T, class I>
inline void sum_head(const HeadSumTask<T, I>& t, int64_t row, int64_t h) {
    const int64_t stride = t.heads * t.width;
    T* __restrict to = t.y + row * stride + h * t.width;
    std::fill_n(to, t.width, T(0));
    for (int64_t e = t.a.indptr[row]; e < t.a.indptr[row + 1]; ++e) {
        const int64_t place = t.place != nullptr ? int64_t(t.place[e]) : e;
        const T factor = t.factor[place * t.heads + h];
        const T* from = t.x + int64_t(t.a.indices[e]) * stride + h * t.width;
        for (int64_t c = 0; c < t.width; ++c) to[c] += factor * from[c];
    }
}

// Heads are independent, so a hub's may go to different threads.
template <class T, class I>
void sum_heads(const HeadSumTask<T, I>& t, const RowPlan& plan, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
        for (int64_t row = plan.bounds[chunk]; row < plan.bounds[chunk + 1]; ++row)
            if (t.a.indptr[row + 1] - t.a.indptr[row] <= kHubSegment)
                for (int64_t h = 0; h < t.heads; ++h) sum_head(t, row, h);
    for (int64_t hub = 0; hub < plan.hub_count; ++hub) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
        for (int64_t h = 0; h < t.heads; ++h) sum_head(t, plan.hubs[hub], h);
    }
}

}  // namespace kernels
