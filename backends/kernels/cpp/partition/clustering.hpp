// Clusters of bounded size by label propagation (Raghavan et al. 2007; Meyerhenke, Sanders and Schulz 2014).
#pragma once
#include "partition/weighted_graph.hpp"

namespace kernels {

// Nodes of one block, which one thread gives labels to, one node after the other; it sees its own new labels, and those
// of other blocks as they were before the group.
struct Block {
    int64_t begin, size;
    int32_t* fresh;         // [size]
    const int32_t* labels;  // [nodes]

    int32_t label(int64_t node) const {
        const int64_t place = node - begin;
        return uint64_t(place) < uint64_t(size) ? fresh[place] : labels[node];
    }
};

struct Clustering {
    const WeightedGraph& graph;
    const int64_t* bounds;  // [constraints], of each cluster
    const int32_t* parts;   // [nodes], clusters stay inside of them; nullptr: anywhere
    int32_t* labels;        // [nodes]
    Loads loads;            // [nodes, constraints]
    uint64_t key;
    int threads;

    static constexpr int64_t kGroups = 8, kBlocks = 2048, kLargestBlock = 1024, kAhead = 4;

    // Every node is a cluster of its own.
    void begin() {
        for (int64_t node = 0; node < graph.nodes; ++node) {
            labels[node] = int32_t(node);
            std::copy_n(graph.weights_of(node), graph.constraints, loads.of(node));
        }
    }

    // The label with the largest sum over the node's neighbours, `sums`; of equal ones the one with the largest hash for
    // this node: were it the same label for all nodes, it would run far through a grid, along its rows. With `bounded` a
    // label whose cluster the node does not fit in is left out. The node's own label where there is none.
    int32_t best(int64_t node, int32_t own, const LabelSums& sums, bool bounded) const {
        const auto allowed = [&](int32_t label) { return parts == nullptr || parts[label] == parts[node]; };
        const uint64_t here = keyed(key, node);
        int32_t chosen = own;
        int64_t most = 0;
        uint64_t largest = 0;  // hash of the chosen label, 0 until it is needed
        for (int64_t i = 0; i < sums.count(); ++i) {
            const int32_t label = sums.label(i);
            const int64_t sum = sums.sum(i);
            if (sum < most || !allowed(label)) continue;
            uint64_t hash = 0;
            if (sum == most) {
                if (largest == 0) largest = mix(here + uint64_t(chosen) * kGamma);
                if ((hash = mix(here + uint64_t(label) * kGamma)) <= largest) continue;
            }
            if (bounded && label != own && !loads.fits(label, graph.weights_of(node), bounds)) continue;
            chosen = label, most = sum, largest = hash;
        }
        return chosen;
    }

    // Choose labels of a block's nodes in a random order, so that no label runs along the order of the nodes.
    void choose(const Block& block, LabelSums& sums) const {
        int64_t places = 1;
        while (places < block.size) places *= 2;
        const uint64_t hash = keyed(key, block.begin);
        const uint64_t step = hash | 1, shift = hash >> 32;
        const auto place_of = [&](int64_t i) { return int64_t((uint64_t(i) * step + shift) & uint64_t(places - 1)); };
        for (int64_t i = 0; i < places; ++i) {
            const int64_t place = place_of(i), following = place_of(i + kAhead);
            if (following < block.size) graph.prefetch(block.begin + following);
            if (place >= block.size) continue;
            const int64_t node = block.begin + place;
            sums.reset(graph.degree(node), graph.nodes);
            sums.add_neighbours(graph, node, labels, [&](int32_t other) { return block.label(other); });
            block.fresh[place] = best(node, block.fresh[place], sums, true);
        }
    }

    // One round over all nodes, `blocks` of `size` nodes of one group at the same time; `fresh` [nodes] is scratch
    // memory. Returns the number of nodes that moved.
    int64_t round(int64_t size, int32_t* fresh) {
        const int64_t blocks = (graph.nodes + size - 1) / size;
        std::vector<int64_t> group;
        int64_t moved = 0;
        for (int64_t g = 0; g < kGroups; ++g) {
            group.clear();
            for (int64_t block = 0; block < blocks; ++block)
                if (int64_t(keyed(key, block) % kGroups) == g) group.push_back(block * size);
            const int needed = graph.edges() > kGroups * 4096 ? threads : 1;
            for_each<LabelSums>(int64_t(group.size()), 1, needed, [&](int64_t i, LabelSums& sums) {
                const Block block{group[i], std::min(size, graph.nodes - group[i]), fresh + group[i], labels};
                std::copy_n(labels + block.begin, block.size, block.fresh);
                choose(block, sums);
            });
            for (const int64_t begin : group)
                for (int64_t node = begin; node < std::min(begin + size, graph.nodes); ++node)
                    if (fresh[node] != labels[node] && loads.fits(fresh[node], graph.weights_of(node), bounds))
                        move(node, fresh[node]), ++moved;
        }
        return moved;
    }

    void move(int64_t node, int32_t label) {
        loads.add(labels[node], graph.weights_of(node), -1);
        loads.add(label, graph.weights_of(node), 1);
        labels[node] = label;
    }

    // Nodes that stayed alone, as the cluster that they would join is full, join each other where they would join the
    // same one, or have no neighbour at all: leaves of a hub and isolated nodes would never shrink else.
    void join_singles() {
        std::vector<int32_t> members(graph.nodes, 0), single, favourite;
        for (int64_t node = 0; node < graph.nodes; ++node) ++members[labels[node]];
        for (int64_t node = 0; node < graph.nodes; ++node)
            if (members[labels[node]] == 1) single.push_back(int32_t(node));
        favourite.resize(single.size());
        for_each_node(int64_t(single.size()), threads, [&](int64_t i, LabelSums& sums) {
            sums.of_neighbours(graph, single[i], labels, graph.nodes);
            favourite[i] = best(single[i], labels[single[i]], sums, false);
        });
        // the cluster that takes further nodes, by their favourite or, of isolated ones, by their part
        std::vector<int32_t> open(graph.nodes, -1), isolated(graph.nodes, -1);
        for (size_t i = 0; i < single.size(); ++i) {
            const int32_t node = single[i], part = parts == nullptr ? 0 : parts[node];
            int32_t& target = graph.degree(node) == 0 ? isolated[part] : open[favourite[i]];
            if (target >= 0 && loads.fits(target, graph.weights_of(node), bounds))
                move(node, target);
            else
                target = labels[node];
        }
    }
};

// Fill `labels` [nodes], inside of `parts` where there are some; `loads` [nodes, constraints] is scratch memory.
inline void cluster(const WeightedGraph& graph, const int64_t* bounds, const int32_t* parts, int rounds, uint64_t key,
                    int threads, int32_t* labels, int64_t* loads) {
    Clustering clustering{graph, bounds, parts, labels, {loads, graph.constraints}, key, threads};
    clustering.begin();
    const int64_t size = std::clamp(graph.nodes / Clustering::kBlocks, int64_t(1), Clustering::kLargestBlock);
    std::vector<int32_t> fresh(graph.nodes);
    for (int round = 0; round < rounds; ++round)
        if (clustering.round(size, fresh.data()) * 1000 < graph.nodes) break;
    clustering.join_singles();
}

}  // namespace kernels
