// The undirected graph of a directed one: neighbours of either direction, once each, without self loops.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/buffer.hpp"
#include "common/matrix.hpp"

namespace kernels {

struct Undirected {
    Buffer<int64_t> starts;
    Buffer<int32_t> neighbours;
};

// `in` and `out` are a square matrix and its transpose. Neighbours are ascending.
template <class I>
Undirected symmetric(const CsrView<I>& in, const CsrView<I>& out, int threads) {
    Undirected result;
    int64_t* starts = result.starts.grow(in.rows + 1);
    int32_t* neighbours = nullptr;
    starts[0] = 0;
    for (const bool writes : {false, true}) {
#pragma omp parallel num_threads(threads) if (in.rows > 512)
        {
            std::vector<int32_t> row;
#pragma omp for schedule(dynamic, 64)
            for (int64_t node = 0; node < in.rows; ++node) {
                row.clear();
                for (const CsrView<I>& side : {in, out})
                    row.insert(row.end(), side.indices + side.indptr[node], side.indices + side.indptr[node + 1]);
                std::sort(row.begin(), row.end());
                row.erase(std::unique(row.begin(), row.end()), row.end());
                row.erase(std::remove(row.begin(), row.end(), int32_t(node)), row.end());
                if (writes)
                    std::copy(row.begin(), row.end(), neighbours + starts[node]);
                else
                    starts[node + 1] = int64_t(row.size());
            }
        }
        if (writes) break;
        for (int64_t node = 0; node < in.rows; ++node) starts[node + 1] += starts[node];
        neighbours = result.neighbours.grow(starts[in.rows]);
    }
    return result;
}

}  // namespace kernels
