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

// Node numbers with a value each; open addressing, or one slot per number where that is as small.
class NodeTable {
  public:
    explicit NodeTable(int64_t numbers) : numbers_(numbers) {}

    int64_t numbers() const { return numbers_; }

    // Make room for `count` numbers; what was held is lost.
    void reset(int64_t count) {
        if (count > int64_t(1) << 30)
            throw std::invalid_argument("a hop of " + std::to_string(count) +
                                        " edges is more than the 2^30 that one search numbers: give fewer targets at a time");
        int bits = 6;
        while ((int64_t(1) << bits) < 2 * count && (int64_t(1) << bits) < numbers_) ++bits;
        capacity_ = int64_t(1) << bits, shift_ = 64 - bits;
        direct_ = capacity_ >= numbers_;
        keys_.reset(static_cast<int64_t*>(std::malloc(capacity_ * sizeof(int64_t))));
        values_.reset(static_cast<int32_t*>(std::malloc(capacity_ * sizeof(int32_t))));
        if (keys_ == nullptr || values_ == nullptr) throw std::bad_alloc();
        std::fill(keys_.get(), keys_.get() + capacity_, kEmpty);
    }

    bool fits(int64_t count) const { return direct_ || 2 * count <= capacity_; }
    int64_t start(int64_t number) const { return direct_ ? number : int64_t((uint64_t(number) * kGamma) >> shift_); }
    void prefetch(int64_t number) const { __builtin_prefetch(keys_.get() + start(number), 1, 3); }

    // Slot of a number, which is put there by one of the threads that ask; `fresh` for that one alone.
    int64_t insert(int64_t number, bool& fresh) {
        for (int64_t slot = start(number);; slot = (slot + 1) & (capacity_ - 1)) {
            std::atomic_ref<int64_t> held(keys_[slot]);
            int64_t found = held.load(std::memory_order_relaxed);
            if (found == kEmpty && held.compare_exchange_strong(found, number, std::memory_order_relaxed)) {
                fresh = true;
                return slot;
            }
            if (found == number) {
                fresh = false;
                return slot;
            }
        }
    }

    // Slot of a number that is held.
    int64_t find(int64_t number) const {
        int64_t slot = start(number);
        while (keys_[slot] != number) slot = (slot + 1) & (capacity_ - 1);
        return slot;
    }

    int32_t& value(int64_t slot) { return values_[slot]; }

  private:
    struct Free {
        void operator()(void* data) const { std::free(data); }
    };
    static constexpr int64_t kEmpty = INT64_MIN;
    int64_t numbers_, capacity_ = 0;
    int shift_ = 0;
    bool direct_ = false;
    std::unique_ptr<int64_t[], Free> keys_;
    std::unique_ptr<int32_t[], Free> values_;
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
