// Moves of single nodes between parts that lower the cut, and moves out of parts that are too heavy.
#pragma once
#include <cmath>
#include <limits>
#include <numeric>

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

    // How far a load is above its bound, as a share of the bound.
    double excess(int64_t part, int64_t constraint, int64_t load) const {
        const int64_t bound = bounds[part * graph.constraints + constraint];
        return double(std::max(load - bound, int64_t(0))) / double(std::max(bound, int64_t(1)));
    }

    // What a move changes in the excess of both parts together; below 0 it helps.
    double change_of(int64_t node, int32_t to) const {
        const int32_t from = parts[node];
        double change = 0;
        for (int64_t c = 0; c < graph.constraints; ++c) {
            const int64_t weight = graph.weights_of(node)[c];
            change += excess(from, c, loads.of(from)[c] - weight) - excess(from, c, loads.of(from)[c]) +
                      excess(to, c, loads.of(to)[c] + weight) - excess(to, c, loads.of(to)[c]);
        }
        return change;
    }

    // A move that lowers the excess, and what it costs: lost cut by what it lowers.
    struct Relief {
        int32_t part;
        double price;
    };

    // The cheapest move of a node that lowers the excess; its own part where there is none.
    Relief relief_of(int64_t node, LabelSums& sums) const {
        sums.of_neighbours(graph, node, parts, count);
        std::vector<int64_t>& ties = sums.spread(count);
        Relief best{parts[node], 0};
        for (int32_t part = 0; part < count; ++part) {
            if (part == parts[node]) continue;
            const double change = change_of(node, part);
            if (change >= -1e-12) continue;
            const double lost = double(ties[parts[node]] - ties[part]);
            const double price = lost > 0 ? lost / -change : lost * -change;
            if (best.part == parts[node] || price < best.price) best = {part, price};
        }
        return best;
    }

    // Move nodes where that lowers what parts are above their bounds, the cheapest first; one that makes room in one
    // load may exceed another one by less. Returns whether a part is still too heavy and a node moved.
    bool balance() {
        std::vector<int32_t> nodes;
        for (int64_t node = 0; node < graph.nodes; ++node)
            if (is_heavy(parts[node])) nodes.push_back(int32_t(node));
        if (nodes.empty()) return false;
        std::vector<double> prices(graph.nodes, std::numeric_limits<double>::infinity());
        for_each(int64_t(nodes.size()), threads, [&](int64_t i, LabelSums& own) {
            const Relief relief = relief_of(nodes[i], own);
            if (relief.part != parts[nodes[i]]) prices[nodes[i]] = relief.price;
        });
        std::erase_if(nodes, [&](int32_t node) { return std::isinf(prices[node]); });
        std::stable_sort(nodes.begin(), nodes.end(), [&](int32_t a, int32_t b) { return prices[a] < prices[b]; });
        LabelSums sums;
        bool moved = false;
        for (const int32_t node : nodes) {
            if (!is_heavy(parts[node])) continue;
            const Relief relief = relief_of(node, sums);
            if (relief.part != parts[node]) apply(node, relief.part), moved = true;
        }
        bool heavy = false;
        for (int64_t part = 0; part < count; ++part) heavy |= is_heavy(part);
        return heavy && moved;
    }
};

}  // namespace kernels
