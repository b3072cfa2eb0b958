// The first elements of a shuffled row, at a cost that depends on how many are taken and not on the row's length.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "common/hash.hpp"

namespace kernels {

// Where a shuffle has moved elements of a row: a hash table of the places that no longer hold their own number.
class MovedPlaces {
  public:
    void start(int64_t swaps) {
        int64_t slots = 64;
        while (slots < 4 * swaps) slots *= 2;
        if (slots > int64_t(slots_.size())) slots_.assign(slots, Slot{}), round_ = 0;
        if (++round_ == 0) std::fill(slots_.begin(), slots_.end(), Slot{}), round_ = 1;
        mask_ = slots - 1;  // of a table that may be larger, as those of earlier rounds: its first slots stay in cache
    }
    int64_t& at(int64_t place) {
        for (uint64_t s = uint64_t(place) * kGamma >> 20;; ++s) {
            Slot& slot = slots_[s & mask_];
            if (slot.round != round_) slot = {place, place, round_};
            if (slot.place == place) return slot.element;
        }
    }

    // Whether `at` was called with a place since `start`.
    bool holds(int64_t place) const {
        for (uint64_t s = uint64_t(place) * kGamma >> 20;; ++s) {
            const Slot& slot = slots_[s & mask_];
            if (slot.round != round_) return false;
            if (slot.place == place) return true;
        }
    }

  private:
    struct Slot {
        int64_t place, element;
        uint32_t round = 0;  // slots of earlier rounds are free
    };
    std::vector<Slot> slots_;
    uint64_t mask_ = 0;
    uint32_t round_ = 0;
};

// The places of a row that were drawn: marks where many of its places are, else a hash table.
class DrawnPlaces {
  public:
    void start(int64_t degree, int64_t count) {
        is_marked_ = degree <= 4 * count;
        if (is_marked_)
            marks_.assign(degree, 0);
        else
            moved_.start(count);
    }
    // Whether a place is drawn for the first time.
    bool draw(int64_t place) {
        if (is_marked_) return !std::exchange(marks_[place], 1);
        return std::exchange(moved_.at(place), kDrawn) != kDrawn;
    }
    bool holds(int64_t place) const { return is_marked_ ? marks_[place] != 0 : moved_.holds(place); }

  private:
    static constexpr int64_t kDrawn = -1;  // in place of an element

    bool is_marked_ = false;
    std::vector<uint8_t> marks_;
    MovedPlaces moved_;
};

// Fisher and Yates's shuffle of 0 to degree - 1, stopped early: swap r exchanges the elements at r and at
// r + below(keyed(key, r), degree - r). One per thread, as it has buffers.
class Shuffle {
  public:
    // Write the first `count` elements to `out`, `first` added to each.
    void take(int64_t degree, int64_t count, uint64_t key, int64_t first, int64_t* out) {
        if (degree <= kWritten || degree <= 4 * count) {
            places_.resize(std::max(degree, kWritten));
            std::iota(places_.begin(), places_.begin() + degree, int64_t(0));
            for_each_swap(degree, count, key, [&](int64_t r, int64_t other) {
                out[r] = first + places_[other];
                places_[other] = places_[r];
            });
            return;
        }
        moved_.start(count);
        for_each_swap(degree, count, key, [&](int64_t r, int64_t other) {
            const int64_t own = moved_.at(r);
            int64_t& element = moved_.at(other);
            out[r] = first + element;
            element = own;
        });
    }

  private:
    static constexpr int64_t kWritten = 128;  // rows so short are written out: that is faster than a table
    static constexpr int64_t kHashes = 64;

    template <class Swap>
    void for_each_swap(int64_t degree, int64_t count, uint64_t key, Swap swap) {
        alignas(64) uint64_t hashes[kHashes];
        for (int64_t begin = 0; begin < count; begin += kHashes) {
            const int64_t end = std::min(begin + kHashes, count);
            for (int64_t r = begin; r < end; ++r) hashes[r - begin] = keyed(key, r);
            for (int64_t r = begin; r < end; ++r) swap(r, r + below(hashes[r - begin], degree - r));
        }
    }

    std::vector<int64_t> places_;
    MovedPlaces moved_;
};

}  // namespace kernels
