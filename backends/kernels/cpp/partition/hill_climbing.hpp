// Moves of single nodes that may raise the cut for a while (Fiduccia and Mattheyses 1982), between any two parts.
#pragma once
#include <queue>

#include "partition/refinement.hpp"

namespace kernels {

constexpr int64_t kPatience = 500;

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

// A node in the queue with the gain that its best move had when it was put there.
struct Candidate {
    int64_t gain;
    int32_t node;

    bool operator<(const Candidate& other) const {
        return gain < other.gain || (gain == other.gain && node > other.node);
    }
};

class HillClimbing {
  public:
    explicit HillClimbing(Refinement& refinement)
        : state_(refinement), connections_(refinement), queued_(refinement.graph.nodes, kNowhere),
          locked_(refinement.graph.nodes, 0) {}

    // Move the node of the largest gain again and again, each once, until `patience` moves brought nothing or the graph
    // was read `kReadings` times; moves after the lowest cut are undone. Returns the gain.
    int64_t climb(int64_t patience) {
        enqueue_boundary();
        int64_t total = 0, best = 0;
        size_t kept = 0;
        const int64_t most = kReadings * state_.graph.starts[state_.graph.nodes];
        while (!queue_.empty() && int64_t(moves_.size() - kept) < patience && read_ <= most) {
            const Candidate candidate = queue_.top();
            queue_.pop();
            const int32_t node = candidate.node;
            if (candidate.gain != queued_[node]) continue;
            queued_[node] = kNowhere;
            const Move move = best_move(node);
            if (move.part == state_.parts[node]) continue;
            if (move.gain < candidate.gain) {
                enqueue(node, move.gain);
                continue;
            }
            const int32_t from = state_.parts[node];
            locked_[node] = 1, moves_.push_back({node, from});
            state_.apply(node, move.part);
            if ((total += move.gain) > best) best = total, kept = moves_.size();
            update_neighbours(node, from, move.part);
        }
        for (; moves_.size() > kept; moves_.pop_back()) state_.apply(moves_.back().first, moves_.back().second);
        return best;
    }

  private:
    // Neighbours beyond which a node moves in rounds alone, where each look at its gain reads them all.
    static constexpr int64_t kHub = 1000;
    static constexpr int64_t kReadings = 32;
    static constexpr int64_t kNowhere = INT64_MIN;

    bool waits(int64_t node) const {
        return locked_[node] || (!connections_.known() && state_.graph.degree(node) > kHub);
    }

    Move best_move(int64_t node) {
        if (connections_.known()) return state_.best_of(node, connections_.of(node), false);
        return state_.best(node, sums_, false);
    }

    // Put a node into the queue, unless it is there with as large a gain: a gain that fell is found when it comes out.
    void enqueue(int32_t node, int64_t gain) {
        if (gain > queued_[node]) queue_.push({gain, node}), queued_[node] = gain;
    }

    void enqueue_boundary() {
        const WeightedGraph& graph = state_.graph;
        std::vector<int64_t> gains(graph.nodes);
        std::vector<uint8_t> moves(graph.nodes);
        for_each(graph.nodes, state_.threads, [&](int64_t node, LabelSums& own) {
            if (waits(node) || state_.is_inside(node)) return;
            const Move move = state_.best(node, own, false);
            moves[node] = move.part != state_.parts[node], gains[node] = move.gain;
        });
        for (int64_t node = 0; node < graph.nodes; ++node)
            if (moves[node]) enqueue(int32_t(node), gains[node]);
    }

    void update_neighbours(int32_t node, int32_t from, int32_t to) {
        const WeightedGraph& graph = state_.graph;
        for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge) {
            const int32_t other = graph.neighbours[edge];
            if (connections_.known()) connections_.move(other, graph.weight(edge), from, to);
            if (waits(other) || state_.parts[other] == to) continue;  // in `to` its gains fell
            read_ += connections_.known() ? state_.count : graph.degree(other);
            const Move move = best_move(other);
            if (move.part != state_.parts[other]) enqueue(other, move.gain);
        }
    }

    Refinement& state_;
    Connections connections_;
    std::priority_queue<Candidate> queue_;
    std::vector<int64_t> queued_;
    std::vector<uint8_t> locked_;
    std::vector<std::pair<int32_t, int32_t>> moves_;
    LabelSums sums_;
    int64_t read_ = 0;  // sums and edges
};

// Improve `parts` [nodes] in place: into the bounds, then rounds of single moves, then climbs while they gain;
// `loads` [count, constraints] are those of the result.
inline void refine(const WeightedGraph& graph, const int64_t* bounds, int64_t count, int rounds, int climbs,
                   uint64_t key, int threads, int32_t* parts, int64_t* loads) {
    Refinement refinement{graph, parts, {loads, graph.constraints}, bounds, count, threads};
    refinement.weigh();
    for (int round = 0; round < 4 && refinement.balance(); ++round) {
    }
    Turns turns(graph.nodes, key);
    for (int round = 0; round < rounds; ++round)
        if (refinement.round(turns) == 0) break;
    for (int climb = 0; climb < climbs; ++climb)
        if (HillClimbing(refinement).climb(kPatience) == 0) break;
}

}  // namespace kernels
