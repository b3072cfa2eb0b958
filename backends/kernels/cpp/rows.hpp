// Some rows of a matrix, copied, and how many columns its edges name.
#pragma once
#include <atomic>
#include <vector>

#include "spmm.hpp"

namespace kernels {

constexpr int64_t kRowsCopied = 256;  // at once, by one thread

// Copy the edges of `rows` [count] to where `starts` [count + 1] says; weights only where there are any.
template <class T, class I>
void copy_rows(const CsrView<I>& a, const T* weight, const int64_t* rows, const I* starts, int64_t count, I* indices,
               T* weights, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, kRowsCopied)
    for (int64_t i = 0; i < count; ++i) {
        const int64_t begin = a.indptr[rows[i]], edges = starts[i + 1] - starts[i];
        std::copy_n(a.indices + begin, edges, indices + starts[i]);
        if (weight != nullptr) std::copy_n(weight + begin, edges, weights + starts[i]);
    }
}

// How many of the columns 0 to `columns` are named at least once.
template <class I>
int64_t count_distinct(const I* indices, int64_t edges, int64_t columns, int threads) {
    std::vector<uint8_t> named(columns);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t e = 0; e < edges; ++e) {
        std::atomic_ref<uint8_t> one(named[indices[e]]);
        if (!one.load(std::memory_order_relaxed)) one.store(1, std::memory_order_relaxed);
    }
    int64_t count = 0;
    for (const uint8_t one : named) count += one;
    return count;
}

}  // namespace kernels
