// The heaviest edges of each node of a graph, for a first cut that takes time by its nodes.
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "partition/weighted_graph.hpp"

namespace kernels {

// An edge's rank among those of equal weight, the same seen from both of its ends.
inline uint64_t hash_of(const WeightedGraph& graph, int64_t node, int64_t edge) {
    const int64_t other = graph.neighbours[edge];
    return keyed(uint64_t(std::min(node, other)), std::max(node, other));
}

// The least edge that a node keeps; a node that keeps all has the lowest of all.
struct Least {
    int64_t weight = INT64_MIN;
    uint64_t hash = 0;

    bool keeps(const WeightedGraph& graph, int64_t node, int64_t edge) const {
        const int64_t own = graph.weight(edge);
        return own != weight ? own > weight : hash_of(graph, node, edge) >= hash;
    }
};

// The `most`-th heaviest edge of a node; hashes are computed of the edges of its weight alone. Both lists are scratch
// memory.
inline Least least_of(const WeightedGraph& graph, int64_t node, int64_t most, std::vector<int64_t>& weights,
                      std::vector<uint64_t>& hashes) {
    const int64_t start = graph.starts[node], end = graph.starts[node + 1];
    weights.clear(), hashes.clear();
    for (int64_t edge = start; edge < end; ++edge) weights.push_back(graph.weight(edge));
    std::nth_element(weights.begin(), weights.begin() + (most - 1), weights.end(), std::greater<int64_t>());
    const int64_t weight = weights[most - 1];
    const auto is_heavier = [&](int64_t other) { return other > weight; };
    const int64_t heavier = std::count_if(weights.begin(), weights.begin() + most, is_heavier);
    for (int64_t edge = start; edge < end; ++edge)
        if (graph.weight(edge) == weight) hashes.push_back(hash_of(graph, node, edge));
    const auto last = hashes.begin() + (most - 1 - heavier);
    std::nth_element(hashes.begin(), last, hashes.end(), std::greater<uint64_t>());
    return {weight, *last};
}

// Mark the edges that are among the `most` heaviest ones of at least one of their ends, `marks` [edges]; that keeps the
// graph symmetric.
inline void mark_heaviest(const WeightedGraph& graph, int64_t most, int threads, uint8_t* marks) {
    std::vector<Least> least(graph.nodes);
#pragma omp parallel num_threads(threads)
    {
        std::vector<int64_t> weights;
        std::vector<uint64_t> hashes;
#pragma omp for schedule(dynamic, 64)
        for (int64_t node = 0; node < graph.nodes; ++node)
            if (graph.degree(node) > most) least[node] = least_of(graph, node, most, weights, hashes);
#pragma omp for schedule(dynamic, 64)
        for (int64_t node = 0; node < graph.nodes; ++node)
            for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
                marks[edge] = least[node].keeps(graph, node, edge) ||
                              least[graph.neighbours[edge]].keeps(graph, node, edge);
    }
}

}  // namespace kernels
