// Softmax of edge scores over each row's edges, head by head, and its gradient; a hub's edges are split among threads.
#pragma once
#include <algorithm>
#include <vector>

#include "common/exponential.hpp"
#include "common/matrix.hpp"

namespace kernels {

constexpr int64_t kSoftmaxBlock = 512;  // scores that stay in cache between difference, exponential and sum

template <class T, class I>
struct SoftmaxTask {
    const I* indptr;
    const T* in;    // [nnz, heads]: scores; in the backward pass their softmax
    const T* grad;  // [nnz, heads] of the softmax; null in the forward pass
    T* out;         // [nnz, heads]
    int64_t heads;
};

// Call body(k, h) for the places k of [first, first + size) and their heads; `first` belongs to head 0.
template <class Body>
inline void for_each_score(int64_t first, int64_t size, int64_t heads, Body body) {
    if (heads == 1)
        for (int64_t k = first; k < first + size; ++k) body(k, 0);
    else
        for (int64_t k = first; k < first + size; k += heads)
            for (int64_t h = 0; h < heads; ++h) body(k + h, h);
}

// One row in pieces of kHubSegment edges: the values of the pieces are joined in their order.
template <class T, class I>
struct SoftmaxRow {
    const SoftmaxTask<T, I>& t;
    int64_t begin, end, pieces;
    int threads;

    SoftmaxRow(const SoftmaxTask<T, I>& task, int64_t row, int threads_)
        : t(task), begin(task.indptr[row]), end(task.indptr[row + 1]),
          pieces((end - begin + kHubSegment - 1) / kHubSegment), threads(threads_) {}

    template <class Work>  // work(first, size, values): `values` [heads] is the piece's own
    void for_each_piece(std::vector<T>& values, Work work) const {
        if (pieces == 1) return work(begin * t.heads, (end - begin) * t.heads, values.data());
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
        for (int64_t piece = 0; piece < pieces; ++piece) {
            const int64_t from = begin + piece * kHubSegment, to = std::min(from + kHubSegment, end);
            work(from * t.heads, (to - from) * t.heads, values.data() + piece * t.heads);
        }
    }

    template <class Join>
    void join(std::vector<T>& values, Join join) const {
        for (int64_t piece = 1; piece < pieces; ++piece)
            for (int64_t h = 0; h < t.heads; ++h) values[h] = join(values[h], values[piece * t.heads + h]);
    }
};

template <class T>
inline void exponentials_of(const T* in, T* out, int64_t first, int64_t size, int64_t heads, const T* top, T* total) {
    for_each_score(first, size, heads, [&](int64_t k, int64_t h) { out[k] = in[k] - top[h]; });
    int64_t k = first;
    for (; k + lanes<T> <= first + size; k += lanes<T>) store(out + k, exponential_or_zero<T>(load(out + k)));
    T rest[lanes<T>] = {};
    std::copy(out + k, out + first + size, rest);
    store(rest, exponential_or_zero<T>(load(rest)));
    std::copy_n(rest, first + size - k, out + k);
    for_each_score(first, size, heads, [&](int64_t k, int64_t h) { total[h] += out[k]; });
}

template <class T, class I>
void softmax_row(const SoftmaxTask<T, I>& t, int64_t row, std::vector<T>& top, std::vector<T>& total, int threads) {
    const SoftmaxRow<T, I> whole(t, row, threads);
    top.assign(whole.pieces * t.heads, T(-INFINITY));
    total.assign(whole.pieces * t.heads, T(0));
    whole.for_each_piece(top, [&](int64_t first, int64_t size, T* own) {
        for_each_score(first, size, t.heads, [&](int64_t k, int64_t h) { own[h] = std::max(own[h], t.in[k]); });
    });
    whole.join(top, [](T a, T b) { return std::max(a, b); });
    whole.for_each_piece(total, [&](int64_t first, int64_t size, T* own) {
        const int64_t step = std::max(kSoftmaxBlock / t.heads, int64_t(1)) * t.heads;
        for (int64_t at = first; at < first + size; at += step)
            exponentials_of(t.in, t.out, at, std::min(step, first + size - at), t.heads, top.data(), own);
    });
    whole.join(total, [](T a, T b) { return a + b; });
    for (T& value : total) value = T(1) / value;
    whole.for_each_piece(total, [&](int64_t first, int64_t size, T*) {
        for_each_score(first, size, t.heads, [&](int64_t k, int64_t h) { t.out[k] *= total[h]; });
    });
}

template <class T, class I>
void softmax_row_backward(const SoftmaxTask<T, I>& t, int64_t row, std::vector<T>& dot, int threads) {
    const SoftmaxRow<T, I> whole(t, row, threads);
    dot.assign(whole.pieces * t.heads, T(0));
    whole.for_each_piece(dot, [&](int64_t first, int64_t size, T* own) {
        for_each_score(first, size, t.heads, [&](int64_t k, int64_t h) { own[h] += t.in[k] * t.grad[k]; });
    });
    whole.join(dot, [](T a, T b) { return a + b; });
    whole.for_each_piece(dot, [&](int64_t first, int64_t size, T*) {
        for_each_score(first, size, t.heads, [&](int64_t k, int64_t h) { t.out[k] = t.in[k] * (t.grad[k] - dot[h]); });
    });
}

template <class T, class I>
void edge_softmax(const SoftmaxTask<T, I>& t, const RowPlan& plan, int threads) {
    const auto work = [&t](int64_t row, std::vector<T>& one, std::vector<T>& other, int workers) {
        if (t.indptr[row] == t.indptr[row + 1]) return;
        if (t.grad == nullptr) return softmax_row(t, row, one, other, workers);
        softmax_row_backward(t, row, one, workers);
    };
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int64_t chunk = 0; chunk < plan.chunks; ++chunk) {
        std::vector<T> one, other;
        for (int64_t row = plan.bounds[chunk]; row < plan.bounds[chunk + 1]; ++row)
            if (t.indptr[row + 1] - t.indptr[row] <= kHubSegment) work(row, one, other, 1);
    }
    std::vector<T> one, other;
    for (int64_t hub = 0; hub < plan.hub_count; ++hub) work(plan.hubs[hub], one, other, threads);
}

}  // namespace kernels
