// Parts of nodes that are being improved: their loads, and what a node gains in another part.
#pragma once

#include "partition/weighted_graph.hpp"

namespace kernels {

struct Move {
    int32_t part;
    int64_t gain;
};

struct Refinement {
    const WeightedGraph& graph;
    int32_t* parts;         // [nodes]
    Loads loads;            // [count, constraints]
    const int64_t* bounds;  // [count, constraints]
    int64_t count;
    int threads;

    void weigh() {
        std::fill_n(loads.values, count * graph.constraints, 0);
        for (int64_t node = 0; node < graph.nodes; ++node) loads.add(parts[node], graph.weights_of(node), 1);
    }

    bool fits(int64_t node, int32_t part) const {
        return loads.fits(part, graph.weights_of(node), bounds + part * graph.constraints);
    }

    // The part that lowers the cut most, with `fitting` of those that the node fits in; of equal ones the lighter one,
    // then the first. `sums` are the weights of its edges by part; with `anywhere` also parts that it has no edge to.
    template <class Sums>
    Move best_of(int64_t node, const Sums& sums, bool anywhere, bool fitting = true) const {
        const int32_t own = parts[node];
        int64_t inside = 0, most = -1;
        int32_t chosen = own;
        const auto consider = [&](int32_t part, int64_t sum) {
            if (sum < most || part == own) return;
            if (fitting && !fits(node, part)) return;
            const bool lighter = loads.of(part)[0] < loads.of(chosen)[0] ||
                                 (loads.of(part)[0] == loads.of(chosen)[0] && part < chosen);
            if (sum > most || lighter) chosen = part, most = sum;
        };
        for (int64_t i = 0; i < sums.count(); ++i) {
            if (sums.label(i) == own) inside = sums.sum(i);
            consider(sums.label(i), sums.sum(i));
        }
        for (int32_t part = 0; anywhere && chosen == own && part < count; ++part) consider(part, 0);
        return {chosen, chosen == own ? 0 : most - inside};
    }

    Move best(int64_t node, LabelSums& sums, bool anywhere, bool fitting = true) const {
        sums.of_neighbours(graph, node, parts, count);
        return best_of(node, sums, anywhere, fitting);
    }

    // The best move of all by some sums, and the best one to a part that the node fits in.
    template <class Sums>
    std::pair<Move, Move> wish_and_move(int64_t node, const Sums& sums) const {
        return {best_of(node, sums, false, false), best_of(node, sums, false)};
    }

    // Whether all neighbours of a node are in its part: no move of it lowers the cut.
    bool is_inside(int64_t node) const {
        for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
            if (parts[graph.neighbours[edge]] != parts[node]) return false;
        return true;
    }

    void apply(int64_t node, int32_t part) {
        loads.add(parts[node], graph.weights_of(node), -1);
        loads.add(part, graph.weights_of(node), 1);
        parts[node] = part;
    }

    bool is_heavy(int64_t part) const {
        for (int64_t c = 0; c < graph.constraints; ++c)
            if (loads.of(part)[c] > bounds[part * graph.constraints + c]) return true;
        return false;
    }
};

}  // namespace kernels
