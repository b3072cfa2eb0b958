// The first cut of a small graph: bisections of bisections, each the best of several that grow from a node.
#pragma once
#include <cmath>
#include <tuple>

#include "partition/clustering.hpp"
#include "partition/contraction.hpp"
#include "partition/hill_climbing.hpp"

namespace kernels {

// A graph with arrays of its own.
struct OwnGraph {
    std::vector<int64_t> starts{0}, edge_weights, node_weights;
    std::vector<int32_t> neighbours;
    int64_t constraints = 1;

    WeightedGraph view() const {
        return {starts.data(), neighbours.data(), edge_weights.data(), node_weights.data(), int64_t(starts.size()) - 1,
                constraints};
    }
};

// The graph of some nodes, those with `sides[node] == side`, whose numbers go to `nodes`.
inline OwnGraph part_of(const WeightedGraph& graph, const std::vector<int32_t>& sides, int32_t side,
                        std::vector<int32_t>& nodes) {
    OwnGraph own;
    own.constraints = graph.constraints;
    std::vector<int32_t> numbers(graph.nodes);
    for (int64_t node = 0; node < graph.nodes; ++node)
        if (sides[node] == side) numbers[node] = int32_t(nodes.size()), nodes.push_back(int32_t(node));
    for (const int32_t node : nodes) {
        for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge) {
            if (sides[graph.neighbours[edge]] != side) continue;
            own.neighbours.push_back(numbers[graph.neighbours[edge]]), own.edge_weights.push_back(graph.weight(edge));
        }
        own.starts.push_back(int64_t(own.neighbours.size()));
        own.node_weights.insert(own.node_weights.end(), graph.weights_of(node),
                                graph.weights_of(node) + graph.constraints);
    }
    return own;
}

// The graph of clusters, `labels` [nodes], whose numbers begin at 0.
inline OwnGraph contracted(const WeightedGraph& graph, const std::vector<int32_t>& labels, int64_t clusters) {
    OwnGraph own;
    own.constraints = graph.constraints;
    std::vector<int64_t> first(clusters + 1), capacity(clusters + 1), lengths(clusters);
    std::vector<int32_t> members(graph.nodes);
    own.node_weights.resize(clusters * graph.constraints);
    clusters_of(graph, labels.data(), clusters, first.data(), members.data(), capacity.data(), own.node_weights.data());
    own.neighbours.resize(capacity[clusters]), own.edge_weights.resize(capacity[clusters]);
    const int64_t total =
        contract_rows(graph, labels.data(), clusters, first.data(), members.data(), capacity.data(), 0, clusters, 1,
                      lengths.data(), own.neighbours.data(), own.edge_weights.data());
    own.neighbours.resize(total), own.edge_weights.resize(total);
    own.starts.resize(clusters + 1);
    std::partial_sum(lengths.begin(), lengths.end(), own.starts.begin() + 1);
    return own;
}

// A graph that is cut into two sides, and what is asked.
struct Bisection {
    std::vector<int64_t> bounds;  // [2, constraints]
    std::vector<double> targets;  // [constraints], loads of side 0
    std::vector<int64_t> largest;  // [constraints], of a cluster

    static constexpr int64_t kCoarsest = 96;
    static constexpr int kGrown = 16;

    using Score = std::pair<int64_t, int64_t>;  // load above the bounds, cut

    // The sides by contraction, cuts that grow from a node of the smallest graph, and refinement on the way back.
    std::vector<int32_t> sides_of(const WeightedGraph& graph, uint64_t key, Score& score) const {
        std::vector<int32_t> sides;
        std::vector<int32_t> labels(graph.nodes);
        int64_t clusters = graph.nodes;
        if (graph.nodes > kCoarsest) {
            std::vector<int64_t> loads(graph.nodes * graph.constraints);
            cluster(graph, largest.data(), nullptr, 2, key, 1, labels.data(), loads.data());
            clusters = renumber(labels.data(), graph.nodes);
        }
        if (clusters * 20 <= graph.nodes * 19 && graph.nodes > kCoarsest) {
            const OwnGraph coarse = contracted(graph, labels, clusters);
            const std::vector<int32_t> own = sides_of(coarse.view(), keyed(key, 1), score);
            sides.resize(graph.nodes);
            for (int64_t node = 0; node < graph.nodes; ++node) sides[node] = own[labels[node]];
            score = refined(graph, sides);
            return sides;
        }
        std::vector<int64_t> ties(graph.nodes);
        for (int64_t node = 0; node < graph.nodes; ++node)
            for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
                ties[node] += graph.weight(edge);
        for (int attempt = 0; attempt < kGrown; ++attempt) {
            std::vector<int32_t> other = grown(graph, ties, keyed(key, attempt));
            const Score own = refined(graph, other);
            if (attempt == 0 || own < score) sides = std::move(other), score = own;
        }
        return sides;
    }

