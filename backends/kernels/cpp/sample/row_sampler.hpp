// Sampling of one node's in-edges by a fanout (defined in backends/kernels/definition.py).
#pragma once
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>

#include "common/failures.hpp"
#include "common/hash.hpp"
#include "sample/rank.hpp"
#include "sample/shuffle.hpp"

namespace kernels {

constexpr int64_t kEverything = std::numeric_limits<int64_t>::max();
constexpr double kLeastWeight = 1e-290, kLargestWeight = 1e290;  // LEAST and LARGEST of samplers.py

// An array of 32- or 64-bit numbers, read as the wider: the branch costs nothing beside a cache miss.
template <class Narrow, class Wide>
struct Numbers {
    const void* data = nullptr;
    bool wide = false;
    Wide operator[](int64_t i) const {
        return wide ? static_cast<const Wide*>(data)[i] : Wide(static_cast<const Narrow*>(data)[i]);
    }
    void prefetch(int64_t i) const {
        __builtin_prefetch(static_cast<const char*>(data) + i * (wide ? sizeof(Wide) : sizeof(Narrow)), 0, 3);
    }
};
using Integers = Numbers<int32_t, int64_t>;
using Reals = Numbers<float, double>;

struct GraphView {
    Integers indptr, indices, ids;  // ids without data: the position
    Reals weight;
    const double* sums = nullptr;  // of the weights from the first edge of each row; without them rows are summed
    int64_t rows, columns, nnz;
    int64_t id(int64_t position) const { return ids.data == nullptr ? position : ids[position]; }
};

enum class Sampler { uniform, weighted, topk, full };

struct Draw {
    Sampler sampler;
    bool replacement;
    int64_t fanout;
};

struct Row {
    int64_t begin, end;
    int64_t degree() const { return end - begin; }
};

inline Row row_of(const GraphView& g, int64_t node) {
    const Row row{g.indptr[node], g.indptr[node + 1]};
    if (row.begin < 0 || row.end < row.begin || row.end > g.nnz)
        throw std::invalid_argument("indptr says that row " + std::to_string(node) + " reaches from " +
                                    std::to_string(row.begin) + " to " + std::to_string(row.end) + ": allowed are 0 to " +
                                    std::to_string(g.nnz) + ", ascending");
    return row;
}

inline int64_t kept_count(const Row& row, const Draw& draw) {
    if (draw.replacement) return row.degree() > 0 ? draw.fanout : 0;
    return std::min(row.degree(), draw.fanout);
}

// Doubles as integers of the same order.
inline int64_t ordered(double value) {
    value += 0.0;  // -0 is 0
    int64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? bits ^ kEverything : bits;
}

// Chooses the kept edges of a row; one per thread, as it has buffers.
class RowSampler {
  public:
    RowSampler(const GraphView& graph, const Draw& draw) : g_(graph), draw_(draw) {}

    // Write the kept positions of `row` by rank to `out` [kept_count(row)].
    void choose(const Row& row, uint64_t key, int64_t node_id, int64_t* out) {
        const int64_t kept = kept_count(row, draw_);
        if (kept == 0) return;
        if (draw_.replacement)
            with_replacement(row, keyed(key, node_id), kept, out);
        else if (draw_.sampler == Sampler::uniform)
            shuffle_.take(row.degree(), kept, keyed(key, node_id), row.begin, out);
        else if (draw_.sampler == Sampler::weighted && row.degree() > kFew)
            by_weight(row, key, keyed(key, node_id), kept, out);
        else if (draw_.sampler == Sampler::full)
            std::iota(out, out + kept, row.begin);
        else
            smallest(row, key, kept, out);
    }

  private:
    static constexpr int64_t kBlock = 512;
    static constexpr int64_t kFew = 64, kRejected = 64;  // FEW and REJECTED of the definition

    double weight(int64_t at) const {
        const double value = g_.weight[at];
        const bool fine = draw_.sampler == Sampler::topk
                              ? value == value
                              : value >= kLeastWeight && value <= kLargestWeight;
        if (fine) return value;
        char shown[32];
        std::snprintf(shown, sizeof shown, "%g", value);
        throw std::invalid_argument("edge " + std::to_string(g_.id(at)) + " has weight " + shown +
                                    (draw_.sampler == Sampler::topk
                                         ? ": sampler='topk' needs weights numbers"
                                         : ": sampler='weighted' needs weights finite and above 0, from 1e-290 to 1e+290"));
    }

