// The transpose of a matrix by counting sort: edges of a column keep their order with any number of threads.
#pragma once
#include <algorithm>
#include <vector>

#include "common/counting.hpp"
#include "common/matrix.hpp"

namespace kernels {

template <class I>
struct Transposed {
    I* indptr;       // [columns + 1]
    I* indices;      // [nnz]: the row of each edge
    I* permutation;  // [nnz]: position of each transposed edge in the forward order
    I* inverse;      // [nnz]: position of each forward edge in the transposed order
};

template <class I>
void transpose(const CsrView<I>& a, int64_t columns, const Transposed<I>& out, int threads) {
    // each part counts all columns: with at least as many edges as columns in each, the counts are no more than the edges
    const int parts = int(std::clamp<int64_t>(a.edges() / std::max<int64_t>(columns, 1), 1, threads));
    const std::vector<int64_t> cuts = equal_shares(a.edges(), parts);  // of edges: a row may be as long as many others
    Counts<I> at(parts, columns);  // of each part: how many edges a column has, then where its next one goes
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int part = 0; part < parts; ++part) {
        I* count = at.clear(part);
        for (int64_t e = cuts[part]; e < cuts[part + 1]; ++e) ++count[a.indices[e]];
    }
    place_columns(at.rows(), columns, out.indptr, threads);
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int part = 0; part < parts; ++part) {
        I* next = at.rows()[part];
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
