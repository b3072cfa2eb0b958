// Clusters of bounded size by label propagation (Raghavan et al. 2007; Meyerhenke, Sanders and Schulz 2014).
#pragma once
#include "partition/weighted_graph.hpp"

namespace kernels {

struct Clustering {
    const WeightedGraph& graph;
    const int64_t* bounds;  // [constraints], of each cluster
    const int32_t* parts;   // [nodes], clusters stay inside of them; nullptr: anywhere
    int32_t* labels;        // [nodes]
    Loads loads;            // [nodes, constraints]
    uint64_t key;
    int threads;

    // Every node is a cluster of its own.
    void begin() {
        for (int64_t node = 0; node < graph.nodes; ++node) {
            labels[node] = int32_t(node);
            std::copy_n(graph.weights_of(node), graph.constraints, loads.of(node));
        }
    }

    // The label with the largest sum over the node's neighbours; of equal ones that with the largest hash. With
    // `bounded` a label whose cluster the node does not fit in is left out. The node's own label where there is none.
    int32_t best(int64_t node, LabelSums& sums, bool bounded) const {
        sums.of_neighbours(graph, node, labels, graph.nodes);
        const auto allowed = [&](int32_t label) { return parts == nullptr || parts[label] == parts[node]; };
        int32_t chosen = labels[node];
        int64_t most = 0;
        uint64_t largest = 0;  // hash of the chosen label, 0 until it is needed
        for (int64_t i = 0; i < sums.count(); ++i) {
            const int32_t label = sums.label(i);
            const int64_t sum = sums.sum(i);
            if (sum < most || !allowed(label)) continue;
            uint64_t hash = 0;
            if (sum == most) {
                if (largest == 0) largest = keyed(key, chosen);
                if ((hash = keyed(key, label)) <= largest) continue;
            }
            if (bounded && label != labels[node] && !loads.fits(label, graph.weights_of(node), bounds)) continue;
            chosen = label, most = sum, largest = hash;
        }
        return chosen;
    }

    void choose(const int32_t* nodes, int64_t count, bool bounded, int32_t* chosen) const {
        for_each_node(graph, nodes, count, threads,
                      [&](int64_t i, LabelSums& sums) { chosen[i] = best(nodes[i], sums, bounded); });
    }

    void move(int64_t node, int32_t label) {
        loads.add(labels[node], graph.weights_of(node), -1);
        loads.add(label, graph.weights_of(node), 1);
        labels[node] = label;
    }

    // One round over the nodes that are awake; returns the number of nodes that moved.
    int64_t round(Turns& turns) {
        std::vector<int32_t> chosen;
        int64_t moved = 0;
        for (int64_t g = 0; g < Turns::kGroups; ++g) {
            const std::vector<int32_t>& nodes = turns.next(g);
            chosen.resize(nodes.size());
            choose(nodes.data(), int64_t(nodes.size()), true, chosen.data());
            for (size_t i = 0; i < nodes.size(); ++i) {
                if (chosen[i] == labels[nodes[i]]) continue;
                if (!loads.fits(chosen[i], graph.weights_of(nodes[i]), bounds)) continue;
                move(nodes[i], chosen[i]), turns.wake_neighbours(graph, nodes[i]), ++moved;
            }
        }
        return moved;
    }

    // Nodes that stayed alone, as the cluster that they would join is full, join each other where they would join the
    // same one: leaves of a hub would never shrink else.
    void join_singles() {
        std::vector<int32_t> members(graph.nodes, 0), single, favourite;
        for (int64_t node = 0; node < graph.nodes; ++node) ++members[labels[node]];
        for (int64_t node = 0; node < graph.nodes; ++node)
            if (members[labels[node]] == 1) single.push_back(int32_t(node));
        favourite.resize(single.size());
        choose(single.data(), int64_t(single.size()), false, favourite.data());
        std::vector<int32_t> open(graph.nodes, -1);  // by favourite: the cluster that takes further nodes
        for (size_t i = 0; i < single.size(); ++i) {
            const int32_t node = single[i], target = open[favourite[i]];
            if (target >= 0 && loads.fits(target, graph.weights_of(node), bounds))
                move(node, target);
            else
                open[favourite[i]] = labels[node];
        }
    }
};

// Fill `labels` [nodes], inside of `parts` where there are some; `loads` [nodes, constraints] is scratch memory.
inline void cluster(const WeightedGraph& graph, const int64_t* bounds, const int32_t* parts, int rounds, uint64_t key,
                    int threads, int32_t* labels, int64_t* loads) {
    Clustering clustering{graph, bounds, parts, labels, {loads, graph.constraints}, key, threads};
    clustering.begin();
    Turns turns(graph.nodes, key);
    for (int round = 0; round < rounds; ++round)
        if (clustering.round(turns) * 1000 < graph.nodes) break;
    clustering.join_singles();
}

}  // namespace kernels
