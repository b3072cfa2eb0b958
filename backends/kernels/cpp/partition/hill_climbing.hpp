// Moves of single nodes that may raise the cut for a while (Fiduccia and Mattheyses 1982), between any two parts.
#pragma once
#include <queue>
#include <cstdio>

#include "partition/node_heap.hpp"
#include "partition/refinement.hpp"

namespace kernels {

constexpr int64_t kPatience = 2000, kBalancings = 16;

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

// A node that waits for room in a part, with what it gains there.
struct Waiting {
    int64_t gain;
    int32_t node;

    bool operator<(const Waiting& other) const {
        return gain < other.gain || (gain == other.gain && node > other.node);
    }
};

class HillClimbing {
  public:
    explicit HillClimbing(Refinement& refinement)
        : state_(refinement), connections_(refinement), queue_(refinement.graph.nodes), waiting_(refinement.count) {}

    // Move the node of the largest gain again and again, each once, until `patience` moves brought nothing or the graph
    // was read `kReadings` times; moves after the lowest cut are undone. Returns the gain.
    int64_t climb(int64_t patience) {
        enqueue_boundary();
        int64_t total = 0, best = 0;
        size_t kept = 0;
        const int64_t most = kReadings * state_.graph.starts[state_.graph.nodes];
        while (!queue_.empty() && int64_t(moves_.size() - kept) < patience && read_ <= most) {
            const int32_t node = queue_.top(), from = state_.parts[node];
            const auto [wish, move] = look_up(node);
            if (move.part == from || move.gain < queue_.key(node)) {
                if (wish.part != move.part) waiting_[wish.part].push({wish.gain, node});
                enqueue(node, move);
                continue;
            }
            queue_.retire(node), moves_.push_back({node, from});
            state_.apply(node, move.part);
            if ((total += move.gain) > best) best = total, kept = moves_.size();
            update_neighbours(node, from, move.part);
            wake(from);
        }
        for (; moves_.size() > kept; moves_.pop_back()) state_.apply(moves_.back().first, moves_.back().second);
        return best;
    }

  private:
    static constexpr int64_t kReadings = 16, kAhead = 8;

    // The best move of all, and the best one to a part that the node fits in.
    std::pair<Move, Move> look_up(int64_t node) {
        const auto both = [&](const auto& sums) {
            return std::pair{state_.best_of(node, sums, false, false), state_.best_of(node, sums, false)};
        };
        read_ += connections_.known() ? state_.count : state_.graph.degree(node);
        if (connections_.known()) return both(connections_.of(node));
        sums_.of_neighbours(state_.graph, node, state_.parts, state_.count);
        return both(sums_);
    }

    // Put a node into the queue with what its best move gains, or take it out if there is none.
    void enqueue(int32_t node, const Move& move) {
        if (move.part != state_.parts[node])
            queue_.set(node, move.gain);
        else if (queue_.contains(node))
            queue_.remove(node);
    }

    void enqueue_boundary() {
        const WeightedGraph& graph = state_.graph;
        std::vector<Move> moves(graph.nodes);
        for_each(graph.nodes, state_.threads, [&](int64_t node, LabelSums& own) {
            const bool inside = state_.is_inside(node);
            moves[node] = inside ? Move{state_.parts[node], 0} : state_.best(node, own, false, false);
        });
        for (int64_t node = 0; node < graph.nodes; ++node) enqueue(int32_t(node), moves[node]);
    }

    // Raise the keys of a moved node's neighbours by as much as their gains can have risen; what they gain is looked up
    // when they come out of the queue, which most never do.
    void update_neighbours(int32_t node, int32_t from, int32_t to) {
        const WeightedGraph& graph = state_.graph;
        const int64_t end = graph.starts[node + 1];
        for (int64_t edge = graph.starts[node]; edge < end; ++edge) {
            if (edge + kAhead < end) {
                queue_.prefetch(graph.neighbours[edge + kAhead]);
                __builtin_prefetch(state_.parts + graph.neighbours[edge + kAhead]);
            }
            const int32_t other = graph.neighbours[edge];
            const int64_t weight = graph.weight(edge);
            if (connections_.known()) connections_.move(other, weight, from, to);
            if (queue_.retired(other) || state_.parts[other] == to) continue;  // in `to` its gains fell
            if (queue_.contains(other))
                queue_.set(other, queue_.key(other) + (state_.parts[other] == from ? 2 * weight : weight));
            else
                enqueue(other, look_up(other).first);
        }
    }

    // A part has room: the node that gains most there is looked at again.
    void wake(int32_t part) {
        std::priority_queue<Waiting>& waiting = waiting_[part];
        while (!waiting.empty() && queue_.retired(waiting.top().node)) waiting.pop();
        if (waiting.empty()) return;
        const auto [gain, node] = waiting.top();
        waiting.pop();
        if (!queue_.contains(node) || queue_.key(node) < gain) queue_.set(node, gain);
    }

    Refinement& state_;
    Connections connections_;
    NodeHeap queue_;  // a node's key is what its best move gains at most
    std::vector<std::priority_queue<Waiting>> waiting_;  // of each part: nodes that gain there and do not fit in
    std::vector<std::pair<int32_t, int32_t>> moves_;
    LabelSums sums_;
    int64_t read_ = 0;  // sums and edges
};

// Improve `parts` [nodes] in place: into `bounds` [count, constraints], then by climbs while they gain; `loads`
// [count, constraints] are those of the result.
inline void refine(const WeightedGraph& graph, const int64_t* bounds, int64_t count, int climbs, int threads,
                   int32_t* parts, int64_t* loads) {
    Refinement refinement{graph, parts, {loads, graph.constraints}, bounds, count, threads};
    refinement.weigh();
    for (int round = 0; round < kBalancings && refinement.balance(); ++round) {
    }
    for (int climb = 0; climb < climbs; ++climb)
        if (HillClimbing(refinement).climb(kPatience) == 0) break;
}

}  // namespace kernels
