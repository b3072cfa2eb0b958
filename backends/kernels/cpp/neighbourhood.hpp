// k-hop neighbourhoods (backends/kernels/neighbourhood.py is the definition): hop by hop, rows sampled by threads,
// the fresh nodes gathered in a table and then sorted, so that nothing depends on who came first.
#pragma once
#include <omp.h>

#include "nodes.hpp"
#include "sampling.hpp"

namespace kernels {

constexpr int64_t kRowsAtOnce = 64;
constexpr int64_t kAheadOf = 16;           // edges between a prefetch of the table and its use
constexpr int64_t kWorthThreads = 1 << 12; // edges of a hop below which a second thread costs more than it brings

// Kept edges, in the order of the rows that were asked for; `ids` of the graph's own type, empty where it has none.
struct Edges {
    Buffer<int64_t> positions;
    Buffer<int32_t> narrow_ids;
    Buffer<int64_t> wide_ids;

    void grow(const GraphView& g, int64_t count) {
        positions.grow(count);
        if (g.ids.data == nullptr) return;
        if (g.ids.wide)
            wide_ids.grow(count);
        else
            narrow_ids.grow(count);
    }
    void fill_ids(const GraphView& g, int64_t begin, int64_t end) {
        if (g.ids.data == nullptr) return;
        const int64_t* at = positions.data();
        for (int64_t e = begin; e < end; ++e) {
            if (g.ids.wide)
                wide_ids.data()[e] = g.ids[at[e]];
            else
                narrow_ids.data()[e] = int32_t(g.ids[at[e]]);
        }
    }
};

// What rows are asked for: their number in the graph, the key of their hashes and the id that draws are made from.
struct Wanted {
    int64_t count;
    const int64_t* nodes;
    const uint64_t* keys;      // [count], or null: `key` for all
    const int64_t* node_ids;   // [count], or null: the number
    uint64_t key;
    uint64_t key_of(int64_t i) const { return keys == nullptr ? key : keys[i]; }
    int64_t id_of(int64_t i) const { return node_ids == nullptr ? nodes[i] : node_ids[i]; }
};

inline int workers(int64_t edges, int threads) {
    return edges < kWorthThreads ? 1 : threads;
}

// Append the first edge of each row [count] and the end to `starts`, which ends where they begin.
inline void count_edges(const GraphView& g, const Draw& draw, const Wanted& wanted, Buffer<int64_t>& starts, int threads) {
    int64_t* from = starts.grow(wanted.count);
    Failures failures;
#pragma omp parallel for num_threads(workers(wanted.count, threads)) schedule(static)
    for (int64_t i = 0; i < wanted.count; ++i) {
        if (i + kAheadOf < wanted.count) g.indptr.prefetch(wanted.nodes[i + kAheadOf]);
        failures.guard(i, [&] { from[i] = kept_of(row_of(g, wanted.nodes[i]), draw); });
    }
    failures.raise();
    for (int64_t i = 0; i < wanted.count; ++i) from[i] += from[i - 1];
}

// Sample rows and hand each piece of their edges [begin, end) to `use(begin, end)`, in any order.
template <class Use>
void sample_rows(const GraphView& g, const Draw& draw, const Wanted& wanted, const int64_t* starts, Edges& out,
                 int threads, Use use) {
    Failures failures;
    const int64_t pieces = (wanted.count + kRowsAtOnce - 1) / kRowsAtOnce;
#pragma omp parallel num_threads(workers(starts[wanted.count] - starts[0], threads))
    {
        RowSampler sampler(g, draw);
#pragma omp for schedule(dynamic, 1)
        for (int64_t piece = 0; piece < pieces; ++piece) {
            const int64_t first = piece * kRowsAtOnce, last = std::min(first + kRowsAtOnce, wanted.count);
            failures.guard(first, [&] {
                for (int64_t i = first; i < last; ++i) {
                    const Row row = row_of(g, wanted.nodes[i]);
                    for (int64_t e = row.begin; e < std::min(row.end, row.begin + 4 * kAheadOf); e += kAheadOf) {
                        g.indices.prefetch(e);
                        if (g.ids.data != nullptr) g.ids.prefetch(e);
                    }
                }
                for (int64_t i = first; i < last; ++i)
                    sampler.choose(row_of(g, wanted.nodes[i]), wanted.key_of(i), wanted.id_of(i),
                                   out.positions.data() + starts[i]);
                out.fill_ids(g, starts[first], starts[last]);
                use(first, last);
            });
        }
    }
    failures.raise();
}

inline int64_t source_of(const GraphView& g, int64_t position) {
    const int64_t source = g.indices[position];
    if (source < 0 || source >= g.columns)
        throw std::invalid_argument("edge at position " + std::to_string(position) + " has source " + std::to_string(source) +
                                    ": allowed are 0 to " + std::to_string(g.columns - 1));
    return source;
}

// A growing neighbourhood. A number stands for a node, or for a target's copy of it: component * columns + node.
class Search {
  public:
    Search(const GraphView& graph, const int64_t* roots, int64_t count, bool apart, uint64_t key, int threads)
        : g_(graph), roots_(roots), apart_(apart), key_(key), threads_(threads),
          table_(apart ? count * graph.columns : graph.columns) {
        *starts.grow(1) = 0;
        int64_t* at = numbers.grow(count);
        for (int64_t i = 0; i < count; ++i) at[i] = roots[i] + (apart ? i * graph.columns : 0);
        layers.push_back(count);
    }

