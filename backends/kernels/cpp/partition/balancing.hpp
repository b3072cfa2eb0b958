// Moves out of parts that are too heavy, until all parts are within their bounds or no move helps.
#pragma once
#include <cmath>
#include <limits>
#include <numeric>

#include "partition/refinement.hpp"

namespace kernels {

class Balancing {
  public:
    explicit Balancing(Refinement& refinement) : state_(refinement), pressures_(refinement.graph.constraints, 1) {}

    // Move nodes until no part is too heavy. Where nodes have several loads and no move helps any more, the loads that
    // are too high count double from then on: nodes leave for parts that are full in another load, and others return
    // from there. The parts that are nearest to the bounds stay.
    void run() {
        for (int round = 0; round < kRounds && relieve(); ++round) {
        }
        if (pressures_.size() == 1) return;
        double least = total_excess();
        std::vector<int32_t> best;
        for (int round = 0, last = 0; least > 0 && round - last < kExchanges; ++round) {
            if (best.empty()) best.assign(state_.parts, state_.parts + state_.graph.nodes);
            press();
            relieve();
            const double excess = total_excess();
            if (excess < (1 - kGain) * least) least = excess, last = round, best.clear();
        }
        if (!best.empty()) restore(best);
    }

  private:
    static constexpr int kRounds = 16, kExchanges = 6;
    static constexpr int64_t kLooked = 64;
    static constexpr double kGain = 0.01, kTie = 1e-6;

    // A move that lowers the excess, and what it costs: lost cut by what it lowers.
    struct Relief {
        int32_t part;
        double price;
    };

    // How far a load is above its bound, as a share of the bound.
    double excess(int64_t part, int64_t constraint, int64_t load) const {
        const int64_t bound = state_.bounds[part * state_.graph.constraints + constraint];
        return double(std::max(load - bound, int64_t(0))) / double(std::max(bound, int64_t(1)));
    }

    // The excess of all parts in a load.
    double excess_in(int64_t constraint) const {
        double sum = 0;
        for (int64_t part = 0; part < state_.count; ++part)
            sum += excess(part, constraint, state_.loads.of(part)[constraint]);
        return sum;
    }

    double total_excess() const {
        double sum = 0;
        for (int64_t c = 0; c < state_.graph.constraints; ++c) sum += excess_in(c);
        return sum;
    }

    // Let loads that are too high count double, the others as in the beginning.
    void press() {
        for (size_t c = 0; c < pressures_.size(); ++c) pressures_[c] = excess_in(int64_t(c)) > 0 ? 2 * pressures_[c] : 1;
    }

    void restore(const std::vector<int32_t>& parts) {
        std::copy(parts.begin(), parts.end(), state_.parts);
        state_.weigh();
    }

    // What a move changes in the excess of both parts together; below 0 it helps.
    double change_of(int64_t node, int32_t to) const {
        const int32_t from = state_.parts[node];
        double change = 0;
        for (int64_t c = 0; c < state_.graph.constraints; ++c) {
            const int64_t weight = state_.graph.weights_of(node)[c];
            const int64_t here = state_.loads.of(from)[c], there = state_.loads.of(to)[c];
            change += pressures_[c] * (excess(from, c, here - weight) - excess(from, c, here) +
                                       excess(to, c, there + weight) - excess(to, c, there));
        }
        return change;
    }

    // The share of its bounds that a part has reached, in the load in which that is largest.
    double fullness(int64_t part) const {
        double most = 0;
        for (int64_t c = 0; c < state_.graph.constraints; ++c) {
            const int64_t bound = state_.bounds[part * state_.graph.constraints + c];
            most = std::max(most, double(state_.loads.of(part)[c]) / double(std::max(bound, int64_t(1))));
        }
        return most;
    }

