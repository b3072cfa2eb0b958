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
#include "common/counting.hpp"
#include "common/failures.hpp"
#include "common/node_table.hpp"

namespace kernels {

constexpr int64_t kAheadOf = 16;           // edges between a prefetch and its use
constexpr int64_t kWorthThreads = 1 << 10; // edges of a hop below which a second thread costs more than it brings

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
void radix_sort(T* values, int64_t count, Key key) {
    constexpr int kBits = 11, kDigits = 1 << kBits;
    uint64_t all = ~uint64_t(0), any = 0;
    for (int64_t i = 0; i < count; ++i) all &= key(values[i]), any |= key(values[i]);
    std::vector<T> scratch(count);
    T *from = values, *to = scratch.data();
    for (int low = 0; low < 64; low += kBits) {
        if ((((any & ~all) >> low) & (kDigits - 1)) == 0) continue;
        std::array<int64_t, kDigits> at{};
        for (int64_t i = 0; i < count; ++i) ++at[(key(from[i]) >> low) & (kDigits - 1)];
        int64_t sum = 0;
        for (int64_t& place : at) sum += std::exchange(place, sum);
        for (int64_t i = 0; i < count; ++i) to[at[(key(from[i]) >> low) & (kDigits - 1)]++] = from[i];
        std::swap(from, to);
    }
    if (from != values) std::copy_n(from, count, values);
}

// A bit for each of many numbers, and one for each word of them that is touched: passes skip the other words.
struct SparseBits {
    std::vector<uint64_t> words, touched;

    explicit SparseBits(int64_t count = 0) : words(count), touched((count + 63) / 64) {}
    void set(int64_t number) {
        const int64_t w = number >> 6;
        words[w] |= uint64_t(1) << (number & 63), touched[w >> 6] |= uint64_t(1) << (w & 63);
    }
    // Call `use` with the place of each touched word of a range of 64, ascending.
    template <class Use>
    void for_each_in(int64_t range, Use use) const {
        for (uint64_t left = touched[range]; left != 0; left &= left - 1) use(range * 64 + std::countr_zero(left));
    }
    int64_t ranges() const { return int64_t(touched.size()); }
    // Set all words of a range to 0 but those of `kept`, which are the touched ones from now on.
    void keep_only(int64_t range, uint64_t kept) {
        for (uint64_t left = std::exchange(touched[range], kept) & ~kept; left != 0; left &= left - 1)
            words[range * 64 + std::countr_zero(left)] = 0;
    }
    void clear() {
        for (int64_t range = 0; range < ranges(); ++range) keep_only(range, 0);
    }
};

// Bits of all numbers for the searches of one thread: fresh memory would cost as much as a search. Between searches what is
// noted is empty, but layers hold those of the last search that had them, until they are collected again.
struct BitMemory {
    struct Layer {
        SparseBits bits;
        std::vector<int32_t> before;  // numbers in earlier layers and words; of touched words
    };
    int64_t words = 0;              // at least those of the search: the last one of an epoch is shorter
    std::vector<SparseBits> noted;  // by thread
    std::vector<Layer> layers;

    void start(int64_t numbers, int threads) {
        const int64_t count = (numbers + 63) / 64;
        if (count > words || count < words / 8)
            noted.clear(), layers.clear(), words = count;
        while (int(noted.size()) < threads) noted.emplace_back(words);
    }
    Layer& layer(size_t number) {
        if (number == layers.size()) layers.push_back({SparseBits(words), std::vector<int32_t>(words)});
        return layers[number];
    }
    void clear() {
        for (SparseBits& one : noted) one.clear();
    }
};

// A bit per number of the graph: small beside a hop that reaches many of them, and ascending without a sort.
class BitNumbering {
  public:
    BitNumbering(int64_t numbers, int threads) : threads_(threads), memory_(of_this_thread()) {
        memory_.start(numbers, threads);
    }
    ~BitNumbering() { memory_.clear(); }

    void room(const Buffer<int64_t>&, int64_t edges) { check_count(edges), edges_ = edges; }

    void note(int thread, const int64_t* numbers, int64_t count) {
        SparseBits& own = memory_.noted[thread];
        for (int64_t i = 0; i < count; ++i) own.set(numbers[i]);
    }

