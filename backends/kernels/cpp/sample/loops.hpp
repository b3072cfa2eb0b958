// The matrix of a batch's layer: a self loop at the beginning of each row, and gcn's symmetric weights.
#pragma once
#include "sample/numbering.hpp"
#include "sample/row_sampler.hpp"

namespace kernels {

// A layer of a batch; its rows are its first columns. Without data, `edge_weights` are 1 and there is no `scale`.
template <class T>
struct LayerEdges {
    const T *indptr, *indices;
    int64_t rows, columns;
    const double* scale;  // [columns]
    Reals edge_weights;   // read at `positions` [nnz]
    int64_t weights;      // entries of `edge_weights`
    const int64_t* positions;

    double weight(int64_t edge) const {
        if (edge_weights.data == nullptr) return 1.0;
        if (positions[edge] < 0 || positions[edge] >= weights)
            throw std::invalid_argument("edge " + std::to_string(edge) + " has its weight at " +
                                        std::to_string(positions[edge]) + ": allowed are 0 to " +
                                        std::to_string(weights - 1));
        return edge_weights[positions[edge]];
    }
    // Throw for a row that is not inside of the edges, and for an edge that is not from another row's column.
    void check_row(int64_t row) const {
        if (indptr[row] < 0 || indptr[row + 1] < indptr[row] || indptr[row + 1] > indptr[rows])
            throw std::invalid_argument("indptr does not ascend from 0 to the number of edges at row " +
                                        std::to_string(row));
        for (T edge = indptr[row]; edge < indptr[row + 1]; ++edge)
            if (indices[edge] < 0 || indices[edge] >= columns || indices[edge] == row)
                throw std::invalid_argument("row " + std::to_string(row) + " has an edge from " +
                                            std::to_string(indices[edge]) + ": allowed are other rows up to " +
                                            std::to_string(columns - 1));
    }
};

// Write row bounds [rows + 1], columns and, where there is a scale, weights [nnz + rows].
template <class T>
void add_self_loops(const LayerEdges<T>& edges, T* indptr, T* indices, float* weight, int threads) {
    Failures failures;
    const int64_t nnz = edges.indptr[edges.rows];
    indptr[edges.rows] = T(nnz + edges.rows);
#pragma omp parallel for num_threads(workers(nnz, threads)) schedule(static)
    for (int64_t row = 0; row < edges.rows; ++row)
        failures.guard(row, [&] {
            edges.check_row(row);
            T at = indptr[row] = T(edges.indptr[row] + row);
            const double own = edges.scale == nullptr ? 1.0 : edges.scale[row];
            indices[at] = T(row);
            if (edges.scale != nullptr) weight[at] = float(own * own);
            for (T e = edges.indptr[row]; e < edges.indptr[row + 1]; ++e) {
                const T source = edges.indices[e];
                indices[++at] = source;
                if (edges.scale != nullptr) weight[at] = float(own * edges.weight(e) * edges.scale[source]);
            }
        });
    failures.raise();
}

}  // namespace kernels
