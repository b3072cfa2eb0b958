// An undirected graph with weights of edges and nodes, as the levels of a partitioner hold it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/failures.hpp"
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
    const uint8_t* directions = nullptr;  // of each edge, nullptr: all have both

    bool has(int64_t edge, uint8_t direction) const { return directions == nullptr || (directions[edge] & direction); }
    int64_t edges() const { return starts[nodes]; }
    int64_t degree(int64_t node) const { return starts[node + 1] - starts[node]; }
    int64_t weight(int64_t edge) const { return edge_weights == nullptr ? 1 : edge_weights[edge]; }
    // Let the first neighbours of a node be on their way.
    void prefetch(int64_t node) const {
        constexpr int64_t kLine = 64 / sizeof(int32_t), kLines = 4;
        const int64_t lines = std::min(kLines, degree(node) / kLine + 1);
        for (int64_t line = 0; line < lines; ++line) __builtin_prefetch(neighbours + starts[node] + line * kLine);
    }
    const int64_t* weights_of(int64_t node) const { return node_weights + node * constraints; }
};

// The weight of the edges between different parts, each edge counted once.
inline int64_t cut_of(const WeightedGraph& graph, const int32_t* parts, int threads) {
    int64_t sum = 0;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 256) reduction(+ : sum) if (graph.edges() > 4096)
    for (int64_t node = 0; node < graph.nodes; ++node)
        for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
            sum += parts[node] != parts[graph.neighbours[edge]] ? graph.weight(edge) : 0;
    return sum / 2;
}

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

// Sums by label, for one node after the other; the size follows the number of its labels, not that of all labels,
// unless these are few: then a label is its own place.
class LabelSums {
  public:
    // Forget all sums and make room for `most` labels of `all` that there are.
    void reset(int64_t most, int64_t all) {
        direct_ = all <= kDirect;
        int bits = 4;
        while (!direct_ && (int64_t(1) << bits) < 4 * most) ++bits;
        const int64_t size = direct_ ? all : int64_t(1) << bits;
        if (size > int64_t(slots_.size())) slots_.resize(size);
        if (most >= int64_t(used_.size())) used_.resize(most + 1);
        shift_ = 64 - bits, mask_ = size - 1, count_ = 0;
        if (++turn_ == 0) {
            std::fill(slots_.begin(), slots_.end(), Slot{}), turn_ = 1;
        }
    }

    void add(int32_t label, int64_t weight) {
        int64_t place = label;
        if (!direct_) {
            place = int64_t((uint64_t(label) * kGamma) >> shift_);
            while (slots_[place].turn == turn_ && slots_[place].label != label) place = (place + 1) & mask_;
        }
        // without a branch, which would be guessed wrong for every other label
        Slot& slot = slots_[place];
        const bool fresh = slot.turn != turn_;
        slot = {label, turn_, (fresh ? 0 : slot.sum) + weight};
        used_[count_] = int32_t(place), count_ += fresh;
    }

    int64_t count() const { return count_; }
    int32_t label(int64_t i) const { return slots_[used_[i]].label; }
    int64_t sum(int64_t i) const { return slots_[used_[i]].sum; }

    // Add the labels of a node's neighbours, which `label_of` reads from `labels`, most of them.
    template <class LabelOf>
    void add_neighbours(const WeightedGraph& graph, int64_t node, const int32_t* labels, const LabelOf& label_of) {
        const int64_t end = graph.starts[node + 1];
        for (int64_t edge = graph.starts[node]; edge < end; ++edge) {
            // labels are read at random: the next ones are on their way while these are added
            if (edge + kAhead < end) __builtin_prefetch(labels + graph.neighbours[edge + kAhead]);
            add(label_of(graph.neighbours[edge]), graph.weight(edge));
        }
    }

    void add_neighbours(const WeightedGraph& graph, int64_t node, const int32_t* labels) {
        add_neighbours(graph, node, labels, [&](int32_t other) { return labels[other]; });
    }

    // Sums of the labels of a node's neighbours, which are below `all`.
    void of_neighbours(const WeightedGraph& graph, int64_t node, const int32_t* labels, int64_t all) {
        reset(std::min(graph.degree(node), all), all);
        add_neighbours(graph, node, labels);
    }

    // The sums as an array of `all` labels.
    std::vector<int64_t>& spread(int64_t all) {
        spread_.assign(all, 0);
        for (int64_t i = 0; i < count_; ++i) spread_[label(i)] = sum(i);
        return spread_;
    }

  private:
    static constexpr int64_t kDirect = 4096, kAhead = 12;

    struct Slot {
        int32_t label = 0;
        uint32_t turn = 0;  // when it was filled; others are empty
        int64_t sum = 0;
    };

    std::vector<Slot> slots_;
    std::vector<int32_t> used_;
    std::vector<int64_t> spread_;
    int64_t count_ = 0, mask_ = 0;
    uint32_t turn_ = 0;
    int shift_ = 0;
    bool direct_ = false;
};

// Call `call(node, sums)` for each of `count` nodes, with sums of each thread's own.
template <class Call>
void for_each_node(int64_t count, int threads, const Call& call) {
    for_each<LabelSums>(count, 128, count > 512 ? threads : 1, call);
}

}  // namespace kernels
