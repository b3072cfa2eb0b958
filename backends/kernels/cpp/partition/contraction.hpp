// The graph of clusters: edges between two of them are one, with the sum of the weights.
#pragma once
#include <utility>

#include "common/buffer.hpp"
#include "partition/weighted_graph.hpp"

namespace kernels {

struct Contracted {
    Buffer<int64_t> starts, edge_weights, node_weights;
    Buffer<int32_t> neighbours;
};

// Number labels from 0 on, in the order of their first nodes; returns how many there are.
inline int64_t renumber(int32_t* labels, int64_t nodes) {
    std::vector<int32_t> number(nodes, -1);
    int32_t count = 0;
    for (int64_t node = 0; node < nodes; ++node) {
        int32_t& own = number[labels[node]];
        if (own < 0) own = count++;
        labels[node] = own;
    }
    return count;
}

// Nodes sorted by cluster: starts [clusters + 1] and members [nodes].
inline std::pair<std::vector<int64_t>, std::vector<int32_t>> members_of(const int32_t* labels, int64_t nodes,
                                                                         int64_t clusters) {
    std::vector<int64_t> starts(clusters + 1, 0);
    for (int64_t node = 0; node < nodes; ++node) ++starts[labels[node] + 1];
    for (int64_t c = 0; c < clusters; ++c) starts[c + 1] += starts[c];
    std::vector<int32_t> members(nodes);
    std::vector<int64_t> next(starts.begin(), starts.end() - 1);
    for (int64_t node = 0; node < nodes; ++node) members[next[labels[node]]++] = int32_t(node);
    return {std::move(starts), std::move(members)};
}

// Contract clusters, `labels` numbered from 0 to below `clusters`.
inline Contracted contract(const WeightedGraph& graph, const int32_t* labels, int64_t clusters, int threads) {
    const auto [first, members] = members_of(labels, graph.nodes, clusters);
    Contracted out;
    int64_t* starts = out.starts.grow(clusters + 1);
    int64_t* loads = out.node_weights.grow(clusters * graph.constraints);
    std::fill_n(starts, clusters + 1, 0), std::fill_n(loads, clusters * graph.constraints, 0);
    for (int64_t node = 0; node < graph.nodes; ++node)
        Loads{loads, graph.constraints}.add(labels[node], graph.weights_of(node), 1);
    int32_t* neighbours = nullptr;
    int64_t* weights = nullptr;
    for (const bool writes : {false, true}) {
#pragma omp parallel num_threads(threads) if (graph.nodes > 512)
        {
            LabelSums sums;
#pragma omp for schedule(dynamic, 64)
            for (int64_t c = 0; c < clusters; ++c) {
                int64_t degrees = 0, count = 0;
                for (int64_t m = first[c]; m < first[c + 1]; ++m) degrees += graph.degree(members[m]);
                sums.reset(std::min(degrees, clusters));
                for (int64_t m = first[c]; m < first[c + 1]; ++m)
                    for (int64_t e = graph.starts[members[m]]; e < graph.starts[members[m] + 1]; ++e)
                        if (const int32_t label = labels[graph.neighbours[e]]; label != c)
                            sums.add(label, writes ? graph.weight(e) : 0);
                for (; writes && count < sums.count(); ++count)
                    neighbours[starts[c] + count] = sums.label(count), weights[starts[c] + count] = sums.sum(count);
                if (!writes) starts[c + 1] = sums.count();
            }
        }
        if (writes) break;
        for (int64_t c = 0; c < clusters; ++c) starts[c + 1] += starts[c];
        neighbours = out.neighbours.grow(starts[clusters]), weights = out.edge_weights.grow(starts[clusters]);
    }
    return out;
}

}  // namespace kernels
