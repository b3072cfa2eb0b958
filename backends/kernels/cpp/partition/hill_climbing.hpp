// Moves of single nodes that may raise the cut for a while (Fiduccia and Mattheyses 1982), between any two parts.
#pragma once
#include <queue>

#include "partition/refinement.hpp"

namespace kernels {

constexpr int64_t kPatience = 500;

// A node in the queue with the gain of its best move when it was put there; a newer entry of the node replaces it.
struct Candidate {
    int64_t gain;
    int32_t node, version;

    bool operator<(const Candidate& other) const {
        return gain < other.gain || (gain == other.gain && node > other.node);
    }
};

class HillClimbing {
  public:
    explicit HillClimbing(Refinement& refinement)
        : state_(refinement), version_(refinement.graph.nodes, 0), locked_(refinement.graph.nodes, 0) {}

    // Move the node of the largest gain again and again, each once, until `patience` moves brought nothing; moves after
    // the lowest cut are undone. Returns the gain.
    int64_t climb(int64_t patience) {
        enqueue_boundary();
        int64_t total = 0, best = 0;
        size_t kept = 0;
        while (!queue_.empty() && int64_t(moves_.size() - kept) < patience) {
            const Candidate candidate = queue_.top();
            queue_.pop();
            const int32_t node = candidate.node;
            if (locked_[node] || candidate.version != version_[node]) continue;
            const Move move = state_.best(node, sums_, false);
            if (move.part == state_.parts[node]) continue;
            if (move.gain < candidate.gain) {
                enqueue(node, move.gain);
                continue;
            }
            locked_[node] = 1, moves_.push_back({node, state_.parts[node]});
            state_.apply(node, move.part);
            if ((total += move.gain) > best) best = total, kept = moves_.size();
            update_neighbours(node);
        }
        for (; moves_.size() > kept; moves_.pop_back()) state_.apply(moves_.back().first, moves_.back().second);
        return best;
    }

  private:
    // Neighbours beyond which a node moves in rounds alone, as each look at its gain reads them all.
    static constexpr int64_t kHub = 1000;

    void enqueue(int32_t node, int64_t gain) { queue_.push({gain, node, ++version_[node]}); }

    void enqueue_boundary() {
        const WeightedGraph& graph = state_.graph;
        std::vector<int64_t> gains(graph.nodes);
        std::vector<uint8_t> moves(graph.nodes);
        for_each(graph.nodes, state_.threads, [&](int64_t node, LabelSums& own) {
            if (graph.degree(node) > kHub || state_.is_inside(node)) return;
            const Move move = state_.best(node, own, false);
            moves[node] = move.part != state_.parts[node], gains[node] = move.gain;
        });
        for (int64_t node = 0; node < graph.nodes; ++node)
            if (moves[node]) enqueue(int32_t(node), gains[node]);
    }

    void update_neighbours(int32_t node) {
        const WeightedGraph& graph = state_.graph;
        for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge) {
            const int32_t other = graph.neighbours[edge];
            if (locked_[other] || graph.degree(other) > kHub) continue;
            const Move move = state_.best(other, sums_, false);
            if (move.part != state_.parts[other]) enqueue(other, move.gain);
        }
    }

    Refinement& state_;
    std::priority_queue<Candidate> queue_;
    std::vector<int32_t> version_;
    std::vector<uint8_t> locked_;
    std::vector<std::pair<int32_t, int32_t>> moves_;
    LabelSums sums_;
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
