// What moves gain under the cut: the weight of edges between parts.
#pragma once
#include "partition/refinement.hpp"

namespace kernels {

// Weights of each node's edges by part, [nodes, count], where that is small enough: the gains of the neighbours of a
// node that moves then take no further reading of edges.
class Connections {
  public:
    static constexpr int64_t kMost = int64_t(1) << 22;

    // One node's weights as `Refinement::best_of` reads them: parts that it has edges to.
    struct Row {
        const int64_t* sums;
        const int32_t* labels;
        int64_t length;

        int64_t count() const { return length; }
        int32_t label(int64_t i) const { return labels[i]; }
        int64_t sum(int64_t i) const { return sums[labels[i]]; }
    };

    explicit Connections(const Refinement& state) : count_(state.count), labels_(state.count) {
        const int64_t nodes = state.graph.nodes;
        if (nodes > kMost / state.count) return;
        sums_.assign(nodes * count_, 0);
        for_each(nodes, state.threads, [&](int64_t node, LabelSums&) {
            const WeightedGraph& graph = state.graph;
            for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
                sums_[node * count_ + state.parts[graph.neighbours[edge]]] += graph.weight(edge);
        });
    }

    bool known() const { return !sums_.empty(); }

    Row of(int64_t node) {
        const int64_t* sums = sums_.data() + node * count_;
        int64_t length = 0;
        for (int32_t part = 0; part < count_; ++part) labels_[length] = part, length += sums[part] > 0;
        return {sums, labels_.data(), length};
    }

    void move(int64_t node, int64_t weight, int32_t from, int32_t to) {
        sums_[node * count_ + from] -= weight, sums_[node * count_ + to] += weight;
    }

  private:
    int64_t count_;
    std::vector<int64_t> sums_;
    std::vector<int32_t> labels_;
};

class CutGains {
  public:
    explicit CutGains(const Refinement& state) : state_(state), connections_(state) {}

    // The best move of a node, for several threads at a time.
    Move best(int64_t node, LabelSums& sums) const { return state_.best(node, sums, false, false); }

    // The best move of all, and the best one to a part that the node fits in.
    std::pair<Move, Move> look_up(int64_t node) {
        read_ += connections_.known() ? state_.count : state_.graph.degree(node);
        if (connections_.known()) return state_.wish_and_move(node, connections_.of(node));
        sums_.of_neighbours(state_.graph, node, state_.parts, state_.count);
        return state_.wish_and_move(node, sums_);
    }

    // The node that has `edge` has moved; returns how much more its neighbour there can gain at most.
    int64_t follow(int64_t edge, int32_t from, int32_t to) {
        const int64_t neighbour = state_.graph.neighbours[edge], weight = state_.graph.weight(edge);
        if (connections_.known()) connections_.move(neighbour, weight, from, to);
        if (state_.parts[neighbour] == to) return 0;
        return state_.parts[neighbour] == from ? 2 * weight : weight;
    }

    int64_t read() const { return read_; }

  private:
    const Refinement& state_;
    Connections connections_;
    LabelSums sums_;
    int64_t read_ = 0;  // sums and edges
};

}  // namespace kernels
