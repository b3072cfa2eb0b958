// Rows of a table gathered and written: how far ahead they are prefetched, which results are written around the caches.
#pragma once
#include <algorithm>
#include <cstdint>

#include "common/vector.hpp"

namespace kernels {

constexpr int64_t kAhead = 16;                // edges between a prefetch and its use
constexpr int64_t kStreamBytes = 32ll << 20;  // results beyond this size are written around the last cache

// Whether rows of `heads` pieces of `width` columns are to be written around the caches.
template <class T>
bool streams(const T* to, int64_t rows, int64_t heads, int64_t width) {
    return rows * heads * width * int64_t(sizeof(T)) > kStreamBytes && width % lanes<T> == 0 &&
           reinterpret_cast<uintptr_t>(to) % kVectorBytes == 0;
}

template <class T, int N, int V>
constexpr int64_t bytes_of = V * N * int64_t(sizeof(T));

// Edges between a prefetch of V vectors of N lanes and their use: more of them where they are short.
template <class T, int N, int V>
constexpr int64_t ahead_of = bytes_of<T, N, V> <= 256 ? 2 * kAhead : kAhead;

// Fetch the cache lines of V vectors at `row`.
template <class T, int N, int V>
inline void prefetch(const T* row) {
    constexpr int step = N * sizeof(T) < 64 ? 64 / (N * sizeof(T)) : 1;
#pragma GCC unroll 16
    for (int v = 0; v < V; v += step) __builtin_prefetch(row + v * N, 0, 3);
}

// Fetch a whole row, or its first lines where it is long.
template <class T>
inline void prefetch_row(const T* row, int64_t width) {
    const char* from = reinterpret_cast<const char*>(row);
    const int64_t lines = std::min<int64_t>((width * int64_t(sizeof(T)) + 63) / 64, 8);
    for (int64_t line = 0; line < lines; ++line) __builtin_prefetch(from + 64 * line, 0, 3);
}

template <class T, int N, int V>
inline void write(const vecn<T, N> (&acc)[V], T* to, int64_t width, T scale, bool streamed) {
#pragma GCC unroll 16
    for (int v = 0; v < V; ++v) {
        T* at = to + column<N, V>(v, width);
        streamed ? stream_pack<N>(at, acc[v] * scale) : store_pack<N>(at, acc[v] * scale);
    }
}

}  // namespace kernels
