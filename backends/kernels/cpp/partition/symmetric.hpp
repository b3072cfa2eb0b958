// The undirected graph of directed edges that come in pieces: neighbours of either direction, once each.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace kernels {

// Take the next of a counter that several threads share.
inline int64_t take(int64_t& counter, bool shared) {
    int64_t value;
    if (shared) {
#pragma omp atomic capture
        value = counter++;
    } else {
        value = counter++;
    }
    return value;
}

// Add each edge to the degrees [nodes] of both ends; self loops count nowhere.
inline void count_ends(const int32_t* sources, const int32_t* destinations, int64_t edges, int64_t* degrees,
                       int threads) {
    const bool shared = threads > 1;
#pragma omp parallel for num_threads(threads) schedule(static) if (edges > 4096)
    for (int64_t edge = 0; edge < edges; ++edge) {
        if (sources[edge] == destinations[edge]) continue;
        take(degrees[sources[edge]], shared), take(degrees[destinations[edge]], shared);
    }
}

// Write each end that is at least `first` and below `last` as a place for the other: `next` [last - first] are places
// in `out`.
inline void scatter_ends(const int32_t* sources, const int32_t* destinations, int64_t edges, int32_t first,
                         int32_t last, int64_t* next, int32_t* out, int threads) {
    const bool shared = threads > 1;
#pragma omp parallel for num_threads(threads) schedule(static) if (edges > 4096)
    for (int64_t edge = 0; edge < edges; ++edge) {
        const int32_t source = sources[edge], destination = destinations[edge];
        if (source == destination) continue;
        if (source >= first && source < last) out[take(next[source - first], shared)] = destination;
        if (destination >= first && destination < last) out[take(next[destination - first], shared)] = source;
    }
}

// Sort the rows that begin at `starts` [rows + 1] and keep each value once, in place and without gaps; `lengths` [rows]
// are what is left. Returns their sum. The order in which the values came does not matter.
inline int64_t sort_rows(const int64_t* starts, int64_t rows, int32_t* values, int64_t* lengths, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 256) if (rows > 512)
    for (int64_t row = 0; row < rows; ++row) {
        int32_t *begin = values + starts[row], *end = values + starts[row + 1];
        if (!std::is_sorted(begin, end)) std::sort(begin, end);
        lengths[row] = std::unique(begin, end) - begin;
    }
    int64_t total = 0;
    for (int64_t row = 0; row < rows; ++row) {
        std::memmove(values + total, values + starts[row], lengths[row] * sizeof(int32_t));
        total += lengths[row];
    }
    return total;
}

}  // namespace kernels
