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

template <class I>
void transpose(const CsrView<I>& a, int64_t columns, const Transposed<I>& out, int threads) {
    // each part counts all columns: more parts than a column has edges would cost more than the edges do
    const int parts = int(std::clamp<int64_t>(a.edges() / std::max<int64_t>(columns, 1), 1, threads));
    const std::vector<int64_t> cuts = cut_rows(a, parts);
    std::vector<std::vector<I>> at(parts);  // of each part: how many edges a column has, then where its next one goes
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int part = 0; part < parts; ++part) {
        at[part].assign(columns, 0);
        for (int64_t e = a.indptr[cuts[part]]; e < a.indptr[cuts[part + 1]]; ++e) ++at[part][a.indices[e]];
    }
    I sum = 0;
    for (int64_t column = 0; column < columns; ++column) {
        out.indptr[column] = sum;
        for (auto& next : at) sum += std::exchange(next[column], sum);
    }
    out.indptr[columns] = sum;
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int part = 0; part < parts; ++part) {
        I* next = at[part].data();
        for (int64_t row = cuts[part]; row < cuts[part + 1]; ++row)
            for (int64_t e = a.indptr[row]; e < a.indptr[row + 1]; ++e) {
                const I slot = next[a.indices[e]]++;
                out.indices[slot] = I(row);
                out.permutation[slot] = I(e);
                out.inverse[e] = slot;
            }
    }
}

}  // namespace kernels
