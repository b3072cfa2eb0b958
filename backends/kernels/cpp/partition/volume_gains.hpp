// What moves gain under the volume: rows that parts need of others, each once per part. A part needs the row of a node
// that has an edge to one of its nodes.
#pragma once
#include "partition/refinement.hpp"
#include "partition/symmetric.hpp"

namespace kernels {

class VolumeGains {
  public:
    explicit VolumeGains(const Refinement& state)
        : state_(state), starts_(state.graph.nodes + 1), lengths_(state.graph.nodes) {
        const WeightedGraph& graph = state.graph;
        for (int64_t node = 0; node < graph.nodes; ++node)
            starts_[node + 1] = starts_[node] + std::min(graph.degree(node), state.count);
        counts_.resize(starts_[graph.nodes]);
        for_each_node(graph.nodes, state.threads, [&](int64_t node, LabelSums&) {
            for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
                if (graph.has(edge, kToNeighbour)) add(node, state.parts[graph.neighbours[edge]]);
        });
    }

    // The best move of a node, for several threads at a time.
    Move best(int64_t node, LabelSums& sums) const {
        sum(node, sums);
        return state_.best_of(node, sums, false, false);
    }

    // The best move of all, and the best one to a part that the node fits in.
    std::pair<Move, Move> look_up(int64_t node) {
        read_ += sum(node, sums_);
        return state_.wish_and_move(node, sums_);
    }

    // The node that has `edge` has moved; returns how much more its neighbour there can gain, about: nodes two edges
    // away are left as they are until they are looked up.
    int64_t follow(int64_t edge, int32_t from, int32_t to) {
        const int64_t neighbour = state_.graph.neighbours[edge];
        if (state_.graph.has(edge, kFromNeighbour)) remove(neighbour, from), add(neighbour, to);
        return state_.parts[neighbour] == to ? 0 : 2;
    }

    // Let what `follow` reads of a neighbour be on its way.
    void prefetch(int64_t neighbour) const { __builtin_prefetch(&lengths_[neighbour]); }

    int64_t read() const { return read_; }

  private:
    struct Count {
        int32_t part, nodes;
    };

    // Sums of which the difference to the own part's is what a move gains. A part gains the rows that it needs of the
    // node's neighbours, if the node comes, and the node's own, if it goes; returns how many counts were read.
    int64_t sum(int64_t node, LabelSums& sums) const {
        const WeightedGraph& graph = state_.graph;
        const int32_t own = state_.parts[node];
        int64_t read = 0;
        sums.reset(state_.count, state_.count);
        for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge) {
            if (!graph.has(edge, kFromNeighbour)) continue;
            const int64_t other = graph.neighbours[edge];
            const int32_t owner = state_.parts[other];
            sums.add(owner, 1), read += lengths_[other] + 1;
            for (int64_t i = starts_[other]; i < starts_[other] + lengths_[other]; ++i) {
                if (counts_[i].part == owner) continue;
                // the own part needs the neighbour's row for this node alone
                sums.add(counts_[i].part, counts_[i].part == own && counts_[i].nodes == 1 ? 0 : 1);
            }
        }
        for (int64_t i = starts_[node]; i < starts_[node] + lengths_[node]; ++i) sums.add(counts_[i].part, 1);
        return read;
    }

    void add(int64_t node, int32_t part) {
        int64_t i = starts_[node];
        const int64_t end = i + lengths_[node];
        while (i < end && counts_[i].part != part) ++i;
        if (i == end) counts_[i] = {part, 0}, ++lengths_[node];
        ++counts_[i].nodes;
    }

    void remove(int64_t node, int32_t part) {
        int64_t i = starts_[node];
        while (counts_[i].part != part) ++i;
        if (--counts_[i].nodes == 0) counts_[i] = counts_[starts_[node] + --lengths_[node]];
    }

    const Refinement& state_;
    std::vector<int64_t> starts_;
    std::vector<int32_t> lengths_;  // of each node: parts that it has edges to
    std::vector<Count> counts_;     // and how many nodes there
    LabelSums sums_;
    int64_t read_ = 0;
};

}  // namespace kernels
