// The transpose of a matrix by counting sort: edges of a column keep their order with any number of threads.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "common/matrix.hpp"

namespace kernels {

template <class I>
struct Transposed {
    I* indptr;       // [columns + 1]
    I* indices;      // [nnz]: the row of each edge
    I* permutation;  // [nnz]: position of each transposed edge in the forward order
    I* inverse;      // [nnz]: position of each forward edge in the transposed order
};

// Where each of `parts` equal shares of `count` begins, and the end of the last.
inline std::vector<int64_t> equal_shares(int64_t count, int parts) {
    std::vector<int64_t> cuts(parts + 1);
    for (int part = 0; part <= parts; ++part) cuts[part] = count / parts * part + count % parts * part / parts;
    return cuts;
}

// Turn each part's counts of the edges of a column into where its first one goes, and write the columns' starts.
template <class I>
void place_columns(std::vector<std::vector<I>>& at, int64_t columns, I* indptr, int threads) {
    const std::vector<int64_t> slices = equal_shares(columns, threads);
    std::vector<I> before(threads + 1);  // edges of the slices before each
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static, 1)
        for (int slice = 0; slice < threads; ++slice) {
            I sum = 0;
            for (const auto& counts : at)
                for (int64_t c = slices[slice]; c < slices[slice + 1]; ++c) sum += counts[c];
            before[slice + 1] = sum;
        }
#pragma omp single
        for (int slice = 0; slice < threads; ++slice) before[slice + 1] += before[slice];
#pragma omp for schedule(static, 1)
        for (int slice = 0; slice < threads; ++slice) {
            I sum = before[slice];
            for (int64_t c = slices[slice]; c < slices[slice + 1]; ++c) {
                indptr[c] = sum;
                for (auto& next : at) sum += std::exchange(next[c], sum);
            }
        }
    }
    indptr[columns] = before[threads];
}

template <class I>
void transpose(const CsrView<I>& a, int64_t columns, const Transposed<I>& out, int threads) {
    // each part counts all columns: with at least as many edges as columns in each, the counts are no more than the edges
    const int parts = int(std::clamp<int64_t>(a.edges() / std::max<int64_t>(columns, 1), 1, threads));
    const std::vector<int64_t> cuts = equal_shares(a.edges(), parts);  // of edges: a row may be as long as many others
    std::vector<std::vector<I>> at(parts);  // of each part: how many edges a column has, then where its next one goes
    for (auto& counts : at) counts.reserve(columns);  // here: want of memory is an exception, which no thread may let out
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int part = 0; part < parts; ++part) {
        at[part].assign(columns, 0);
        for (int64_t e = cuts[part]; e < cuts[part + 1]; ++e) ++at[part][a.indices[e]];
    }
    place_columns(at, columns, out.indptr, threads);
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int part = 0; part < parts; ++part) {
        I* next = at[part].data();
        int64_t e = cuts[part], row = std::upper_bound(a.indptr, a.indptr + a.rows, I(e)) - a.indptr - 1;
        for (; e < cuts[part + 1]; ++row)
            for (const int64_t end = std::min<int64_t>(a.indptr[row + 1], cuts[part + 1]); e < end; ++e) {
                const I slot = next[a.indices[e]]++;
                out.indices[slot] = I(row);
                out.permutation[slot] = I(e);
                out.inverse[e] = slot;
            }
    }
}

}  // namespace kernels
