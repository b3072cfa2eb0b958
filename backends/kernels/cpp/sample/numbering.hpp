// Local numbers of the nodes that a search reaches, by layer and then by node, whatever the number of threads. Two classes
// of one interface: `room` for a hop's edges, `note` their sources in parallel, `append` the new ones, look up `places`.
#pragma once
#include <omp.h>

#include <array>
#include <bit>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/buffer.hpp"
#include "common/node_table.hpp"

namespace kernels {

constexpr int64_t kAheadOf = 16;           // edges between a prefetch and its use
constexpr int64_t kWorthThreads = 1 << 12; // edges of a hop below which a second thread costs more than it brings

inline int workers(int64_t edges, int threads) {
    return edges < kWorthThreads ? 1 : threads;
}

inline void check_count(int64_t edges) {
    if (edges > int64_t(1) << 30)
        throw std::invalid_argument("a search of " + std::to_string(edges) +
                                    " edges is more than the 2^30 that one numbers: give fewer targets at a time");
}

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

// A bit per number of the graph: small beside a hop that reaches many of them, and ascending without a sort.
class BitNumbering {
  public:
    BitNumbering(int64_t numbers, int threads)
        : words_((numbers + 63) / 64), threads_(threads), noted_(threads, Bits(words_)), seen_(words_) {}

    void room(const Buffer<int64_t>&, int64_t edges) { check_count(edges); }

    void note(int thread, const int64_t* numbers, int64_t count) {
        uint64_t* own = noted_[thread].data();
        for (int64_t i = 0; i < count; ++i) own[numbers[i] >> 6] |= uint64_t(1) << (numbers[i] & 63);
    }

    // Append the numbers that were noted for the first time to `numbers`, ascending; returns how many.
    int64_t append(Buffer<int64_t>& numbers) {
        Layer& layer = layers_.emplace_back(Layer{Bits(words_), std::vector<int32_t>(words_)});
        const int64_t first = numbers.size();
        int64_t end = first;
        for (int64_t w = 0; w < words_; ++w) {
            uint64_t fresh = 0;
            for (Bits& one : noted_) fresh |= std::exchange(one[w], 0);
            fresh &= ~seen_[w];
            layer.bits[w] = fresh, seen_[w] |= fresh;
            layer.before[w] = int32_t(end), end += std::popcount(fresh);
        }
        int64_t* to = numbers.grow(end - first);
#pragma omp parallel for num_threads(workers(end - first, threads_)) schedule(static)
        for (int64_t w = 0; w < words_; ++w) {
            int64_t* at = to + (layer.before[w] - first);
            for (uint64_t left = layer.bits[w]; left != 0; left &= left - 1) *at++ = w * 64 + std::countr_zero(left);
        }
        return end - first;
    }

    // Places in `numbers` of numbers that were appended before.
    void places(const int64_t* numbers, int64_t count, int32_t* out) const {
        for (int64_t i = 0; i < count; ++i) {
            const int64_t w = numbers[i] >> 6, bit = numbers[i] & 63;
            int32_t place = 0;
            for (const Layer& layer : layers_) {  // exactly one has the bit
                const uint64_t bits = layer.bits[w];
                const int32_t here = layer.before[w] + std::popcount(bits & ((uint64_t(1) << bit) - 1));
                place |= here & -int32_t(bits >> bit & 1);
            }
            out[i] = place;
        }
    }

  private:
    using Bits = std::vector<uint64_t>;
    struct Layer {
        Bits bits;
        std::vector<int32_t> before;
    };
    int64_t words_;
    int threads_;
    std::vector<Bits> noted_;
    Bits seen_;
    std::vector<Layer> layers_;
};

// A hash table: its cost follows the search, not the graph.
class TableNumbering {
  public:
    TableNumbering(int64_t numbers, int threads) : threads_(threads), table_(numbers), fresh_(threads) {}

    void room(const Buffer<int64_t>& numbers, int64_t edges) {
        const int64_t most = numbers.size() + edges;
        check_count(most);
        if (ready_ && table_.fits(most)) return;
        table_.reset(most);
        ready_ = true;
        for (int64_t i = 0; i < numbers.size(); ++i) {
            table_.insert(numbers.data()[i]);
            table_.value(numbers.data()[i]) = int32_t(i);
        }
    }

    void note(int thread, const int64_t* numbers, int64_t count) {
        for (int64_t i = 0; i < std::min(count, kAheadOf); ++i) table_.prefetch(numbers[i]);
        for (int64_t i = 0; i < count; ++i) {
            if (i + kAheadOf < count) table_.prefetch(numbers[i + kAheadOf]);
            if (table_.insert(numbers[i])) fresh_[thread].push_back(numbers[i]);
        }
    }

    // Append the new numbers as BitNumbering does; each thread sorts a range of them.
    int64_t append(Buffer<int64_t>& numbers) {
        int64_t count = 0;
        for (const auto& part : fresh_) count += int64_t(part.size());
        const int ranges = workers(count, threads_);
        const int64_t width = table_.numbers() / ranges + 1;
        std::vector<std::vector<int64_t>> sorted(ranges);
#pragma omp parallel for num_threads(ranges) schedule(static, 1)
        for (int range = 0; range < ranges; ++range) {
            for (const auto& part : fresh_)
                for (const int64_t number : part)
                    if (number / width == range) sorted[range].push_back(number);
            radix_sort(sorted[range], [](int64_t number) { return uint64_t(number); });
        }
        for (auto& part : fresh_) part.clear();
        int64_t* to = numbers.grow(count);
        for (const auto& own : sorted) to = std::copy(own.begin(), own.end(), to);
        const int64_t end = numbers.size();
        const int64_t* all = numbers.data();
#pragma omp parallel for num_threads(ranges) schedule(static)
        for (int64_t i = end - count; i < end; ++i) {
            if (i + kAheadOf < end) table_.prefetch(all[i + kAheadOf]);
            table_.value(all[i]) = int32_t(i);
        }
        return count;
    }

    void places(const int64_t* numbers, int64_t count, int32_t* out) {
        for (int64_t i = 0; i < count; ++i) {
            if (i + kAheadOf < count) table_.prefetch(numbers[i + kAheadOf]);
            out[i] = table_.value(numbers[i]);
        }
    }

  private:
    int threads_;
    NodeTable table_;
    bool ready_ = false;
    std::vector<std::vector<int64_t>> fresh_;
};

}  // namespace kernels
