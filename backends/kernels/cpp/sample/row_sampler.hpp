// Sampling of one node's in-edges by a fanout (defined in backends/kernels/definition.py).
#pragma once
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>

#include "common/hash.hpp"
#include "sample/rank.hpp"

namespace kernels {

constexpr int64_t kEverything = std::numeric_limits<int64_t>::max();

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
    int64_t rows, columns, nnz;
    int64_t id(int64_t position) const { return ids.data == nullptr ? position : ids[position]; }
};

enum class Sampler { uniform, weighted, topk, full };

struct Draw {
    Sampler sampler;
    bool replacement;
    int64_t fanout;
};

// The first failure by row, so that the message does not depend on the threads.
class Failures {
  public:
    template <class F>
    void guard(int64_t row, F&& work) {
        try {
            work();
        } catch (const std::exception& failure) {
            std::lock_guard<std::mutex> lock(mutex_);
            if (row < row_) row_ = row, message_ = failure.what();
        }
    }
    void raise() const {
        if (!message_.empty()) throw std::invalid_argument(message_);
    }

  private:
    std::mutex mutex_;
    int64_t row_ = kEverything;
    std::string message_;
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
        const int64_t degree = row.degree(), kept = kept_count(row, draw_);
        if (degree == 0) return;
        const bool by_id = draw_.sampler != Sampler::uniform || draw_.replacement;
        in_order_ = !by_id || ascending(row);
        if (!in_order_) sort_by_id(row);
        if (draw_.replacement)
            with_replacement(row, keyed(key, node_id), kept, out);
        else if (draw_.sampler == Sampler::full)
            for (int64_t i = 0; i < kept; ++i) out[i] = position(row, i);
        else
            smallest(row, key, kept, out);
    }

  private:
    static constexpr int64_t kBlock = 512;

    int64_t position(const Row& row, int64_t place) const { return row.begin + (in_order_ ? place : order_[place]); }

    bool ascending(const Row& row) const {
        if (g_.ids.data == nullptr) return true;
        bool rising = true;
        for (int64_t e = row.begin + 1; e < row.end; ++e) rising &= g_.ids[e - 1] <= g_.ids[e];
        return rising;
    }

    void sort_by_id(const Row& row) {
        const int64_t degree = row.degree();
        order_.resize(degree);
        if (degree <= kCounted) {
            for (int64_t i = 0; i < degree; ++i) keys_[i] = g_.ids[row.begin + i];
            rank_by_counting(keys_, degree, ranked_);
            std::copy_n(ranked_, degree, order_.data());
            return;
        }
        sorting_.resize(degree);
        for (int64_t i = 0; i < degree; ++i) sorting_[i] = {g_.ids[row.begin + i], i};
        std::sort(sorting_.begin(), sorting_.end());
        for (int64_t i = 0; i < degree; ++i) order_[i] = sorting_[i].place;
    }

    double weight(int64_t at) const {
        const double value = g_.weight[at];
        const bool fine = draw_.sampler == Sampler::topk
                              ? value == value
                              : value > 0 && value < std::numeric_limits<double>::infinity();
        if (!fine)
            throw std::invalid_argument("edge " + std::to_string(g_.id(at)) + " has weight " + std::to_string(value) +
                                        (draw_.sampler == Sampler::topk
                                             ? ": sampler='topk' needs weights numbers"
                                             : ": sampler='weighted' needs weights finite and above 0"));
        return value;
    }

    // Keys of places [first, first + count) of the row.
    void fill_keys(const Row& row, uint64_t key, int64_t first, int64_t count) {
        if (draw_.sampler == Sampler::topk) {
            for (int64_t i = 0; i < count; ++i) keys_[i] = ordered(-weight(position(row, first + i)));
            return;
        }
        const int64_t begin = row.begin + first;
        if (!in_order_) {
            for (int64_t i = 0; i < count; ++i) keys_[i] = g_.id(position(row, first + i));
        } else if (g_.ids.data == nullptr) {
            for (int64_t i = 0; i < count; ++i) keys_[i] = begin + i;
        } else if (g_.ids.wide) {
            const int64_t* ids = static_cast<const int64_t*>(g_.ids.data) + begin;
            for (int64_t i = 0; i < count; ++i) keys_[i] = ids[i];
        } else {
            const int32_t* ids = static_cast<const int32_t*>(g_.ids.data) + begin;
            for (int64_t i = 0; i < count; ++i) keys_[i] = ids[i];
        }
        if (draw_.sampler == Sampler::uniform) {
            for (int64_t i = 0; i < count; ++i) keys_[i] = int64_t(keyed(key, keys_[i]) ^ (uint64_t(1) << 63));
        } else {
            for (int64_t i = 0; i < count; ++i) logs_[i] = -logarithm(unit_interval(keyed(key, keys_[i])));
            for (int64_t i = 0; i < count; ++i) keys_[i] = ordered(logs_[i] / weight(position(row, first + i)));
        }
    }

    void smallest(const Row& row, uint64_t key, int64_t kept, int64_t* out) {
        const int64_t degree = row.degree();
        if (draw_.sampler == Sampler::uniform && below_a_bound(row, key, kept, out)) return;
        if (degree <= kCounted) {
            fill_keys(row, key, 0, degree);
            rank_by_counting(keys_, degree, ranked_);
            for (int64_t i = 0; i < kept; ++i) out[i] = position(row, ranked_[i]);
            return;
        }
        smallest_.start(kept);
        for (int64_t first = 0; first < degree; first += kBlock) {
            const int64_t count = std::min(kBlock, degree - first);
            fill_keys(row, key, first, count);
            smallest_.offer(keys_, count, first);
        }
        for (const Candidate& one : smallest_.sorted()) *out++ = position(row, one.place);
    }

    // Uniform keys: ranks only those below a bound. False where these are too few or too many.
    bool below_a_bound(const Row& row, uint64_t key, int64_t kept, int64_t* out) {
        const int64_t degree = row.degree();
        const double expected = double(kept) + 4 * std::sqrt(double(kept)) + 4;
        if (2 * expected > double(degree) || 2 * expected > double(kCounted)) return false;
        const int64_t bound = int64_t((expected / double(degree) - 0.5) * 0x1p64);
        int64_t below = 0;
        for (int64_t first = 0; first < degree; first += kBlock) {
            const int64_t count = std::min(kBlock, degree - first);
            fill_keys(row, key, first, count);
            for (int64_t i = 0; i < count; ++i) {
                few_[below] = keys_[i], places_[below] = first + i;
                below += keys_[i] < bound;
                if (below > kCounted) return false;
            }
        }
        if (below < kept) return false;
        rank_by_counting(few_, below, ranked_);
        for (int64_t i = 0; i < kept; ++i) out[i] = position(row, places_[ranked_[i]]);
        return true;
    }

    void with_replacement(const Row& row, uint64_t key, int64_t draws, int64_t* out) {
        const int64_t degree = row.degree();
        if (draw_.sampler == Sampler::uniform) {
            for (int64_t d = 0; d < draws; ++d) out[d] = position(row, below(keyed(key, d), degree));
            return;
        }
        sums_.resize(degree);
        double total = 0;
        for (int64_t i = 0; i < degree; ++i) sums_[i] = total = (i == 0 ? 0 : total) + weight(position(row, i));
        for (int64_t d = 0; d < draws; ++d) {
            const double drawn = unit_interval(keyed(key, d)) * total;
            const int64_t place = std::lower_bound(sums_.begin(), sums_.end(), drawn) - sums_.begin();
            out[d] = position(row, std::min(place, degree - 1));
        }
    }

    const GraphView& g_;
    const Draw draw_;
    bool in_order_ = true;
    alignas(64) int64_t keys_[kBlock + kVectorBytes];
    alignas(64) int64_t few_[kCounted + kVectorBytes];
    int64_t places_[kCounted + 1];
    int32_t ranked_[kCounted];
    double logs_[kBlock];
    std::vector<int64_t> order_;
    std::vector<Candidate> sorting_;
    std::vector<double> sums_;
    Smallest smallest_;
};

}  // namespace kernels
