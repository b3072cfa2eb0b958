// e^x and log(1 + x) of a vector of floats; doubles, which only checks use, go through the C library.
#pragma once
#include <cmath>

#include "common/vector.hpp"

namespace kernels {

template <class T>
struct BitsOf {
    using scalar = int32_t;
    typedef int32_t type __attribute__((vector_size(kVectorBytes)));
};
template <>
struct BitsOf<double> {
    using scalar = int64_t;
    typedef int64_t type __attribute__((vector_size(kVectorBytes)));
};

template <class T>
inline vec<T> maximum(vec<T> a, vec<T> b) {
    return a > b ? a : b;
}

// e^x = power * (1 + fraction).
struct Exponential {
    vec<float> power, fraction;
};

// For x <= 0 to about 2 ulp: range reduction and polynomial of Cephes' expf.
inline Exponential split_exponential(vec<float> x) {
    const vec<float> round = broadcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
    x = maximum<float>(x, broadcast(-87.0f));
    const vec<float> n = (x * 1.44269504088896341f + round) - round;
    const vec<float> r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vec<float> p = broadcast(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r;
    const BitsOf<float>::type bits = (__builtin_convertvector(n, BitsOf<float>::type) + 127) << 23;
    vec<float> power;
    std::memcpy(&power, &bits, sizeof power);
    return {power, p};
}

// e^x for x <= 0.
inline vec<float> exponential(vec<float> x) {
    const Exponential e = split_exponential(x);
    return (e.fraction + 1.0f) * e.power;
}

inline vec<double> exponential(vec<double> x) {
    for (int i = 0; i < lanes<double>; ++i) x[i] = std::exp(x[i]);
    return x;
}

// e^x - 1 for x <= 0, as exact near 0.
inline vec<float> exponential_minus_one(vec<float> x) {
    const Exponential e = split_exponential(x);
    return e.fraction * e.power + (e.power - 1.0f);
}

inline vec<double> exponential_minus_one(vec<double> x) {
    for (int i = 0; i < lanes<double>; ++i) x[i] = std::expm1(x[i]);
    return x;
}

// e^x for x <= 0, exactly 0 where that underflows (a masked score is -infinity) and NaN for NaN.
template <class T>
inline vec<T> exponential_or_zero(vec<T> x) {
    constexpr T underflow = sizeof(T) == 4 ? T(-87) : T(-708);
    const vec<T> power = x < broadcast(underflow) ? vec<T>{} : exponential(x);
    return x == x ? power : x;
}

// log(1 + e) for e in [-1/2, 1] as 2 artanh(e / (2 + e)); the series' next term is below float's rounding.
inline vec<float> log_one_plus(vec<float> e) {
    const vec<float> s = e / (e + 2.0f), q = s * s;
    vec<float> p = broadcast(1.0f / 15);
    p = p * q + 1.0f / 13;
    p = p * q + 1.0f / 11;
    p = p * q + 1.0f / 9;
    p = p * q + 1.0f / 7;
    p = p * q + 1.0f / 5;
    p = p * q + 1.0f / 3;
    return 2.0f * s * (p * q + 1.0f);
}

inline vec<double> log_one_plus(vec<double> e) {
    for (int i = 0; i < lanes<double>; ++i) e[i] = std::log1p(e[i]);
    return e;
}

// log(x) of normal, finite x > 0, and NaN for NaN: the exponent, and the series of a mantissa from sqrt(1/2) to sqrt(2).
inline vec<float> logarithm(vec<float> x) {
    BitsOf<float>::type bits;
    std::memcpy(&bits, &x, sizeof bits);
    const BitsOf<float>::type power = (bits - 0x3f3504f3) >> 23;
    bits -= power << 23;
    vec<float> mantissa;
    std::memcpy(&mantissa, &bits, sizeof mantissa);
    const vec<float> exponent = __builtin_convertvector(power, vec<float>);
    return x == x ? log_one_plus(mantissa - 1.0f) + exponent * 0.69314718055994531f : x;
}

inline vec<double> logarithm(vec<double> x) {
    for (int i = 0; i < lanes<double>; ++i) x[i] = std::log(x[i]);
    return x;
}

}  // namespace kernels
