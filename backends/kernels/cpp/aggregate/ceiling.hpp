// Memory traffic without arithmetic, the ceilings of this machine: streams, and rows gathered in the order of an index.
// Results are not stored: sums stay in registers and are returned, so that the compiler removes no load.
#pragma once
#include <algorithm>
#include <cstdint>

#include "common/dispatch.hpp"
#include "common/gather.hpp"

namespace kernels {

constexpr int64_t kGatherChunk = 1 << 10;  // edges per thread at a time, at least
constexpr int kSums = 8;                   // registers that sum a stream

struct Gathering {
    const float* table;      // [*, width]
    const int32_t* indices;  // [count]
    int64_t count, width, ahead;
};

// Sum some columns of the rows of edges [begin, end), which are prefetched `ahead` edges before, or not at all where
// that is 0. A tail shorter than a vector is read by one that ends with the columns.
struct ColumnSums {
    using Function = double (*)(const Gathering&, Columns, int64_t, int64_t);

    template <int N, int V>
    static double run(const Gathering& g, Columns columns, int64_t begin, int64_t end) {
        // narrow rows in several sums at once: one sum would wait for its own last addition
        constexpr int kChains = V == 1 ? 8 : V == 2 ? 4 : V <= 4 ? 2 : 1;
        vecn<float, N> acc[kChains][V] = {};
        const float* from = g.table + columns.first;
        const int64_t fetched = g.ahead > 0 ? std::min(end, std::max(begin, g.count - g.ahead)) : begin;
        int64_t e = begin;
        for (; e + kChains <= fetched; e += kChains) {
#pragma GCC unroll 8
            for (int c = 0; c < kChains; ++c) {
                prefetch<float, N, V>(from + int64_t(g.indices[e + c + g.ahead]) * g.width);
                add<N, V>(acc[c], from + int64_t(g.indices[e + c]) * g.width, columns.width);
            }
        }
        for (; e + kChains <= end; e += kChains) {
#pragma GCC unroll 8
            for (int c = 0; c < kChains; ++c)
                add<N, V>(acc[c], from + int64_t(g.indices[e + c]) * g.width, columns.width);
        }
        for (; e < end; ++e) add<N, V>(acc[0], from + int64_t(g.indices[e]) * g.width, columns.width);
        double total = 0;
        for (const auto& chain : acc)
            for (const auto& part : chain) total += sum_pack<float, N>(part);
        return total;
    }

    template <int N, int V>
    static void add(vecn<float, N> (&acc)[V], const float* row, int64_t width) {
#pragma GCC unroll 16
        for (int v = 0; v < V; ++v) acc[v] += load_pack<N>(row + column<N, V>(v, width));
    }

    template <int N, int V>
    Function pick() const {
        return &run<N, V>;
    }
};

// Sum the rows of a gathering, `block` edges at a time, and of these one group of columns after the other: few edges
// read whole rows, many find the lines of a group in a nearer cache.
inline double gather_rows(const Gathering& g, int64_t block, int threads) {
    const Cut<float> cut(g.width);
    const int64_t blocks = std::max<int64_t>(1, kGatherChunk / block);
    double total = 0;
#pragma omp parallel for num_threads(threads) schedule(dynamic, blocks) reduction(+ : total)
    for (int64_t begin = 0; begin < g.count; begin += block) {
        const int64_t end = std::min(begin + block, g.count);
        for (int64_t group = 0; group < cut.groups; ++group) {
            const Columns columns = cut.group(group);
            total += choose<float>(columns.width, ColumnSums{})(g, columns, begin, end);
        }
    }
    return total;
}

// Read `count` floats once.
inline double read_stream(const float* from, int64_t count, int threads) {
    constexpr int64_t block = kSums * lanes<float>;
    const int64_t blocks = count / block;
    double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        vec<float> acc[kSums]{};
#pragma omp for schedule(static)
        for (int64_t b = 0; b < blocks; ++b) {
            for (int v = 0; v < kSums; ++v) acc[v] += load(from + b * block + v * lanes<float>);
        }
        for (const auto& part : acc) total += sum<float>(part);
    }
    for (int64_t i = blocks * block; i < count; ++i) total += from[i];
    return total;
}

// a = b + scale * c over `count` floats.
inline void triad(float* a, const float* b, const float* c, float scale, int64_t count, int threads) {
#pragma omp parallel for simd num_threads(threads) schedule(static)
    for (int64_t i = 0; i < count; ++i) a[i] = b[i] + scale * c[i];
}

}  // namespace kernels