    // Keys of the edges at [begin, begin + count).
    void fill_keys(uint64_t key, int64_t begin, int64_t count) {
        if (draw_.sampler == Sampler::topk) {
            for (int64_t i = 0; i < count; ++i) keys_[i] = ordered(-weight(begin + i));
            return;
        }
        for (int64_t i = 0; i < count; ++i) logs_[i] = -logarithm(unit_interval(keyed(key, g_.id(begin + i))));
        for (int64_t i = 0; i < count; ++i) keys_[i] = ordered(logs_[i] / weight(begin + i));
    }

    void smallest(const Row& row, uint64_t key, int64_t kept, int64_t* out) {
        const int64_t degree = row.degree();
        if (degree <= kCounted) {
            fill_keys(key, row.begin, degree);
            rank_by_counting(keys_, degree, ranked_);
            for (int64_t i = 0; i < kept; ++i) out[i] = row.begin + ranked_[i];
            return;
        }
        smallest_.start(kept);
        for (int64_t begin = row.begin; begin < row.end; begin += kBlock) {
            const int64_t count = std::min(kBlock, row.end - begin);
            fill_keys(key, begin, count);
            smallest_.offer(keys_, count, begin);
        }
        for (const Candidate& one : smallest_.sorted()) *out++ = one.place;
    }

    // Successive draws from the sums of the weights; places drawn before are rejected.
    void by_weight(const Row& row, uint64_t edge_key, uint64_t draw_key, int64_t kept, int64_t* out) {
        const double* sums = sums_of(row);
        drawn_.start(row.degree(), kept);
        int64_t taken = 0, rejected = 0;
        for (int64_t draw = 0; taken < kept && rejected < kRejected; ++draw) {
            const int64_t place = place_of(sums, row.degree(), keyed(draw_key, draw));
            if (drawn_.draw(place))
                out[taken++] = row.begin + place, rejected = 0;
            else
                ++rejected;
        }
        if (taken == kept) return;
        smallest_.start(kept);  // by keys, those drawn first: a few heavy weights hide the others
        for (int64_t begin = row.begin; begin < row.end; begin += kBlock) {
            const int64_t count = std::min(kBlock, row.end - begin);
            fill_keys(edge_key, begin, count);
            for (int64_t i = 0; i < count; ++i)
                if (drawn_.holds(begin + i - row.begin)) keys_[i] = std::numeric_limits<int64_t>::min();
            smallest_.offer(keys_, count, begin);
        }
        const auto& sorted = smallest_.sorted();
        for (int64_t i = taken; i < kept; ++i) out[i] = sorted[i].place;
    }

    // The sums of a row's weights, stored or computed.
    const double* sums_of(const Row& row) {
        if (g_.sums != nullptr) return g_.sums + row.begin;
        sums_.resize(row.degree());
        double total = 0;
        for (int64_t i = 0; i < row.degree(); ++i) sums_[i] = total = (i == 0 ? 0 : total) + weight(row.begin + i);
        return sums_.data();
    }

    static int64_t place_of(const double* sums, int64_t degree, uint64_t hash) {
        const double drawn = unit_interval(hash) * sums[degree - 1];
        return std::min(int64_t(std::lower_bound(sums, sums + degree, drawn) - sums), degree - 1);
    }

    void with_replacement(const Row& row, uint64_t key, int64_t draws, int64_t* out) {
        const int64_t degree = row.degree();
        if (draw_.sampler == Sampler::uniform) {
            for (int64_t d = 0; d < draws; ++d) out[d] = row.begin + below(keyed(key, d), degree);
            return;
        }
        const double* sums = sums_of(row);
        for (int64_t d = 0; d < draws; ++d) out[d] = row.begin + place_of(sums, degree, keyed(key, d));
    }

    const GraphView& g_;
    const Draw draw_;
    alignas(64) int64_t keys_[kBlock + kVectorBytes];
    int32_t ranked_[kCounted];
    double logs_[kBlock];
    std::vector<double> sums_;
    Smallest smallest_;
    Shuffle shuffle_;
    DrawnPlaces drawn_;  // by weight
};

}  // namespace kernels
