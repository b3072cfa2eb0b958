// Moves of single nodes that may make things worse for a while (Fiduccia and Mattheyses 1982), between any two parts.
#pragma once
#include <queue>

#include "partition/balancing.hpp"
#include "partition/cut_gains.hpp"
#include "partition/node_heap.hpp"
#include "partition/volume_gains.hpp"

namespace kernels {

constexpr int kClimbs = 4, kManyMoved = 5;

// What a climb did: the sum of gains, the moves that were kept, the nodes that it could move from the start.
struct Climb {
    int64_t gain, moves, boundary;

    // A node moves once in a climb: where many did, their neighbours would move again.
    bool has_moved_many() const { return kManyMoved * moves > boundary; }
};

// A node that waits for room in a part, with what it gains there.
struct Waiting {
    int64_t gain;
    int32_t node;

    bool operator<(const Waiting& other) const {
        return gain < other.gain || (gain == other.gain && node > other.node);
    }
};

template <class Gains>
class HillClimbing {
  public:
    explicit HillClimbing(Refinement& refinement)
        : state_(refinement), gains_(refinement), queue_(refinement.graph.nodes), waiting_(refinement.count) {}

    // Move the node of the largest gain again and again, each once, until `patience` moves brought nothing or as much
    // was read as `kReadings` times the graph; moves after the largest sum of gains are undone.
    Climb climb() {
        enqueue_boundary();
        const int64_t boundary = queue_.size();
        int64_t total = 0, best = 0;
        size_t kept = 0;
        // moving every node of a small graph costs more than the climb out of a small valley can gain
        const int64_t patience = std::clamp(state_.graph.nodes / 8, kLeastPatience, kPatience);
        const int64_t most = kReadings * state_.graph.edges();
        while (!queue_.empty() && int64_t(moves_.size() - kept) < patience && gains_.read() <= most) {
            const int32_t node = queue_.top(), from = state_.parts[node];
            const auto [wish, move] = gains_.look_up(node);
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
        return {best, int64_t(kept), boundary};
    }

  private:
    static constexpr int64_t kPatience = 2000, kLeastPatience = 100, kReadings = 16, kAhead = 8;

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
        for_each_node(graph.nodes, state_.threads, [&](int64_t node, LabelSums& own) {
            const bool inside = state_.is_inside(node);
            moves[node] = inside ? Move{state_.parts[node], 0} : gains_.best(node, own);
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
                gains_.prefetch(graph.neighbours[edge + kAhead]);
                __builtin_prefetch(state_.parts + graph.neighbours[edge + kAhead]);
            }
            const int32_t other = graph.neighbours[edge];
            const int64_t rise = gains_.follow(edge, from, to);
            if (queue_.retired(other) || rise == 0) continue;
            if (queue_.contains(other))
                queue_.set(other, queue_.key(other) + rise);
            else
                enqueue(other, gains_.look_up(other).first);
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
    Gains gains_;
    NodeHeap queue_;  // a node's key is what its best move gains at most
    std::vector<std::priority_queue<Waiting>> waiting_;  // of each part: nodes that gain there and do not fit in
    std::vector<std::pair<int32_t, int32_t>> moves_;
};

// Improve `parts` [nodes] in place: into `bounds` [count, constraints], then by climbs under the cut, with `volume` by
// further ones under the volume; `loads` [count, constraints] are those of the result.
inline void refine(const WeightedGraph& graph, const int64_t* bounds, int64_t count, bool volume, int threads,
                   int32_t* parts, int64_t* loads) {
    Refinement refinement{graph, parts, {loads, graph.constraints}, bounds, count, threads};
    refinement.weigh();
    Balancing(refinement).run();
    for (int climb = 0; climb < kClimbs; ++climb)
        if (!HillClimbing<CutGains>(refinement).climb().has_moved_many()) break;
    for (int climb = 0; volume && climb < kClimbs; ++climb)
        if (HillClimbing<VolumeGains>(refinement).climb().gain == 0) break;
}

}  // namespace kernels
