// Rows of a matrix: copied out, results put back in their places, cut into pieces; checks and counts of its indices.
#pragma once
#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "common/matrix.hpp"

namespace kernels {

constexpr int64_t kRowsCopied = 256;  // dealt to a thread at a time

// Copy the edges of `rows` [count] to where `starts` [count + 1] says; weights only where there are any.
template <class T, class I>
void copy_rows(const CsrView<I>& a, const T* weight, const int64_t* rows, const I* starts, int64_t count, I* indices,
               T* weights, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, kRowsCopied)
    for (int64_t i = 0; i < count; ++i) {
        const int64_t begin = a.indptr[rows[i]], edges = starts[i + 1] - starts[i];
        std::copy_n(a.indices + begin, edges, indices + starts[i]);
        if (weight != nullptr) std::copy_n(weight + begin, edges, weights + starts[i]);
    }
}

// How many of the columns 0 to `columns` occur in `indices`.
template <class I>
int64_t count_distinct(const I* indices, int64_t edges, int64_t columns, int threads) {
    std::vector<uint8_t> occurs(columns);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t e = 0; e < edges; ++e) {
        std::atomic_ref<uint8_t> flag(occurs[indices[e]]);
        if (!flag.load(std::memory_order_relaxed)) flag.store(1, std::memory_order_relaxed);
    }
    int64_t count = 0;
    for (const uint8_t flag : occurs) count += flag;
    return count;
}

// Whether every row starts where the one before ends, from 0 to `edges`, and all indices are columns of the matrix.
template <class I>
bool is_matrix(const CsrView<I>& a, int64_t edges, int64_t columns, int threads) {
    bool ascends = a.indptr[0] == 0 && a.edges() == edges;
    for (int64_t row = 0; row < a.rows; ++row) ascends &= a.indptr[row] <= a.indptr[row + 1];
    using Unsigned = std::make_unsigned_t<I>;  // a negative number is larger than any column
    Unsigned largest = 0;
#pragma omp parallel for simd num_threads(threads) schedule(static) reduction(max : largest)
    for (int64_t e = 0; e < edges; ++e) largest = std::max(largest, Unsigned(a.indices[e]));
    return ascends && (edges == 0 || uint64_t(largest) < uint64_t(columns));
}

// First rows of consecutive pieces of about equal cost, where an edge costs 1 and a row `row_cost`; [pieces + 1].
template <class I>
void cut_pieces(const I* indptr, int64_t rows, int64_t row_cost, int64_t pieces, int64_t* bounds) {
    const double step = double(indptr[rows] + row_cost * rows) / double(pieces);
    for (int64_t piece = 1; piece < pieces; ++piece) {
        int64_t low = 0, high = rows;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            const bool before = double(indptr[middle] + row_cost * middle) < step * double(piece);
            (before ? low : high) = before ? middle + 1 : middle;
        }
        bounds[piece] = low;
    }
    bounds[0] = 0, bounds[pieces] = rows;
}

// Put row i of x [count, width], times its scale, at `rows[i]` of `out` [total, width], zeros elsewhere; rows differ.
template <class T>
void spread_rows(const T* x, const T* scale, const int64_t* rows, int64_t count, int64_t width, int64_t total, T* out,
                 int threads) {
    std::vector<int64_t> from(total, -1);
    for (int64_t i = 0; i < count; ++i) from[rows[i]] = i;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < total; ++row) {
        const int64_t i = from[row];
        T* to = out + row * width;
        if (i < 0) {
            std::fill_n(to, width, T(0));
            continue;
        }
        const T factor = scale == nullptr ? T(1) : scale[i];
        for (int64_t c = 0; c < width; ++c) to[c] = factor * x[i * width + c];
    }
}

// Add row i of x [count, width] to row `rows[i]` of `out`; rows differ.
template <class T>
void add_rows(const T* x, const int64_t* rows, int64_t count, int64_t width, T* out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < count; ++i)
        for (int64_t c = 0; c < width; ++c) out[rows[i] * width + c] += x[i * width + c];
}

}  // namespace kernels
