// Eight floats or four doubles at once, unaligned; compiles to AVX2 where the build allows it.
#pragma once
#include <cstdint>
#include <cstring>

namespace kernels {

template <class T>
struct Vec;

template <>
struct Vec<float> {
    typedef float type __attribute__((vector_size(32)));
};

template <>
struct Vec<double> {
    typedef double type __attribute__((vector_size(32)));
};

template <class T>
using vec = typename Vec<T>::type;

template <class T>
constexpr int lanes = 32 / sizeof(T);

template <class T>
inline vec<T> load(const T* from) {
    vec<T> value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

template <class T>
inline void store(T* to, vec<T> value) {
    std::memcpy(to, &value, sizeof value);
}

template <class T>
inline vec<T> broadcast(T value) {
    return value - vec<T>{};  // not a sum: that must turn -0 into 0 and costs an addition
}

template <class T>
inline T sum(vec<T> value) {
    T total = 0;
    for (int i = 0; i < lanes<T>; ++i) total += value[i];
    return total;
}

// Offset of the v-th vector of a row: the last one is moved back to end with the row, so that no tail is left.
// It then overlaps the one before: both must be loaded before either is stored, so they belong to one group. Groups of
// equal size (to within one) of at most kGroup vectors hold at least two whenever there is more than one group.
template <class T>
inline int64_t offset(int64_t v, int64_t width) {
    const int64_t start = v * lanes<T>;
    return start + lanes<T> <= width ? start : width - lanes<T>;
}

}  // namespace kernels