  private:
    Score refined(const WeightedGraph& graph, std::vector<int32_t>& sides) const {
        std::vector<int64_t> loads(bounds.size());
        refine(graph, bounds.data(), 2, false, 1, sides.data(), loads.data());
        Score score{0, 0};
        for (size_t i = 0; i < loads.size(); ++i) score.first += std::max(loads[i] - bounds[i], int64_t(0));
        score.second = cut_of(graph, sides.data(), 1);
        return score;
    }

    bool is_full(const std::vector<int64_t>& loads) const {
        double sum = 0;
        for (size_t c = 0; c < targets.size(); ++c) sum += targets[c] > 0 ? double(loads[c]) / targets[c] : 1;
        return sum >= double(targets.size());
    }

    // Side 0 grows from a node by those that raise the cut least, and from another node where none is left; `ties`
    // are the weights of all edges of a node.
    std::vector<int32_t> grown(const WeightedGraph& graph, const std::vector<int64_t>& ties, uint64_t hash) const {
        std::vector<int32_t> sides(graph.nodes, 1);
        std::vector<int64_t> loads(graph.constraints);
        const Loads load{loads.data(), graph.constraints};
        NodeHeap border(graph.nodes);
        int64_t next = below(hash, graph.nodes);
        for (int64_t looked = 0; !is_full(loads);) {
            if (border.empty()) {
                for (; looked < graph.nodes && border.retired(next); ++looked) next = (next + 1) % graph.nodes;
                if (looked == graph.nodes) break;
                border.set(int32_t(next), 0);
            }
            const int32_t node = border.top();
            border.retire(node);
            if (!load.fits(0, graph.weights_of(node), bounds.data())) continue;
            sides[node] = 0, load.add(0, graph.weights_of(node), 1);
            for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge) {
                const int32_t other = graph.neighbours[edge];
                if (border.retired(other)) continue;
                border.set(other, (border.contains(other) ? border.key(other) : -ties[other]) + 2 * graph.weight(edge));
            }
        }
        return sides;
    }
};

// Assign the nodes to `count` parts from `first` on, each of at most `bounds` [constraints] where that is possible.
// Every bisection takes its share of the slack between the bounds and the loads.
inline void bisect(const WeightedGraph& graph, const int64_t* bounds, int32_t first, int32_t count, uint64_t key,
                   int tries, int threads, int32_t* parts) {
    if (count == 1) {
        std::fill_n(parts, graph.nodes, first);
        return;
    }
    const int32_t counts[2] = {count / 2, count - count / 2};
    std::vector<int64_t> loads(graph.constraints);
    for (int64_t node = 0; node < graph.nodes; ++node)
        Loads{loads.data(), graph.constraints}.add(0, graph.weights_of(node), 1);
    Bisection bisection{std::vector<int64_t>(2 * graph.constraints), {}, {}};
    const double depth = std::ceil(std::log2(double(count)));
    for (int64_t c = 0; c < graph.constraints; ++c) {
        const double slack = loads[c] > 0 ? double(bounds[c]) * count / double(loads[c]) : 1;
        const double part = double(loads[c]) / count, spread = std::pow(std::max(slack, 1.0), 1 / depth);
        for (int side = 0; side < 2; ++side)
            bisection.bounds[side * graph.constraints + c] = int64_t(part * counts[side] * spread);
        bisection.targets.push_back(part * counts[0]);
        bisection.largest.push_back(std::max(loads[c] / Bisection::kCoarsest, int64_t(1)));
    }
    std::vector<std::vector<int32_t>> sides(tries);
    std::vector<std::pair<Bisection::Score, int>> scores(tries);
    for_each(tries, 1, threads, [&](int64_t attempt, NoScratch&) {
        scores[attempt].second = int(attempt);
        sides[attempt] = bisection.sides_of(graph, keyed(key, attempt), scores[attempt].first);
    });
    const std::vector<int32_t>& best = sides[std::min_element(scores.begin(), scores.end())->second];
    for (int32_t side = 0; side < 2; ++side) {
        std::vector<int32_t> nodes;
        const OwnGraph half = part_of(graph, best, side, nodes);
        std::vector<int32_t> own(nodes.size());
        bisect(half.view(), bounds, first + (side ? counts[0] : 0), counts[side], keyed(key, tries + side), tries,
               threads, own.data());
        for (size_t i = 0; i < own.size(); ++i) parts[nodes[i]] = own[i];
    }
}

}  // namespace kernels