    // Sample the nodes of the last layer; their neighbours that are new become the next.
    void hop(const Draw& draw) {
        const int64_t count = layers.back(), first = numbers.size() - count;
        own_.resize(count), keys_.resize(apart_ ? count : 0);
        for (int64_t i = 0; i < count; ++i) {
            const int64_t number = numbers.data()[first + i];
            own_[i] = number % g_.columns;
            if (apart_) keys_[i] = keyed(key_, roots_[number / g_.columns]);
        }
        const Wanted wanted{count, own_.data(), apart_ ? keys_.data() : nullptr, nullptr, key_};
        const int64_t at = starts.size() - 1;
        count_edges(g_, draw, wanted, starts, threads_);
        const int64_t* from = starts.data() + at;
        const int64_t begin = from[0], total = from[count] - begin;
        edges.grow(g_, total);
        indices.grow(total);
        make_room(total);
        std::vector<std::vector<int64_t>> fresh(threads_);
        sample_rows(g_, draw, wanted, from, edges, threads_, [&](int64_t row, int64_t last) {
            insert(from, row, last, first, fresh[omp_get_thread_num()]);
        });
        append(fresh);
#pragma omp parallel for num_threads(workers(total, threads_)) schedule(static)
        for (int64_t e = begin; e < begin + total; ++e) indices.data()[e] = table_.value(indices.data()[e]);
    }

    void finish() {
        const int64_t end = starts.data()[starts.size() - 1];
        std::fill_n(starts.grow(layers.back()), layers.back(), end);
    }

    Buffer<int64_t> numbers, starts;
    Buffer<int32_t> indices;
    Edges edges;
    std::vector<int64_t> layers;

  private:
    void make_room(int64_t edges) {
        const int64_t most = numbers.size() + edges;
        if (table_ready_ && table_.fits(most)) return;
        table_.reset(most);
        table_ready_ = true;
        bool fresh;
        for (int64_t i = 0; i < numbers.size(); ++i) table_.value(table_.insert(numbers.data()[i], fresh)) = int32_t(i);
    }

    // Put the sources of rows [row, last) into the table; their slots stand in `indices` until numbers are known.
    void insert(const int64_t* from, int64_t row, int64_t last, int64_t first, std::vector<int64_t>& fresh) {
        thread_local std::vector<int64_t> sources;
        sources.clear();
        for (int64_t i = row; i < last; ++i) {
            const int64_t base = apart_ ? numbers.data()[first + i] / g_.columns * g_.columns : 0;
            for (int64_t e = from[i]; e < from[i + 1]; ++e)
                sources.push_back(base + source_of(g_, edges.positions.data()[e]));
        }
        int32_t* slots = indices.data() + from[row];
        const int64_t count = from[last] - from[row];
        for (int64_t e = 0; e < std::min(count, kAheadOf); ++e) table_.prefetch(sources[e]);
        for (int64_t e = 0; e < count; ++e) {
            if (e + kAheadOf < count) table_.prefetch(sources[e + kAheadOf]);
            bool is_fresh;
            slots[e] = int32_t(table_.insert(sources[e], is_fresh));
            if (is_fresh) fresh.push_back(sources[e]);
        }
    }

    // Number the fresh nodes by node: each thread sorts a range of them.
    void append(const std::vector<std::vector<int64_t>>& fresh) {
        int64_t count = 0;
        for (const auto& part : fresh) count += int64_t(part.size());
        const int ranges = workers(count, threads_);
        const int64_t width = table_.numbers() / ranges + 1;
        std::vector<std::vector<int64_t>> sorted(ranges);
#pragma omp parallel for num_threads(ranges) schedule(static, 1)
        for (int range = 0; range < ranges; ++range) {
            const int64_t low = width * range;
            std::vector<int64_t>& own = sorted[range];
            own.resize(count);
            int64_t held = 0;
            for (const auto& part : fresh)
                for (const int64_t number : part) {
                    own[held] = number;
                    held += number >= low && number - low < width;
                }
            own.resize(held);
            radix_sort(own, [](int64_t number) { return uint64_t(number); });
        }
        int64_t* to = numbers.grow(count);
        layers.push_back(count);
        for (const auto& own : sorted) to = std::copy(own.begin(), own.end(), to);
        const int64_t end = numbers.size();
        const int64_t* all = numbers.data();
#pragma omp parallel for num_threads(ranges) schedule(static)
        for (int64_t i = end - count; i < end; ++i) {
            if (i + kAheadOf < end) table_.prefetch(all[i + kAheadOf]);
            table_.value(table_.find(all[i])) = int32_t(i);
        }
    }

    const GraphView& g_;
    const int64_t* roots_;
    const bool apart_;
    const uint64_t key_;
    const int threads_;
    NodeTable table_;
    bool table_ready_ = false;
    std::vector<int64_t> own_;
    std::vector<uint64_t> keys_;
};

}  // namespace kernels
