// The undirected graph of directed edges, of a matrix or in pieces: neighbours of either direction, once each.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "common/counting.hpp"
#include "common/failures.hpp"
#include "common/matrix.hpp"

namespace kernels {

// Move rows that begin at `starts` and keep `lengths` values next to each other; returns the sum of the lengths.
template <class T>
int64_t close_gaps(const int64_t* starts, int64_t rows, T* values, const int64_t* lengths) {
    int64_t total = 0;
    for (int64_t row = 0; row < rows; ++row) {
        std::memmove(values + total, values + starts[row], lengths[row] * sizeof(T));
        total += lengths[row];
    }
    return total;
}

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
    return close_gaps(starts, rows, values, lengths);
}

// Call `call(other)` for each other node that a row lists; it ascends.
template <class I, class Call>
void for_each_other(const CsrView<I>& a, int64_t row, const Call& call) {
    for (int64_t edge = a.indptr[row]; edge < a.indptr[row + 1]; ++edge) {
        const bool repeated = edge > a.indptr[row] && a.indices[edge] == a.indices[edge - 1];
        if (a.indices[edge] != row && !repeated) call(int64_t(a.indices[edge]));
    }
}

// The directions of an edge between a node and a neighbour, as bits.
enum Direction : uint8_t { kFromNeighbour = 1, kToNeighbour = 2 };

// The neighbours of one node, and the directions of the edges to them.
struct Merged {
    std::vector<int32_t> values;
    std::vector<uint8_t> directions;
};

// Merge two ascending lists, what a node lists (edges from its neighbours) and what lists it, each value once.
inline void merge_directions(const int32_t* listed, const int32_t* middle, const int32_t* end, Merged& merged) {
    const int32_t* listing = middle;
    merged.values.clear(), merged.directions.clear();
    while (listed < middle || listing < end) {
        const bool from = listed < middle && (listing == end || *listed <= *listing);
        const bool to = listing < end && (listed == middle || *listing <= *listed);
        merged.values.push_back(from ? *listed : *listing);
        merged.directions.push_back((from ? kFromNeighbour : 0) | (to ? kToNeighbour : 0));
        listed += from, listing += to;
    }
}

// The same of a square matrix whose rows ascend, without sorting: each row takes what it lists, then the rows that list
// it, and merges the two. `values` and, unless it is null, `directions` have room for every edge twice; `starts`
// [rows + 1] is scratch memory.
template <class I>
int64_t symmetrize(const CsrView<I>& a, int64_t* starts, int32_t* values, uint8_t* directions, int64_t* lengths,
                   int threads) {
    // a part of the rows for each thread has places of its own for all columns, no more in all than there are edges
    const int parts = int(std::clamp(a.edges() / std::max(a.rows, int64_t(1)), int64_t(1), int64_t(threads)));
    const std::vector<int64_t> cuts = cut_rows(a, parts);
    Counts<int64_t> listing(parts, a.rows);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int part = 0; part < parts; ++part) {
        int64_t* count = listing.clear(part);
        for (int64_t row = cuts[part]; row < cuts[part + 1]; ++row) {
            lengths[row] = 0;
            for_each_other(a, row, [&](int64_t other) { ++lengths[row], ++count[other]; });
        }
    }
    // how many values a row gets of its own list and of each part, then where their next ones go
    std::vector<int64_t*> next{lengths};
    next.insert(next.end(), listing.rows().begin(), listing.rows().end());
    place_columns(next, a.rows, starts, threads);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int part = 0; part < parts; ++part)
        for (int64_t row = cuts[part]; row < cuts[part + 1]; ++row) {
            int32_t* own = values + starts[row];
            for_each_other(a, row, [&](int64_t other) {
                *own++ = int32_t(other);
                values[next[part + 1][other]++] = int32_t(row);
            });
            lengths[row] = own - (values + starts[row]);
        }
    for_each<Merged>(a.rows, 256, threads, [&](int64_t row, Merged& merged) {
        int32_t *begin = values + starts[row], *middle = begin + lengths[row], *end = values + starts[row + 1];
        if (directions != nullptr) {
            merge_directions(begin, middle, end, merged);
            std::copy(merged.directions.begin(), merged.directions.end(), directions + starts[row]);
        } else {
            merged.values.clear();
            std::set_union(begin, middle, middle, end, std::back_inserter(merged.values));
        }
        std::copy(merged.values.begin(), merged.values.end(), begin);
        lengths[row] = int64_t(merged.values.size());
    });
    if (directions != nullptr) close_gaps(starts, a.rows, directions, lengths);
    return close_gaps(starts, a.rows, values, lengths);
}

}  // namespace kernels
