// Binary cross entropy of logits and its gradient in one pass over memory.
#pragma once
#include <algorithm>
#include <vector>

#include "common/exponential.hpp"

namespace kernels {

constexpr int64_t kLossChunk = 1 << 14;  // entries of one partial sum; fixed, so that threads change no result

// One vector of entries: stores their gradients, returns their losses.
template <class T>
inline vec<T> entropy(vec<T> z, vec<T> y, vec<T> share, T* gradient) {
    const vec<T> zero{}, one = broadcast(T(1));
    const vec<T> e = exponential(z > zero ? -z : z), inverse = one / (one + e);
    store(gradient, share * ((z > zero ? inverse : e * inverse) - y));
    return share * ((z > zero ? z : zero) - z * y + log_one_plus(e));
}

// Return the sum of share * bce(logit, target); `gradient` [n] gets share * (sigmoid(logit) - target).
template <class T>
double binary_cross_entropy(const T* logits, const T* targets, const T* share, T constant, T* gradient, int64_t count,
                            int threads) {
    const int64_t chunks = (count + kLossChunk - 1) / kLossChunk;
    std::vector<double> partial(chunks);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const int64_t begin = chunk * kLossChunk, end = std::min(begin + kLossChunk, count);
        vec<T> lane{};
        int64_t at = begin;
        for (; at + lanes<T> <= end; at += lanes<T>)
            lane += entropy(load(logits + at), load(targets + at),
                            share != nullptr ? load(share + at) : broadcast(constant), gradient + at);
        if (at < end) {
            T part[4][lanes<T>] = {};
            std::copy(logits + at, logits + end, part[0]);
            std::copy(targets + at, targets + end, part[1]);
            for (int64_t i = at; i < end; ++i) part[2][i - at] = share != nullptr ? share[i] : constant;
            lane += entropy(load(part[0]), load(part[1]), load(part[2]), part[3]);
            std::copy(part[3], part[3] + (end - at), gradient + at);
        }
        partial[chunk] = sum<T>(lane);
    }
    double total = 0;
    for (const double value : partial) total += value;
    return total;
}

}  // namespace kernels
