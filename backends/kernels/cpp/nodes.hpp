// Sets of node numbers that cost what they hold, not what the graph holds.
#pragma once
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hash.hpp"

namespace kernels {

// A growing array that is not cleared first and can be given away.
template <class T>
class Buffer {
  public:
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    ~Buffer() { std::free(data_); }
    T* grow(int64_t count) {
        T* moved = static_cast<T*>(std::realloc(data_, (size_ + count + 1) * sizeof(T)));
        if (moved == nullptr) throw std::bad_alloc();
        data_ = moved, size_ += count;
        return data_ + (size_ - count);
    }
    T* data() { return data_; }
    const T* data() const { return data_; }
    int64_t size() const { return size_; }
    T* release() { return std::exchange(data_, nullptr); }

  private:
    T* data_ = nullptr;
    int64_t size_ = 0;
};

inline void check_count(int64_t edges) {
    if (edges > int64_t(1) << 30)
        throw std::invalid_argument("a search of " + std::to_string(edges) +
                                    " edges is more than the 2^30 that one numbers: give fewer targets at a time");
}

// Node numbers with a value each; open addressing, or one slot per number where that is as small.
class NodeTable {
  public:
    explicit NodeTable(int64_t numbers) : numbers_(numbers) {}

    int64_t numbers() const { return numbers_; }

    // Make room for `count` numbers; what was held is lost.
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

    // Put a number there, by one of the threads that ask; true for that one alone.
    bool insert(int64_t number) {
        for (int64_t slot = start(number);; slot = (slot + 1) & (capacity_ - 1)) {
            std::atomic_ref<int64_t> held(entries_[slot].number);
            int64_t found = held.load(std::memory_order_relaxed);
            if (found == kEmpty && held.compare_exchange_strong(found, number, std::memory_order_relaxed)) return true;
            if (found == number) return false;
        }
    }

    // The value of a number that is held.
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

// Sort numbers ascending, 11 bits at a time from the lowest; digits that all share cost nothing.
template <class T, class Key>
void radix_sort(std::vector<T>& values, Key key) {
    constexpr int kBits = 11, kDigits = 1 << kBits;
    uint64_t all = ~uint64_t(0), any = 0;
    for (const T& value : values) all &= key(value), any |= key(value);
    std::vector<T> other(values.size());
    for (int low = 0; low < 64; low += kBits) {
        if ((((any & ~all) >> low) & (kDigits - 1)) == 0) continue;
        std::array<int64_t, kDigits> at{};
        for (const T& value : values) ++at[(key(value) >> low) & (kDigits - 1)];
        int64_t sum = 0;
        for (int64_t& count : at) sum += std::exchange(count, sum);
        for (const T& value : values) other[at[(key(value) >> low) & (kDigits - 1)]++] = value;
        values.swap(other);
    }
}

}  // namespace kernels
