// The heaviest edges of each node of a graph, for a first cut that takes time by its nodes.
#pragma once
#include <algorithm>
#include <functional>
#include <utility>

#include "partition/weighted_graph.hpp"

namespace kernels {

// An edge's rank, the same seen from both of its ends: its weight, then a hash.
using EdgeRank = std::pair<int64_t, uint64_t>;

inline EdgeRank rank_of(const WeightedGraph& graph, int64_t node, int64_t edge) {
    const int64_t other = graph.neighbours[edge];
    return {graph.weight(edge), keyed(uint64_t(std::min(node, other)), std::max(node, other))};
}

// Mark the edges that are among the `most` heaviest ones of at least one of their ends, `marks` [edges]; that keeps the
// graph symmetric.
inline void mark_heaviest(const WeightedGraph& graph, int64_t most, int threads, uint8_t* marks) {
    std::vector<EdgeRank> least(graph.nodes);
#pragma omp parallel num_threads(threads)
    {
        std::vector<EdgeRank> ranks;
#pragma omp for schedule(dynamic, 64)
        for (int64_t node = 0; node < graph.nodes; ++node) {
            if (graph.degree(node) <= most) continue;
            ranks.clear();
            for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
                ranks.push_back(rank_of(graph, node, edge));
            std::nth_element(ranks.begin(), ranks.begin() + (most - 1), ranks.end(), std::greater<EdgeRank>());
            least[node] = ranks[most - 1];
        }
#pragma omp for schedule(dynamic, 64)
        for (int64_t node = 0; node < graph.nodes; ++node)
            for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge) {
                const int64_t other = graph.neighbours[edge];
                const bool all = graph.degree(node) <= most || graph.degree(other) <= most;
                const EdgeRank rank = all ? EdgeRank{} : rank_of(graph, node, edge);
                marks[edge] = all || rank >= least[node] || rank >= least[other];
            }
    }
}

}  // namespace kernels
