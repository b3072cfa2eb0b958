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

// Scratch memory of a node's edges: all weights, and hashes of those of one weight.
struct Ranked {
    std::vector<int64_t> weights;
    std::vector<uint64_t> hashes;
};

// The `most`-th heaviest edge of a node.
inline Least least_of(const WeightedGraph& graph, int64_t node, int64_t most, Ranked& edges) {
    const int64_t start = graph.starts[node], end = graph.starts[node + 1];
    auto& [weights, hashes] = edges;
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
    for_each<Ranked>(graph.nodes, 64, threads, [&](int64_t node, Ranked& edges) {
        if (graph.degree(node) > most) least[node] = least_of(graph, node, most, edges);
    });
    for_each(graph.nodes, 64, threads, [&](int64_t node, NoScratch&) {
        for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
            marks[edge] =
                least[node].keeps(graph, node, edge) || least[graph.neighbours[edge]].keeps(graph, node, edge);
    });
}

}  // namespace kernels
