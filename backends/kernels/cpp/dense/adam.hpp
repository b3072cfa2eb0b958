// One step of Adam (Kingma and Ba 2015) over the entries of one parameter, in one pass over its four arrays.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kernels {

constexpr int64_t kAdamEntries = 1 << 13;  // of one task: a second thread costs less than two of them

template <class T>
struct AdamRates {
    T decay;                  // added to the gradient: decay * parameter
    T first, second;          // shares of the new gradient, and of its square, in the running means
    T rate;                   // learning rate / (1 - beta1^step)
    T inverse_root, epsilon;  // 1 / sqrt(1 - beta2^step); added to the root of the mean square
};

template <class T>
inline void adam_entries(T* __restrict parameter, const T* __restrict gradient, T* __restrict mean, T* __restrict square,
                         const AdamRates<T> r, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const T grad = gradient[i] + r.decay * parameter[i];
        const T mean_now = mean[i] + r.first * (grad - mean[i]);
        const T square_now = (T(1) - r.second) * square[i] + r.second * grad * grad;
        mean[i] = mean_now, square[i] = square_now;
        parameter[i] -= r.rate * mean_now / (std::sqrt(square_now) * r.inverse_root + r.epsilon);
    }
}

template <class T>
void adam(T* parameter, const T* gradient, T* mean, T* square, const AdamRates<T>& rates, int64_t count, int threads) {
    const int64_t tasks = (count + kAdamEntries - 1) / kAdamEntries;
#pragma omp parallel for num_threads(threads) schedule(static) if (tasks > 1)
    for (int64_t task = 0; task < tasks; ++task) {
        const int64_t at = task * kAdamEntries, size = std::min(kAdamEntries, count - at);
        adam_entries(parameter + at, gradient + at, mean + at, square + at, rates, size);
    }
}

}  // namespace kernels
