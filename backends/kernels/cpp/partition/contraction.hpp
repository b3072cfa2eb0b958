// The graph of clusters: edges between two of them are one, with the sum of the weights.
#pragma once
#include <algorithm>
#include <vector>

#include "partition/weighted_graph.hpp"

namespace kernels {

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

// Nodes sorted by cluster, `members` [nodes] from `first` [clusters + 1] on, and the most neighbours that the clusters
// can have, summed up: `capacity` [clusters + 1]. `loads` [clusters, constraints] are the sums of the nodes' weights.
inline void clusters_of(const WeightedGraph& graph, const int32_t* labels, int64_t clusters, int64_t* first,
                        int32_t* members, int64_t* capacity, int64_t* loads) {
    std::fill_n(first, clusters + 1, 0), std::fill_n(capacity, clusters + 1, 0);
    std::fill_n(loads, clusters * graph.constraints, 0);
    for (int64_t node = 0; node < graph.nodes; ++node) {
        ++first[labels[node] + 1], capacity[labels[node] + 1] += graph.degree(node);
        Loads{loads, graph.constraints}.add(labels[node], graph.weights_of(node), 1);
    }
    for (int64_t c = 0; c < clusters; ++c) {
        first[c + 1] += first[c];
        capacity[c + 1] = capacity[c] + std::min(capacity[c + 1], clusters - 1);
    }
    std::vector<int64_t> next(first, first + clusters);
    for (int64_t node = 0; node < graph.nodes; ++node) members[next[labels[node]]++] = int32_t(node);
}

// Rows `begin` to below `end` of the graph of clusters, one after the other in `neighbours` and `weights`, which have
// room for the rows' capacity; `lengths` [end - begin]. Returns their sum.
inline int64_t contract_rows(const WeightedGraph& graph, const int32_t* labels, int64_t clusters,
                             const int64_t* first, const int32_t* members, const int64_t* capacity, int64_t begin,
                             int64_t end, int threads, int64_t* lengths, int32_t* neighbours, int64_t* weights) {
    const int needed = capacity[end] - capacity[begin] > 512 ? threads : 1;
    for_each<LabelSums>(end - begin, 64, needed, [&](int64_t row, LabelSums& sums) {
        const int64_t c = begin + row;
        sums.reset(capacity[c + 1] - capacity[c] + 1, clusters);
        for (int64_t m = first[c]; m < first[c + 1]; ++m) sums.add_neighbours(graph, members[m], labels);
        int64_t place = capacity[c] - capacity[begin];
        for (int64_t i = 0; i < sums.count(); ++i)
            if (sums.label(i) != c) neighbours[place] = sums.label(i), weights[place++] = sums.sum(i);
        lengths[row] = place - (capacity[c] - capacity[begin]);
    });
    int64_t total = 0;
    for (int64_t c = begin; c < end; ++c) {
        const int64_t place = capacity[c] - capacity[begin], length = lengths[c - begin];
        std::copy(neighbours + place, neighbours + place + length, neighbours + total);
        std::copy(weights + place, weights + place + length, weights + total);
        total += length;
    }
    return total;
}

}  // namespace kernels
