// k-hop neighbourhoods, hop by hop, rows sampled in parallel (defined in backends/kernels/definition.py).
#pragma once
#include "sample/numbering.hpp"
#include "sample/row_sampler.hpp"

namespace kernels {

constexpr int64_t kRowsAtOnce = 64;
constexpr double kSmallBits = 64 << 20;  // bytes
constexpr double kTableBytes = 32;       // at least, for an edge of a search

// Kept edges, in the order of the requested rows; `ids` of the graph's own type, empty where it has none.
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

// The rows to sample: their numbers in the graph, the keys of their edges' hashes, the ids that draws are hashed from.
struct RowRequest {
    int64_t count;
    const int64_t* nodes;
    const uint64_t* keys;      // [count], or null: `key` for all
    const int64_t* node_ids;   // [count], or null: the number
    uint64_t key;
    uint64_t key_of(int64_t i) const { return keys == nullptr ? key : keys[i]; }
    int64_t id_of(int64_t i) const { return node_ids == nullptr ? nodes[i] : node_ids[i]; }
};

// Append the first edge of each row [count] and the end to `starts`, which ends where they begin.
inline void count_edges(const GraphView& g, const Draw& draw, const RowRequest& request, Buffer<int64_t>& starts,
                        int threads) {
    int64_t* from = starts.grow(request.count);
    Failures failures;
#pragma omp parallel for num_threads(workers(request.count, threads)) schedule(static)
    for (int64_t i = 0; i < request.count; ++i) {
        if (i + kAheadOf < request.count) g.indptr.prefetch(request.nodes[i + kAheadOf]);
        failures.guard(i, [&] { from[i] = kept_count(row_of(g, request.nodes[i]), draw); });
    }
    failures.raise();
    for (int64_t i = 0; i < request.count; ++i) from[i] += from[i - 1];
}

// Sample rows and hand each piece of their edges [begin, end) to `use(begin, end)`, in any order.
template <class Use>
void sample_rows(const GraphView& g, const Draw& draw, const RowRequest& request, const int64_t* starts, Edges& out,
                 int threads, Use use) {
    Failures failures;
    const int64_t pieces = (request.count + kRowsAtOnce - 1) / kRowsAtOnce;
#pragma omp parallel num_threads(workers(starts[request.count] - starts[0], threads))
    {
        RowSampler sampler(g, draw);
#pragma omp for schedule(dynamic, 1)
        for (int64_t piece = 0; piece < pieces; ++piece) {
            const int64_t first = piece * kRowsAtOnce, last = std::min(first + kRowsAtOnce, request.count);
            failures.guard(first, [&] {
                int64_t* positions = out.positions.data();
                for (int64_t i = first; i < last; ++i) {
                    sampler.choose(row_of(g, request.nodes[i]), request.key_of(i), request.id_of(i), positions + starts[i]);
                    for (int64_t e = starts[i]; e < starts[i + 1]; ++e) {
                        g.indices.prefetch(positions[e]);
                        if (g.ids.data != nullptr) g.ids.prefetch(positions[e]);
                    }
                }
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
        throw std::invalid_argument("edge at position " + std::to_string(position) + " has source " +
                                    std::to_string(source) +
                                    ": allowed are 0 to " + std::to_string(g.columns - 1));
    return source;
}

// A neighbourhood: nodes layer by layer, `layers` says how many in each, and the edges into all but the last layer's.
struct SearchResult {
    Buffer<int64_t> numbers;
    Buffer<int32_t> starts, indices;  // a search has fewer than 2^31 edges, see check_count
    Edges edges;
    std::vector<int64_t> layers;
};

// How a layer's nodes are sampled, and of how many edges the source is needed one, two, ... layers further on.
struct Hop {
    Draw draw;
    std::vector<int64_t> reach;
};

// Grows a neighbourhood. A number stands for a node, or for a target's copy of it: component * columns + node.
template <class Numbering>
class Search {
  public:
    Search(const GraphView& graph, const int64_t* roots, int64_t count, bool apart, uint64_t key, int threads)
        : g_(graph), roots_(roots), apart_(apart), key_(key), threads_(threads),
          numbering_(apart ? count * graph.columns : graph.columns, threads) {
        *starts_.grow(1) = 0;
        std::vector<int64_t> first(roots, roots + count);
        for (int64_t i = 0; apart && i < count; ++i) first[i] += i * graph.columns;
        numbering_.room(result.numbers, count);
        numbering_.note(0, first.data(), count);
        result.layers.push_back(numbering_.append(result.numbers));
    }

    // Sample the nodes of the last layer; the sources that these edges and earlier ones need now make the next.
    void hop(const Hop& hop) {
        const int64_t count = result.layers.back(), first = result.numbers.size() - count;
        const RowRequest request = rows(first, count);
        const int64_t at = starts_.size() - 1;
        count_edges(g_, hop.draw, request, starts_, threads_);
        const int64_t* from = starts_.data() + at;
        const int64_t total = from[count] - from[0];
        result.edges.grow(g_, total);
        sources_.grow(total);
        numbering_.room(result.numbers, sources_.size());
        hops_.push_back(hop), first_.push_back(first), first_.push_back(first + count);
        sample_rows(g_, hop.draw, request, from, result.edges, threads_, [&](int64_t row, int64_t last) {
            read_sources(first + row, first + last);
            note(hop, 0, first + row, first + last);
        });
        for (size_t earlier = 0; earlier + 1 < hops_.size(); ++earlier)
            note(hops_[earlier], hops_.size() - 1 - earlier, first_[2 * earlier], first_[2 * earlier + 1]);
        result.layers.push_back(numbering_.append(result.numbers));
    }

    void finish() {
        const int64_t expanded = starts_.size(), last = result.layers.back(), total = sources_.size();
        int32_t* starts = result.starts.grow(expanded + last);
        std::transform(starts_.data(), starts_.data() + expanded, starts, [](int64_t at) { return int32_t(at); });
        std::fill_n(starts + expanded, last, int32_t(total));
        result.indices.grow(total);
#pragma omp parallel for num_threads(workers(total, threads_)) schedule(static)
        for (int64_t e = 0; e < total; e += kPiece)
            numbering_.places(sources_.data() + e, std::min(kPiece, total - e), result.indices.data() + e);
    }

    SearchResult result;

  private:
    static constexpr int64_t kPiece = 4096;

    RowRequest rows(int64_t first, int64_t count) {
        const int64_t* numbers = result.numbers.data() + first;
        if (!apart_) return {count, numbers, nullptr, nullptr, key_};
        own_.resize(count), keys_.resize(count);
        for (int64_t i = 0; i < count; ++i) {
            own_[i] = numbers[i] % g_.columns;
            keys_[i] = keyed(key_, roots_[numbers[i] / g_.columns]);
        }
        return {count, own_.data(), keys_.data(), nullptr, key_};
    }

    // The numbers of the sources of the edges into rows [row, last).
    void read_sources(int64_t row, int64_t last) {
        const int64_t *starts = starts_.data(), *at = result.edges.positions.data();
        int64_t* to = sources_.data();
        for (; row < last; ++row) {
            const int64_t base = apart_ ? result.numbers.data()[row] / g_.columns * g_.columns : 0;
            for (int64_t e = starts[row]; e < starts[row + 1]; ++e) to[e] = base + source_of(g_, at[e]);
        }
    }

    // Note the sources of rows [row, last) of a hop that are needed `after` layers behind the next one, and no sooner.
    void note(const Hop& hop, size_t after, int64_t row, int64_t last) {
        const int64_t *starts = starts_.data(), *sources = sources_.data();
        const int64_t low = after == 0 ? 0 : hop.reach[after - 1], high = hop.reach[after];
        const int thread = omp_get_thread_num();
        if (low >= high) return;
        if (low == 0 && high >= hop.draw.fanout)
            return numbering_.note(thread, sources + starts[row], starts[last] - starts[row]);
        for (; row < last; ++row) {
            const int64_t begin = starts[row], kept = starts[row + 1] - begin;
            const int64_t from = std::min(low, kept);
            numbering_.note(thread, sources + begin + from, std::min(high, kept) - from);
        }
    }

    const GraphView& g_;
    const int64_t* roots_;
    const bool apart_;
    const uint64_t key_;
    const int threads_;
    Numbering numbering_;
    Buffer<int64_t> starts_, sources_;  // starts of the rows expanded so far, and the end
    std::vector<Hop> hops_;
    std::vector<int64_t> first_;  // of each hop: its first row, and the one after its last
    std::vector<int64_t> own_;
    std::vector<uint64_t> keys_;
};

// Whether a search that reaches about as far as the mean node does is worth a bit for every number in each thread: all
// bits are to take no more than a table of the search would, unless they are few.
inline bool reaches_many(const GraphView& g, int64_t roots, int64_t numbers, const std::vector<Hop>& hops,
                         int threads) {
    const double mean = double(g.nnz) / double(std::max<int64_t>(g.rows, 1));
    double edges = double(roots);
    for (const Hop& hop : hops) edges *= std::max(1.0, std::min(mean, double(hop.draw.fanout)));
    const double bytes = double(numbers) / 8 * threads;
    return edges * 64 >= double(numbers) && bytes <= std::max(kSmallBits, edges * kTableBytes);
}

}  // namespace kernels
