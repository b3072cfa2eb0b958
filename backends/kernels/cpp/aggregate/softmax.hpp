// Softmax of edge scores over each row's edges, head by head, and its gradient; hubs' edges are split among threads.
#pragma once
#include <algorithm>
#include <vector>

#include "common/exponential.hpp"
#include "common/hub_segments.hpp"

namespace kernels {

constexpr int64_t kSoftmaxBlock = 512;  // scores that stay in cache between difference, exponential and sum

template <class T, class I>
struct SoftmaxTask {
    const I* indptr;
    const T* in;    // [nnz, heads]: scores; in the backward pass their softmax
    const T* grad;  // [nnz, heads] of the softmax; null in the forward pass
    T* out;         // [nnz, heads]
    int64_t heads;

    // Call body(k, h) for the scores k of edges [begin, end) and their heads.
    template <class Body>
    void for_each_score(int64_t begin, int64_t end, Body body) const {
        if (heads == 1)
            for (int64_t k = begin; k < end; ++k) body(k, 0);
        else
            for (int64_t k = begin * heads; k < end * heads; k += heads)
                for (int64_t h = 0; h < heads; ++h) body(k + h, h);
    }
};

// Raise `top` [heads] to the largest scores of edges [begin, end).
template <class T, class I>
inline void raise_top(const SoftmaxTask<T, I>& t, int64_t begin, int64_t end, T* top) {
    t.for_each_score(begin, end, [&](int64_t k, int64_t h) { top[h] = std::max(top[h], t.in[k]); });
}

// Write e^(score - top) of edges [begin, end), which stay in cache, and add them to `total` [heads].
template <class T, class I>
inline void exponentiate_block(const SoftmaxTask<T, I>& t, int64_t begin, int64_t end, const T* top, T* total) {
    T* const out = t.out;
    t.for_each_score(begin, end, [&](int64_t k, int64_t h) { out[k] = t.in[k] - top[h]; });
    const int64_t last = end * t.heads;
    int64_t k = begin * t.heads;
    for (; k + lanes<T> <= last; k += lanes<T>) store(out + k, exponential_or_zero<T>(load(out + k)));
    T rest[lanes<T>] = {};
    std::copy(out + k, out + last, rest);
    store(rest, exponential_or_zero<T>(load(rest)));
    std::copy_n(rest, last - k, out + k);
    t.for_each_score(begin, end, [&](int64_t k, int64_t h) { total[h] += out[k]; });
}

template <class T, class I>
inline void exponentiate(const SoftmaxTask<T, I>& t, int64_t begin, int64_t end, const T* top, T* total) {
    const int64_t step = std::max(kSoftmaxBlock / t.heads, int64_t(1));
    for (int64_t at = begin; at < end; at += step)
        exponentiate_block(t, at, std::min(at + step, end), top, total);
}

// Divide the exponentials of edges [begin, end) by their sums [heads].
template <class T, class I>
inline void divide(const SoftmaxTask<T, I>& t, int64_t begin, int64_t end, const T* total, std::vector<T>& inverse) {
    for (int64_t h = 0; h < t.heads; ++h) inverse[h] = T(1) / total[h];
    t.for_each_score(begin, end, [&](int64_t k, int64_t h) { t.out[k] *= inverse[h]; });
}

// Add the inner products of the softmax and its gradient over edges [begin, end) to `dot` [heads].
template <class T, class I>
inline void add_products(const SoftmaxTask<T, I>& t, int64_t begin, int64_t end, T* dot) {
    t.for_each_score(begin, end, [&](int64_t k, int64_t h) { dot[h] += t.in[k] * t.grad[k]; });
}

template <class T, class I>
inline void send_back(const SoftmaxTask<T, I>& t, int64_t begin, int64_t end, const T* dot) {
    t.for_each_score(begin, end, [&](int64_t k, int64_t h) { t.out[k] = t.in[k] * (t.grad[k] - dot[h]); });
}

// Values per head of one row, or of one thread's segment.
template <class T>
struct SoftmaxSums {
    std::vector<T> top, total, inverse;

    explicit SoftmaxSums(int64_t heads) : top(heads), total(heads), inverse(heads) {}
    void start() {
        std::fill(top.begin(), top.end(), T(-INFINITY));
        std::fill(total.begin(), total.end(), T(0));
    }
};

template <class T, class I>
void softmax_row(const SoftmaxTask<T, I>& t, int64_t begin, int64_t end, SoftmaxSums<T>& sums) {
    sums.start();
    if (t.grad != nullptr) {
        add_products(t, begin, end, sums.total.data());
        return send_back(t, begin, end, sums.total.data());
    }
    raise_top(t, begin, end, sums.top.data());
    exponentiate(t, begin, end, sums.top.data(), sums.total.data());
    divide(t, begin, end, sums.total.data(), sums.inverse);
}

// Segments of hubs are joined in their order. Each thread has sums of its own: those of two segments share cache lines.
template <class T, class I>
void softmax_hubs(const SoftmaxTask<T, I>& t, const RowPlan& plan, int threads) {
    const HubSegments<I> segments(t.indptr, plan);
    const int64_t count = segments.count();
    std::vector<T> top(count * t.heads), total(count * t.heads);
    const auto of_hub = [&](const std::vector<T>& values, const HubSegment& segment) {
        return values.data() + segments.first_of(segment.hub) * t.heads;
    };
#pragma omp parallel num_threads(threads)
    {
        SoftmaxSums<T> mine(t.heads);
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < count; ++s) {
            mine.start();
            if (t.grad == nullptr) raise_top(t, segments[s].begin, segments[s].end, mine.top.data());
            std::copy_n(mine.top.begin(), t.heads, top.begin() + s * t.heads);
        }
#pragma omp for schedule(static)
        for (int64_t hub = 0; hub < plan.hub_count; ++hub)
            segments.joined(top, t.heads, hub, [](T a, T b) { return std::max(a, b); });
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < count; ++s) {
            const HubSegment segment = segments[s];
            mine.start();
            if (t.grad == nullptr)
                exponentiate(t, segment.begin, segment.end, of_hub(top, segment), mine.total.data());
            else
                add_products(t, segment.begin, segment.end, mine.total.data());
            std::copy_n(mine.total.begin(), t.heads, total.begin() + s * t.heads);
        }
#pragma omp for schedule(static)
        for (int64_t hub = 0; hub < plan.hub_count; ++hub) segments.summed(total, t.heads, hub);
#pragma omp for schedule(dynamic, 1)
        for (int64_t s = 0; s < count; ++s) {
            const HubSegment segment = segments[s];
            if (t.grad == nullptr)
                divide(t, segment.begin, segment.end, of_hub(total, segment), mine.inverse);
            else
                send_back(t, segment.begin, segment.end, of_hub(total, segment));
        }
    }
}

template <class T, class I>
void edge_softmax(const SoftmaxTask<T, I>& t, const RowPlan& plan, int threads) {
#pragma omp parallel num_threads(threads)
    {
        SoftmaxSums<T> mine(t.heads);
#pragma omp for schedule(dynamic, 1)
        for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
            for (int64_t row = plan.bounds[chunk]; row < plan.bounds[chunk + 1]; ++row) {
                const int64_t begin = t.indptr[row], end = t.indptr[row + 1];
                if (begin < end && end - begin <= kHubSegment) softmax_row(t, begin, end, mine);
            }
    }
    if (plan.hub_count > 0) softmax_hubs(t, plan, threads);
}

}  // namespace kernels