    void sort_parts() {
        std::vector<double> shares(state_.count);
        for (int64_t part = 0; part < state_.count; ++part) shares[part] = fullness(part);
        lightest_.resize(state_.count);
        std::iota(lightest_.begin(), lightest_.end(), 0);
        std::stable_sort(lightest_.begin(), lightest_.end(), [&](int32_t a, int32_t b) { return shares[a] < shares[b]; });
        first_ = 0, passes_ = state_.count > kLooked;
    }

    // Pass over parts that have filled up since they were sorted, where there are more than a node looks at; not again
    // once all are full.
    void pass_full_parts() {
        while (passes_ && fullness(lightest_[first_]) >= 1)
            if (++first_ == state_.count) first_ = 0, passes_ = false;
    }

    // The cheapest move of a node that lowers the excess, to a part that it has an edge to or to one of the lightest
    // ones; its own part where there is none.
    Relief relief_of(int64_t node, LabelSums& sums) const {
        const int32_t own = state_.parts[node];
        sums.of_neighbours(state_.graph, node, state_.parts, state_.count);
        int64_t inside = 0;
        for (int64_t i = 0; i < sums.count(); ++i)
            if (sums.label(i) == own) inside = sums.sum(i);
        Relief best{own, 0};
        const auto consider = [&](int32_t part, int64_t ties) {
            const double change = part == own ? 0 : change_of(node, part);
            if (change >= -1e-12) return;
            const double lost = double(inside - ties);
            // of moves that lose nothing, too, the one that lowers the excess most is the cheapest
            const double price = lost >= 0 ? (lost + kTie) / -change : lost * -change;
            if (best.part == own || price < best.price || (price == best.price && part < best.part))
                best = {part, price};
        };
        for (int64_t i = 0; i < sums.count(); ++i) consider(sums.label(i), sums.sum(i));
        const int64_t end = std::min(first_ + kLooked, state_.count);
        for (int64_t i = first_; i < end; ++i) {
            consider(lightest_[i], 0);
            if (lightest_[i] != own && state_.fits(node, lightest_[i])) break;  // no other one lowers the excess more
        }
        return best;
    }

    // Move nodes where that lowers what parts are above their bounds, the cheapest first; one that makes room in one
    // load may exceed another one by less. Returns whether a part is still too heavy and a node moved.
    bool relieve() {
        std::vector<int32_t> nodes;
        for (int64_t node = 0; node < state_.graph.nodes; ++node)
            if (state_.is_heavy(state_.parts[node])) nodes.push_back(int32_t(node));
        if (nodes.empty()) return false;
        sort_parts();
        std::vector<double> prices(state_.graph.nodes, std::numeric_limits<double>::infinity());
        for_each_node(int64_t(nodes.size()), state_.threads, [&](int64_t i, LabelSums& own) {
            const Relief relief = relief_of(nodes[i], own);
            if (relief.part != state_.parts[nodes[i]]) prices[nodes[i]] = relief.price;
        });
        std::erase_if(nodes, [&](int32_t node) { return std::isinf(prices[node]); });
        std::stable_sort(nodes.begin(), nodes.end(), [&](int32_t a, int32_t b) { return prices[a] < prices[b]; });
        LabelSums sums;
        bool moved = false;
        for (const int32_t node : nodes) {
            if (!state_.is_heavy(state_.parts[node])) continue;
            pass_full_parts();
            const Relief relief = relief_of(node, sums);
            if (relief.part != state_.parts[node]) state_.apply(node, relief.part), moved = true;
        }
        bool heavy = false;
        for (int64_t part = 0; part < state_.count; ++part) heavy |= state_.is_heavy(part);
        return heavy && moved;
    }

    Refinement& state_;
    std::vector<double> pressures_;  // of each load: what its excess counts
    std::vector<int32_t> lightest_;  // all parts, the lightest first
    int64_t first_ = 0;              // in `lightest_`: those before it are full
    bool passes_ = false;            // whether `first_` goes on
};

}  // namespace kernels
