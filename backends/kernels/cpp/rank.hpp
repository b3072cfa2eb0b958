// Which of a row's candidates have the smallest keys, in order; ties by place.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "vector.hpp"

namespace kernels {

constexpr int64_t kCounted = 96;  // up to here, comparing all with all beats sorting
typedef int64_t Lanes __attribute__((vector_size(32)));

struct Candidate {
    int64_t key;
    int64_t place;
    bool operator<(const Candidate& other) const {
        return key != other.key ? key < other.key : place < other.place;
    }
};

// Place of each of `count` keys in their order, without a branch; `keys` may be written up to the next multiple of 4.
inline void rank_by_counting(int64_t* keys, int64_t count, int64_t keep, int64_t* out) {
    for (int64_t i = count; i % 4 != 0; ++i) keys[i] = std::numeric_limits<int64_t>::max();
    const int64_t padded = (count + 3) / 4 * 4;
    for (int64_t i = 0; i < count; i += 4) {
        Lanes own[4], below[4] = {};
        for (int k = 0; k < 4; ++k) own[k] = Lanes{} + keys[i + k];
        for (int64_t j = 0; j < i; j += 4) {
            Lanes other;
            std::memcpy(&other, keys + j, sizeof other);
            for (int k = 0; k < 4; ++k) below[k] += other <= own[k];
        }
        for (int64_t j = i; j < padded; j += 4) {
            Lanes other;
            std::memcpy(&other, keys + j, sizeof other);
            for (int k = 0; k < 4; ++k) below[k] += other < own[k];
        }
        for (int64_t k = 0; k < 4 && i + k < count; ++k) {
            int64_t rank = -(below[k][0] + below[k][1] + below[k][2] + below[k][3]);
            for (int64_t j = i; j < i + k; ++j) rank += keys[j] == keys[i + k];
            if (rank < keep) out[rank] = i + k;
        }
    }
}

// Keeps the `keep` smallest of many candidates, offered in order of place: a bounded list, halved when it is full.
class Smallest {
  public:
    void start(int64_t keep) {
        keep_ = keep, held_.clear(), bound_ = std::numeric_limits<int64_t>::max();
    }
    void offer(const int64_t* keys, int64_t count, int64_t first) {
        for (int64_t i = 0; i < count; ++i) {
            if (keys[i] > bound_) continue;
            held_.push_back({keys[i], first + i});
            if (int64_t(held_.size()) >= 2 * keep_ + 64) halve();
        }
    }
    const std::vector<Candidate>& sorted() {
        if (int64_t(held_.size()) > keep_) halve();
        std::sort(held_.begin(), held_.end());
        return held_;
    }

  private:
    void halve() {
        std::nth_element(held_.begin(), held_.begin() + (keep_ - 1), held_.end());
        held_.resize(keep_);
        bound_ = held_[keep_ - 1].key;
    }
    int64_t keep_ = 0, bound_ = 0;
    std::vector<Candidate> held_;
};

}  // namespace kernels
