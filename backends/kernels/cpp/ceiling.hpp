// What this machine reaches when nothing but memory is asked for: streams, and rows gathered in a given order.
// No matrix structure, no stores of results: sums stay in registers and are returned so that no load can be left out.
#pragma once
#include <algorithm>
#include <cstdint>

#include "vector.hpp"

namespace kernels {

constexpr int64_t kGatherChunk = 1 << 12;  // rows of one thread at a time
constexpr int kSums = 8;                   // registers that sum

struct RowSum {
    vec<float> acc[kSums]{};
    float rest = 0;

    // Add a row; a tail shorter than a vector is read by a vector that ends with the row.
    void add(const float* row, int64_t width) {
        int64_t c = 0;
        for (; c + kSums * lanes<float> <= width; c += kSums * lanes<float>)
            for (int v = 0; v < kSums; ++v) acc[v] += load(row + c + v * lanes<float>);
        int v = 0;
        for (; c + lanes<float> <= width; c += lanes<float>, ++v) acc[v] += load(row + c);
        if (c == width) return;
        if (width >= lanes<float>)
            acc[kSums - 1] += load(row + width - lanes<float>);
        else
            for (; c < width; ++c) rest += row[c];
    }

    float total() const {
        float all = rest;
        for (const auto& part : acc) all += sum<float>(part);
        return all;
    }
};

// Sum rows `indices` [count] of `table` [*, width], prefetching `ahead` rows before each is used.
inline double gather_rows(const float* table, const int32_t* indices, int64_t count, int64_t width, int64_t ahead,
                          int threads) {
    const int64_t lines = (width * int64_t(sizeof(float)) + 63) / 64;
    double total = 0;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) reduction(+ : total)
    for (int64_t begin = 0; begin < count; begin += kGatherChunk) {
        const int64_t end = std::min(begin + kGatherChunk, count);
        RowSum rows;
        for (int64_t e = begin; e < end; ++e) {
            const float* next = table + int64_t(indices[std::min(e + ahead, count - 1)]) * width;
            for (int64_t line = 0; line < lines; ++line) __builtin_prefetch(next + 16 * line, 0, 3);
            rows.add(table + int64_t(indices[e]) * width, width);
        }
        total += rows.total();
    }
    return total;
}

// Read `count` floats once.
inline double read_stream(const float* from, int64_t count, int threads) {
    constexpr int64_t block = 1 << 14;
    double total = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : total)
    for (int64_t begin = 0; begin < count; begin += block) {
        RowSum rows;
        rows.add(from + begin, std::min(block, count - begin));
        total += rows.total();
    }
    return total;
}

// a = b + scale * c over `count` floats.
inline void triad(float* a, const float* b, const float* c, float scale, int64_t count, int threads) {
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (int64_t i = 0; i < count; ++i) a[i] = b[i] + scale * c[i];
}

}  // namespace kernels
