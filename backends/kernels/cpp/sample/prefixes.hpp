// The first edges of each row of a matrix: a layer's part of a neighbourhood that was sampled by a larger fanout.
#pragma once
#include <algorithm>

#include "sample/numbering.hpp"

namespace kernels {

// Rows of a matrix shortened to their first `most` edges.
template <class T>
struct Prefixes {
    const T* indptr;
    int64_t rows, most;

    int64_t kept(int64_t row) const { return std::min<int64_t>(indptr[row + 1] - indptr[row], most); }
    // The row from which on none is too long: only nodes near the targets are, and they come first.
    int64_t shortened() const {
        int64_t row = rows;
        while (row > 0 && indptr[row] - indptr[row - 1] <= most) --row;
        return row;
    }
    // Write the bounds of the rows [rows + 1]; returns how many edges they keep.
    int64_t write_starts(T* starts) const {
        int64_t at = 0;
        const int64_t first = shortened();
        for (int64_t row = 0; row < first; ++row) starts[row] = T(at), at += kept(row);
        const int64_t moved = indptr[first] - at;
        for (int64_t row = first; row <= rows; ++row) starts[row] = T(indptr[row] - moved);
        return indptr[rows] - moved;
    }
    // Write what `values` [nnz] holds of the kept edges.
    template <class V>
    void take(const V* values, const T* starts, V* out, int threads) const {
        const int64_t first = shortened(), end = indptr[rows];
        for (int64_t row = 0; row < first; ++row) std::copy_n(values + indptr[row], kept(row), out + starts[row]);
        const int64_t from = indptr[first], parts = workers(end - from, threads);
#pragma omp parallel for num_threads(parts) schedule(static, 1)
        for (int64_t part = 0; part < parts; ++part) {
            const int64_t begin = (end - from) * part / parts, last = (end - from) * (part + 1) / parts;
            std::copy(values + from + begin, values + from + last, out + starts[first] + begin);
        }
    }
};

}  // namespace kernels
