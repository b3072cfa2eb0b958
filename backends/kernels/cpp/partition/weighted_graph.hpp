// An undirected graph with weights of edges and nodes, as the levels of a partitioner hold it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/hash.hpp"

namespace kernels {

// Each edge is stored in both directions. A node has one weight per constraint.
struct WeightedGraph {
    const int64_t* starts;
    const int32_t* neighbours;
    const int64_t* edge_weights;  // nullptr: 1 each
    const int64_t* node_weights;  // [nodes, constraints]
    int64_t nodes;
    int64_t constraints;

    int64_t degree(int64_t node) const { return starts[node + 1] - starts[node]; }
    int64_t weight(int64_t edge) const { return edge_weights == nullptr ? 1 : edge_weights[edge]; }
    const int64_t* weights_of(int64_t node) const { return node_weights + node * constraints; }
};

// Loads of clusters or parts, [count, constraints]: whether a node fits in, and the move of one.
struct Loads {
    int64_t* values;
    int64_t constraints;

    int64_t* of(int64_t part) const { return values + part * constraints; }

    bool fits(int64_t part, const int64_t* weights, const int64_t* bounds) const {
        for (int64_t c = 0; c < constraints; ++c)
            if (weights[c] > 0 && of(part)[c] + weights[c] > bounds[c]) return false;
        return true;
    }
    void add(int64_t part, const int64_t* weights, int64_t sign) const {
        for (int64_t c = 0; c < constraints; ++c) of(part)[c] += sign * weights[c];
    }
};

// Sums by label, for one node after the other; the size follows the number of its labels, not that of all labels.
class LabelSums {
  public:
    // Forget all sums and make room for `most` labels; a small table after a large one uses the first slots alone.
    void reset(int64_t most) {
        for (const int64_t slot : used_) labels_[slot] = -1;
        used_.clear();
        int bits = 4;
        while ((int64_t(1) << bits) < 2 * most) ++bits;
        if ((int64_t(1) << bits) > int64_t(labels_.size())) labels_.resize(int64_t(1) << bits, -1);
        if (labels_.size() > sums_.size()) sums_.resize(labels_.size());
        shift_ = 64 - bits, mask_ = (int64_t(1) << bits) - 1;
    }

    void add(int32_t label, int64_t weight) {
        int64_t slot = int64_t((uint64_t(label) * kGamma) >> shift_);
        while (labels_[slot] != label && labels_[slot] >= 0) slot = (slot + 1) & mask_;
        if (labels_[slot] < 0) labels_[slot] = label, sums_[slot] = 0, used_.push_back(slot);
        sums_[slot] += weight;
    }

    int64_t count() const { return int64_t(used_.size()); }
    int32_t label(int64_t i) const { return labels_[used_[i]]; }
    int64_t sum(int64_t i) const { return sums_[used_[i]]; }

    // Sums of the labels of a node's neighbours.
    void of_neighbours(const WeightedGraph& graph, int64_t node, const int32_t* labels, int64_t most) {
        reset(std::min(graph.degree(node), most));
        for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
            add(labels[graph.neighbours[edge]], graph.weight(edge));
    }

  private:
    std::vector<int32_t> labels_;
    std::vector<int64_t> sums_, used_;
    int shift_ = 0;
    int64_t mask_ = 0;
};

// Call `call(i, sums)` for i from 0 to below `count`, with sums of each thread's own.
template <class Call>
void for_each(int64_t count, int threads, const Call& call) {
#pragma omp parallel num_threads(threads) if (count > 512)
    {
        LabelSums sums;
#pragma omp for schedule(dynamic, 128)
        for (int64_t i = 0; i < count; ++i) call(i, sums);
    }
}

// Nodes in groups by a hash, ascending in each: nodes of one group choose at the same time, from what the others chose
// before, so that the result does not depend on the number of threads. A node chooses again when a neighbour has moved.
class Turns {
  public:
    static constexpr int64_t kGroups = 16;

    Turns(int64_t count, uint64_t key) : nodes_(count), awake_(count, 1) {
        std::vector<uint8_t> group(count);
        for (int64_t node = 0; node < count; ++node) {
            group[node] = uint8_t(mix(key + uint64_t(node) * kGamma) % kGroups);
            ++bounds_[group[node] + 1];
        }
        for (int64_t g = 0; g < kGroups; ++g) bounds_[g + 1] += bounds_[g];
        int64_t next[kGroups];
        std::copy_n(bounds_, kGroups, next);
        for (int64_t node = 0; node < count; ++node) nodes_[next[group[node]]++] = int32_t(node);
    }

    // The nodes of a group that are awake; they sleep from now on.
    const std::vector<int32_t>& next(int64_t group) {
        chosen_.clear();
        for (int64_t i = bounds_[group]; i < bounds_[group + 1]; ++i)
            if (awake_[nodes_[i]]) chosen_.push_back(nodes_[i]), awake_[nodes_[i]] = 0;
        return chosen_;
    }

    void wake_neighbours(const WeightedGraph& graph, int64_t node) {
        for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
            awake_[graph.neighbours[edge]] = 1;
    }

  private:
    std::vector<int32_t> nodes_, chosen_;
    std::vector<uint8_t> awake_;
    int64_t bounds_[kGroups + 1] = {};
};

}  // namespace kernels
