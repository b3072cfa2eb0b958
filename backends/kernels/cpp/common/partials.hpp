// Partial sums whose bounds do not depend on the number of threads, and their addition in a fixed order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace kernels {

constexpr int64_t kRowBlock = 48;      // rows whose gradients are in the nearest cache at once
constexpr int64_t kPartials = 64;      // partial sums at most
constexpr int64_t kPartialRows = 480;  // rows per partial sum at least

// Rows [chunk * size, (chunk + 1) * size) make one partial sum, of `most` or fewer.
inline int64_t partial_rows(int64_t rows, int64_t most = kPartials) {
    const int64_t even = (rows + most - 1) / most;
    const int64_t size = even < kPartialRows ? kPartialRows : even;
    return (size + kRowBlock - 1) / kRowBlock * kRowBlock;
}

inline int64_t partials_of(int64_t rows, int64_t most = kPartials) {
    return (rows + partial_rows(rows, most) - 1) / partial_rows(rows, most);
}

// to [columns] = the sum of `count` partial sums, each `stride` after the one before, in their order.
template <class T>
inline void add_partials(const T* partial, int64_t count, int64_t stride, int64_t columns, T* to) {
    std::memcpy(to, partial, columns * sizeof(T));
    for (int64_t i = 1; i < count; ++i)
        for (int64_t c = 0; c < columns; ++c) to[c] += partial[i * stride + c];
}

}  // namespace kernels
