// The counter-based randomness of datasets/randomness.py, bit for bit. A source that computes keys with it is compiled
// without contraction: a fused multiply-add would round them differently from numpy.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace kernels {

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;

// Finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
inline uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
}

inline uint64_t keyed(uint64_t key, int64_t id) {
    return mix(mix(uint64_t(id) * kGamma + key) + kGamma);
}

// Uniform in (0, 1].
inline double unit_interval(uint64_t hash) {
    return double(int64_t(hash >> 11) + 1) * 0x1p-53;
}

// Uniform from 0 to below `bound`: the high word of a 64 x 64-bit product.
inline int64_t below(uint64_t hash, int64_t bound) {
    return int64_t((unsigned __int128)(hash) * uint64_t(bound) >> 64);
}

// Natural logarithm of a normal positive number: 2 artanh((m - 1) / (m + 1)) + e log 2, m in [sqrt(1/2), sqrt(2)).
inline double logarithm(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const uint64_t half = (bits & 0x000FFFFFFFFFFFFF) | 0x3FE0000000000000;
    double mantissa, exponent = double(int64_t(bits >> 52) - 1022);
    std::memcpy(&mantissa, &half, sizeof mantissa);
    const bool small = mantissa < 0.70710678118654757;
    mantissa = small ? mantissa + mantissa : mantissa;
    exponent = small ? exponent - 1.0 : exponent;
    const double s = (mantissa - 1.0) / (mantissa + 1.0), square = s * s;
    double series = 0.0;
    for (int odd = 21; odd > 0; odd -= 2) series = series * square + 1.0 / odd;
    return exponent * 0.69314718055994531 + 2.0 * s * series;
}

}  // namespace kernels
