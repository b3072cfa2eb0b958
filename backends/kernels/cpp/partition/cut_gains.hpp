// What moves gain under the cut: the weight of edges between parts.
#pragma once
#include "partition/refinement.hpp"

namespace kernels {

// Weights of a node's edges by part, [count], kept for nodes that are looked up: the gains of the neighbours of a node
// that moves then take no further reading of edges.
class Connections {
  public:
    // One node's weights as `Refinement::best_of` reads them: parts that it has edges to.
    struct Row {
        const int64_t* sums;
        const int32_t* labels;
        int64_t length;

        int64_t count() const { return length; }
        int32_t label(int64_t i) const { return labels[i]; }
        int64_t sum(int64_t i) const { return sums[labels[i]]; }
    };

    explicit Connections(const Refinement& state) : state_(state), rows_(state.graph.nodes, -1), labels_(state.count) {
        // memory that no row takes is never touched
        sums_.reserve(std::min(kMost, state.graph.nodes * state.count));
    }

    bool known(int64_t node) const { return rows_[node] >= 0; }
    void prefetch(int64_t node) const { __builtin_prefetch(&rows_[node]); }

    // Read a node's edges, where a row is shorter to read and there is room for one.
    bool read(int64_t node) {
        const WeightedGraph& graph = state_.graph;
        if (state_.count > graph.degree(node)) return false;
        const size_t begin = sums_.size();
        if (begin + state_.count > sums_.capacity()) return false;
        rows_[node] = int32_t(begin / state_.count);
        sums_.resize(begin + state_.count, 0);
        for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
            sums_[begin + state_.parts[graph.neighbours[edge]]] += graph.weight(edge);
        return true;
    }

    Row of(int64_t node) {
        const int64_t* sums = sums_.data() + rows_[node] * state_.count;
        int64_t length = 0;
        for (int32_t part = 0; part < state_.count; ++part) labels_[length] = part, length += sums[part] > 0;
        return {sums, labels_.data(), length};
    }

    void move(int64_t node, int64_t weight, int32_t from, int32_t to) {
        int64_t* sums = sums_.data() + rows_[node] * state_.count;
        sums[from] -= weight, sums[to] += weight;
    }

  private:
    static constexpr int64_t kMost = int64_t(1) << 22;

    const Refinement& state_;
    std::vector<int32_t> rows_;  // of each node in `sums_`
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
        const bool known = connections_.known(node);
        read_ += known ? state_.count : state_.graph.degree(node);
        if (known || connections_.read(node)) return state_.wish_and_move(node, connections_.of(node));
        sums_.of_neighbours(state_.graph, node, state_.parts, state_.count);
        return state_.wish_and_move(node, sums_);
    }

    // The node that has `edge` has moved; returns how much more its neighbour there can gain at most.
    int64_t follow(int64_t edge, int32_t from, int32_t to) {
        const int64_t neighbour = state_.graph.neighbours[edge], weight = state_.graph.weight(edge);
        if (connections_.known(neighbour)) connections_.move(neighbour, weight, from, to);
        if (state_.parts[neighbour] == to) return 0;
        return state_.parts[neighbour] == from ? 2 * weight : weight;
    }

    // Let what `follow` reads of a neighbour be on its way.
    void prefetch(int64_t neighbour) const { connections_.prefetch(neighbour); }

    int64_t read() const { return read_; }

  private:
    const Refinement& state_;
    Connections connections_;
    LabelSums sums_;
    int64_t read_ = 0;  // sums and edges
};

}  // namespace kernels
