// Selection of a row's candidates with the smallest keys, in order; ties by place.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/vector.hpp"

namespace kernels {

constexpr int64_t kCounted = 96;  // up to here, comparing all with all beats sorting

struct Candidate {
    int64_t key;
    int64_t place;
    bool operator<(const Candidate& other) const {
        return key != other.key ? key < other.key : place < other.place;
    }
};

// The places of `count` keys, at most kCounted, in their order, to `order` [count]. `keys` may be written up to the next
// multiple of a vector's lanes.
inline void rank_by_counting(int64_t* keys, int64_t count, int32_t* order) {
    constexpr int64_t kLanes = lanes<int64_t>;
    alignas(64) int64_t ranks[kCounted + kLanes];
    for (int64_t i = count; i % kLanes != 0; ++i) keys[i] = std::numeric_limits<int64_t>::max();
    for (int64_t i = 0; i < count; i += kLanes) {
        const vec<int64_t> own = load(keys + i);
        vec<int64_t> below = {};
        for (int64_t j = 0; j < i; ++j) below += broadcast(keys[j]) <= own;
        for (int64_t j = i; j < count; ++j) below += broadcast(keys[j]) < own;
        store(ranks + i, -below);
    }
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += ranks[i], order[ranks[i]] = int32_t(i);
    if (sum == count * (count - 1) / 2) return;
    for (int64_t i = 0; i < count; ++i) {  // equal keys in one vector, which counted none of them
        for (int64_t j = i / kLanes * kLanes; j < i; ++j) ranks[i] += keys[j] == keys[i];
        order[ranks[i]] = int32_t(i);
    }
}

// Keeps the `keep` smallest of many candidates, offered in order of place: a bounded list, halved when it is full.
class Smallest {
  public:
    void start(int64_t keep) {
        keep_ = keep, candidates_.clear(), bound_ = std::numeric_limits<int64_t>::max();
    }
    void offer(const int64_t* keys, int64_t count, int64_t first) {
        for (int64_t i = 0; i < count; ++i) {
            if (keys[i] > bound_) continue;
            candidates_.push_back({keys[i], first + i});
            if (int64_t(candidates_.size()) >= 2 * keep_ + 64) halve();
        }
    }
    const std::vector<Candidate>& sorted() {
        if (int64_t(candidates_.size()) > keep_) halve();
        std::sort(candidates_.begin(), candidates_.end());
        return candidates_;
    }

  private:
    void halve() {
        std::nth_element(candidates_.begin(), candidates_.begin() + (keep_ - 1), candidates_.end());
        candidates_.resize(keep_);
        bound_ = candidates_[keep_ - 1].key;
    }
    int64_t keep_ = 0, bound_ = 0;
    std::vector<Candidate> candidates_;
};

}  // namespace kernels