    // Append the numbers that were noted for the first time to `numbers`, ascending; returns how many.
    int64_t append(Buffer<int64_t>& numbers) {
        BitMemory::Layer& layer = memory_.layer(count_++);
        const int parts = workers(edges_, threads_);
        const int64_t ranges = layer.bits.ranges();
        std::vector<int64_t> ends(parts);
#pragma omp parallel for num_threads(parts) schedule(static, 1)
        for (int part = 0; part < parts; ++part)
            ends[part] = collect(layer, ranges * part / parts, ranges * (part + 1) / parts);
        const int64_t first = numbers.size();
        int64_t end = first;
        for (int64_t& own : ends) own = std::exchange(end, end + own);
        int64_t* to = numbers.grow(end - first) - first;
#pragma omp parallel for num_threads(parts) schedule(static, 1)
        for (int part = 0; part < parts; ++part)
            write(layer, ranges * part / parts, ranges * (part + 1) / parts, ends[part], to);
        return end - first;
    }

    // Places in `numbers` of numbers that were appended before.
    void places(const int64_t* numbers, int64_t count, int32_t* out) const {
        for (int64_t i = 0; i < count; ++i) {
            const int64_t w = numbers[i] >> 6;
            const uint64_t bit = uint64_t(1) << (numbers[i] & 63);
            size_t k = count_ - 1;  // one layer has the bit, mostly the last
            while (k > 0 && (memory_.layers[k].bits.words[w] & bit) == 0) --k;
            const BitMemory::Layer& layer = memory_.layers[k];
            out[i] = layer.before[w] + std::popcount(layer.bits.words[w] & (bit - 1));
        }
    }

  private:
    // Move what all threads noted in some ranges to the newest layer, but what earlier ones have; returns how many numbers
    // these are, and leaves in `before` how many of them stand in earlier words.
    int64_t collect(BitMemory::Layer& layer, int64_t first, int64_t last) {
        int64_t count = 0;
        for (int64_t range = first; range < last; ++range) {
            uint64_t touched = 0;
            for (SparseBits& one : memory_.noted) touched |= std::exchange(one.touched[range], 0);
            layer.bits.keep_only(range, touched);
            layer.bits.for_each_in(range, [&](int64_t w) {
                uint64_t fresh = 0;
                for (SparseBits& one : memory_.noted) fresh |= std::exchange(one.words[w], 0);
                for (size_t k = 0; k + 1 < count_; ++k) fresh &= ~memory_.layers[k].bits.words[w];
                layer.bits.words[w] = fresh;
                layer.before[w] = int32_t(count), count += std::popcount(fresh);
            });
        }
        return count;
    }

    // Write the numbers of a layer in some ranges, the first of which has place `offset`.
    void write(BitMemory::Layer& layer, int64_t first, int64_t last, int64_t offset, int64_t* to) {
        for (int64_t range = first; range < last; ++range)
            layer.bits.for_each_in(range, [&](int64_t w) {
                int64_t* at = to + (layer.before[w] += int32_t(offset));
                for (uint64_t left = layer.bits.words[w]; left != 0; left &= left - 1)
                    *at++ = w * 64 + std::countr_zero(left);
            });
    }

    static BitMemory& of_this_thread() {
        static thread_local BitMemory memory;
        return memory;
    }
    int threads_;
    int64_t edges_ = 0;
    size_t count_ = 0;  // layers
    BitMemory& memory_;
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
        int64_t* to = numbers.grow(count);
        const std::vector<int64_t> starts = scatter_fresh(ranges, to);
        for_each(ranges, 1, ranges, [&](int64_t range, NoScratch&) {
            radix_sort(to + starts[range], starts[range + 1] - starts[range],
                       [](int64_t number) { return uint64_t(number); });
        });
        for (auto& part : fresh_) part.clear();
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
    // Write the new numbers range by range; returns where the ranges begin, [ranges + 1].
    std::vector<int64_t> scatter_fresh(int ranges, int64_t* to) const {
        const int64_t width = table_.numbers() / ranges + 1, parts = int64_t(fresh_.size());
        Counts<int64_t> next(int(parts), ranges);
        std::vector<int64_t> starts(ranges + 1);
#pragma omp parallel for num_threads(ranges) schedule(static, 1)
        for (int64_t part = 0; part < parts; ++part) {
            int64_t* count = next.clear(part);
            for (const int64_t number : fresh_[part]) ++count[number / width];
        }
        place_columns(next.rows(), ranges, starts.data(), 1);
#pragma omp parallel for num_threads(ranges) schedule(static, 1)
        for (int64_t part = 0; part < parts; ++part)
            for (const int64_t number : fresh_[part]) to[next.rows()[part][number / width]++] = number;
        return starts;
    }

    int threads_;
    NodeTable table_;
    bool ready_ = false;
    std::vector<std::vector<int64_t>> fresh_;
};

}  // namespace kernels
