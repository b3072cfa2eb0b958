// A hash table of node numbers, whose size follows its contents, not the graph.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "common/hash.hpp"

namespace kernels {

// Node numbers with a value each; open addressing, or one slot per number where that is as small.
class NodeTable {
  public:
    explicit NodeTable(int64_t numbers) : numbers_(numbers) {}

    int64_t numbers() const { return numbers_; }

    // Make room for `count` numbers; the former contents are lost.
    void reset(int64_t count) {
        int bits = 6;
        while ((int64_t(1) << bits) < 2 * count && (int64_t(1) << bits) < numbers_) ++bits;
        capacity_ = int64_t(1) << bits, shift_ = 64 - bits;
        direct_ = capacity_ >= numbers_;
        entries_.reset(static_cast<Entry*>(std::malloc(capacity_ * sizeof(Entry))));
        if (entries_ == nullptr) throw std::bad_alloc();
        std::fill(entries_.get(), entries_.get() + capacity_, Entry{kEmpty, 0});
    }

    bool fits(int64_t count) const { return direct_ || 2 * count <= capacity_; }
    int64_t start(int64_t number) const { return direct_ ? number : int64_t((uint64_t(number) * kGamma) >> shift_); }
    void prefetch(int64_t number) const { __builtin_prefetch(entries_.get() + start(number), 1, 3); }

    // Insert a number; of several threads that insert the same one, a single one gets true.
    bool insert(int64_t number) {
        for (int64_t slot = start(number);; slot = (slot + 1) & (capacity_ - 1)) {
            std::atomic_ref<int64_t> entry(entries_[slot].number);
            int64_t current = entry.load(std::memory_order_relaxed);
            if (current == kEmpty && entry.compare_exchange_strong(current, number, std::memory_order_relaxed))
                return true;
            if (current == number) return false;
        }
    }

    // The value of a number in the table.
    int32_t& value(int64_t number) {
        int64_t slot = start(number);
        while (entries_[slot].number != number) slot = (slot + 1) & (capacity_ - 1);
        return entries_[slot].value;
    }

  private:
    struct Entry {
        int64_t number;
        int32_t value;
    };
    struct Free {
        void operator()(void* data) const { std::free(data); }
    };
    static constexpr int64_t kEmpty = INT64_MIN;
    int64_t numbers_, capacity_ = 0;
    int shift_ = 0;
    bool direct_ = false;
    std::unique_ptr<Entry[], Free> entries_;
};

}  // namespace kernels
