// GraphFeatures of a batch merged into one neighbourhood: only the fields and edges that its layers read are decoded.
#pragma once
#include <algorithm>
#include <atomic>
#include <optional>

#include "common/buffer.hpp"
#include "common/node_table.hpp"
#include "storage/graphfeature_columns.hpp"

namespace kernels {

// The places 0 to `count` of all records' nodes, in the order of their ids, or of (target, id) where copies stay apart.
class Slots {
  public:
    // `ids` [nodes], record r's from `bounds[r]`; writes each node's place to `slots`.
    Slots(const int64_t* ids, const std::vector<int64_t>& bounds, bool apart, int32_t* slots, int threads) {
        const int64_t nodes = bounds.back();
        const auto [least, most] = std::minmax_element(ids, ids + nodes);
        const uint64_t range = uint64_t(*most) - uint64_t(*least);
        if (apart)
            order_copies(ids, bounds, slots);
        else if (range < uint64_t(kSparse * nodes + kSmall))
            shift(ids, nodes, *least, int64_t(range) + 1, slots, threads);
        else
            number(ids, nodes, slots, threads);
    }
    int64_t count() const { return count_; }

  private:
    static constexpr int64_t kSparse = 8, kSmall = 1 << 16;

    void shift(const int64_t* ids, int64_t nodes, int64_t least, int64_t range, int32_t* slots, int threads) {
        count_ = range;
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t i = 0; i < nodes; ++i) slots[i] = int32_t(ids[i] - least);
    }

    // Ids that are far apart are looked up.
    void number(const int64_t* ids, int64_t nodes, int32_t* slots, int threads) {
        NodeTable table(std::numeric_limits<int64_t>::max());
        table.reset(nodes);
        std::vector<int64_t> distinct;
        for (int64_t i = 0; i < nodes; ++i)
            if (table.insert(ids[i])) distinct.push_back(ids[i]);
        std::sort(distinct.begin(), distinct.end());
        distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
        count_ = int64_t(distinct.size());
        for (int64_t i = 0; i < count_; ++i) table.value(distinct[i]) = int32_t(i);
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int64_t i = 0; i < nodes; ++i) slots[i] = table.value(ids[i]);
    }

    void order_copies(const int64_t* ids, const std::vector<int64_t>& bounds, int32_t* slots) {
        const int64_t records = int64_t(bounds.size()) - 1;
        std::vector<int32_t> order(records), own;
        for (int64_t r = 0; r < records; ++r) order[r] = int32_t(r);
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return ids[bounds[a]] < ids[bounds[b]]; });
        for (const int32_t r : order) {
            own.resize(bounds[r + 1] - bounds[r]);
            for (size_t i = 0; i < own.size(); ++i) own[i] = int32_t(bounds[r] + int64_t(i));
            std::stable_sort(own.begin(), own.end(), [&](int32_t a, int32_t b) { return ids[a] < ids[b]; });
            for (const int32_t node : own) slots[node] = int32_t(count_++);
        }
    }

    int64_t count_ = 0;
};

// A place in a batch: the node at `node` of `record`.
struct Place {
    int32_t record, node;
};

// Columns that are read of the merged nodes and edges.
struct RequestedColumns {
    bool degrees, weighted_degrees, features, edge_weights;
    int64_t edge_width;  // features of an edge, 0: none are read
};

// A merged neighbourhood: nodes layer by layer, in each by id, and the edges into all but the last layer's by rank.
struct Merged {
    Buffer<int64_t> ids, starts, degrees;
    Buffer<int32_t> indices, roots;
    Buffer<double> weighted_degrees;
    Buffer<float> features, edge_weights, edge_features;  // of sparse features the values
    Buffer<int64_t> feature_starts;
    Buffer<int32_t> feature_columns;
    std::vector<int64_t> layers;
    int64_t width = 0;
};

// Merges records. Of several records with a node, the one that has it nearest to its target has the most of its edges.
class Merge {
  public:
    using Reach = std::vector<int64_t>;

    Merge(const Strings& strings, bool apart, const RequestedColumns& requested, int threads)
        : count_(strings.count), requested_(requested), threads_(threads), records_(count_), extents_(count_),
          bounds_(count_ + 1) {
        if (count_ == 0) throw std::invalid_argument("a batch needs at least one record");
        if (count_ >= int64_t(1) << 24) throw std::invalid_argument("a batch has fewer than 2^24 records");
        for_records([&](int64_t r) { records_[r] = fields_of(strings[r]), extents_[r] = extent_of(records_[r]); });
        for (int64_t r = 0; r < count_; ++r) bounds_[r + 1] = bounds_[r] + extents_[r].nodes;
        if (bounds_[count_] > std::numeric_limits<int32_t>::max() / 16)
            throw std::invalid_argument("a batch of " + std::to_string(bounds_[count_]) +
                                        " nodes is too large: lower its size");
        int64_t* ids = ids_.grow(bounds_[count_]);
        int32_t *starts = starts_.grow(bounds_[count_] + count_), *slots = slots_.grow(bounds_[count_]);
        for_records([&](int64_t r) {
            read_ids(records_[r].fields[kNodes], extents_[r].nodes, ids + bounds_[r]);
            read_starts(records_[r], extents_[r], starts + bounds_[r] + r);
        });
        slot_count_ = Slots(ids, bounds_, apart, slots, threads_).count();
        find_nearest();
    }

    // `reaches`: for each hop, of how many of a node's edges the source is needed within one layer, two, ... after.
    void run(const std::vector<Reach>& reaches, Merged& merged) {
        level_.assign(slot_count_, kNowhere), local_.grow(slot_count_);
        for (int64_t r = 0; r < count_; ++r) level_[root(r)] = 0;
        *merged.starts.grow(1) = 0;
        merged.layers.push_back(append(0));
        for (size_t hop = 0; hop < reaches.size(); ++hop) {
            follow(merged, int(hop), reaches[hop]);
            merged.layers.push_back(append(int(hop) + 1));
        }
        finish(merged);
    }

  private:
    static constexpr uint8_t kNowhere = 255;
    static constexpr int64_t kAhead = 16;

    template <class Work>
    void for_records(Work&& work) {
        Damage damage;
#pragma omp parallel for num_threads(threads_) schedule(dynamic, 8)
        for (int64_t r = 0; r < count_; ++r) damage.guard(r, [&] { work(r); });
        damage.raise();
    }

    int32_t root(int64_t record) const { return slots_.data()[bounds_[record]]; }
    Place place_of(int64_t node) const {
        const uint64_t key = nearest_[nodes_[node]];
        return {int32_t(key >> 32 & 0xffffff), int32_t(uint32_t(key))};
    }

    // Keep (distance, record, place) of the nearest copy of each node, the first of several.
    void find_nearest() {
        nearest_.assign(slot_count_, ~uint64_t(0));
        for_records([&](int64_t r) {
            require(extents_[r].spans < kNowhere, "fewer than 255 hops");
            PackedNumbers nodes_at(records_[r].fields[kNodesAt]);
            const int32_t* slots = slots_.data() + bounds_[r];
            int64_t node = 0;
            for (int64_t distance = 0; distance < extents_[r].spans; ++distance) {
                const uint64_t near = uint64_t(distance) << 56 | uint64_t(r) << 32;
                for (uint64_t left = nodes_at.next(); left > 0; --left, ++node)
                    lower(nearest_[slots[node]], near | node);
            }
        });
    }

    template <class T>
    static void lower(T& shared, T value) {
        std::atomic_ref<T> entry(shared);
        T current = entry.load(std::memory_order_relaxed);
        while (current > value && !entry.compare_exchange_weak(current, value, std::memory_order_relaxed)) {}
    }

    // Append the nodes of a level, in the order of their slots; returns how many.
    int64_t append(int level) {
        const int64_t before = int64_t(nodes_.size());
        const uint8_t *first = level_.data(), *end = first + slot_count_;
        for (const uint8_t* at = first;
             at < end && (at = static_cast<const uint8_t*>(std::memchr(at, level, end - at))); ++at) {
            local_.data()[at - first] = int32_t(nodes_.size());
            nodes_.push_back(int32_t(at - first));
        }
        return int64_t(nodes_.size()) - before;
    }

    // Places of the nodes from `first` on, by record and place, so that each record is read once from front to end.
    std::vector<std::pair<Place, int64_t>> by_record(int64_t first, std::vector<int64_t>& bounds) const {
        bounds.assign(count_ + 2, 0);
        const int64_t last = int64_t(nodes_.size());
        for (int64_t i = first; i < last; ++i) ++bounds[place_of(i).record + 2];
        for (int64_t r = 0; r < count_; ++r) bounds[r + 2] += bounds[r + 1];
        std::vector<std::pair<Place, int64_t>> rows(last - first);
        for (int64_t i = first; i < last; ++i) rows[bounds[place_of(i).record + 1]++] = {place_of(i), i};
        return rows;
    }

    // `work(record, rows, end)` for each record's share of the nodes from `first` on, places ascending.
    template <class Work>
    void for_places(int64_t first, Work&& work) {
        std::vector<int64_t> bounds;
        auto rows = by_record(first, bounds);
        for_records([&](int64_t r) {
            auto *begin = rows.data() + bounds[r], *end = rows.data() + bounds[r + 1];
            std::sort(begin, end, [](const auto& a, const auto& b) { return a.first.node < b.first.node; });
            if (begin < end) work(r, begin, end);
        });
    }

    // Read the edges of the last level's nodes and note the levels at which their sources are needed.
    void follow(Merged& merged, int hop, const Reach& reach) {
        const int64_t first = int64_t(nodes_.size()) - merged.layers.back(), last = int64_t(nodes_.size());
        int64_t* starts = merged.starts.grow(last - first) - first;
        for (int64_t i = first; i < last; ++i) {
            const Place at = place_of(i);
            const int32_t* own = starts_.data() + bounds_[at.record] + at.record + at.node;
            starts[i] = starts[i - 1] + std::min<int64_t>(own[1] - own[0], reach.back());
        }
        const int64_t total = starts[last - 1] - starts[first - 1];
        merged.indices.grow(total);
        if (requested_.edge_weights) merged.edge_weights.grow(total);
        const int64_t width = requested_.edge_width;
        if (width > 0) merged.edge_features.grow(total * width);
        for_places(first, [&](int64_t r, const auto* row, const auto* end) {
            PackedNumbers sources(records_[r].fields[kSources]);
            int64_t at = 0;
            for (; row < end; ++row) {
                const int64_t begin = starts_.data()[bounds_[r] + r + row->first.node], edge = starts[row->second - 1];
                const int64_t kept = starts[row->second] - edge;
                sources.skip(begin - at), at = begin + kept;
                read_sources(r, sources, kept, merged.indices.data() + edge);
                note(merged.indices.data() + edge, kept, hop, reach);
                if (requested_.edge_weights)
                    read_edges(r, kEdgeWeights, 1, begin, kept, merged.edge_weights.data() + edge);
                if (width > 0)
                    read_edges(r, kEdgeFeatures, width, begin, kept, merged.edge_features.data() + edge * width);
            }
        });
    }

    void read_sources(int64_t record, PackedNumbers& sources, int64_t count, int32_t* slots) const {
        const int32_t* own = slots_.data() + bounds_[record];
        const uint64_t nodes = uint64_t(extents_[record].nodes);
        for (int64_t e = 0; e < count; ++e) {
            const uint64_t source = sources.next();
            if (source >= nodes) throw Corrupt("an edge starts at a node that its record does not hold");
            slots[e] = own[source];
        }
    }

    void note(const int32_t* slots, int64_t count, int hop, const Reach& reach) {
        int64_t e = 0;
        for (size_t after = 0; after < reach.size(); ++after)
            for (const int64_t end = std::min(count, reach[after]); e < end; ++e)
                lower(level_[slots[e]], uint8_t(hop + 1 + int(after)));
    }

    // Copy `width` numbers of each of `count` edges.
    void read_edges(int64_t record, Field field, int64_t width, int64_t begin, int64_t count, float* out) const {
        const Bytes bytes = records_[record].sized(field, extents_[record].edges, 4 * width);
        if (count > 0) std::memcpy(out, bytes.begin + 4 * width * begin, 4 * width * count);
    }

    void finish(Merged& merged) {
        const int64_t nodes = int64_t(nodes_.size()), edges = merged.indices.size();
        const int64_t end = merged.starts.data()[merged.starts.size() - 1], leaves = merged.layers.back();
        std::fill_n(merged.starts.grow(leaves), leaves, end);
        int64_t* ids = merged.ids.grow(nodes);
        int32_t *indices = merged.indices.data(), *roots = merged.roots.grow(count_);
#pragma omp parallel for num_threads(threads_) schedule(static)
        for (int64_t e = 0; e < edges; ++e) indices[e] = local_.data()[indices[e]];
#pragma omp parallel for num_threads(threads_) schedule(static)
        for (int64_t i = 0; i < nodes; ++i) ids[i] = ids_.data()[bounds_[place_of(i).record] + place_of(i).node];
        for (int64_t r = 0; r < count_; ++r) roots[r] = local_.data()[root(r)];
        if (requested_.degrees) read_degrees(merged);
        if (requested_.weighted_degrees) copy(kWeightedDegrees, 8, merged.weighted_degrees.grow(nodes));
        if (!requested_.features) return;
        if (records_[0].sparse()) return read_sparse_features(merged);
        merged.width = records_[0].fields[kFeatures].size() / (4 * extents_[0].nodes);
        copy(kFeatures, 4 * merged.width, merged.features.grow(nodes * merged.width));
    }

    void read_degrees(Merged& merged) {
        int64_t* degrees = merged.degrees.grow(int64_t(nodes_.size()));
        for_places(0, [&](int64_t r, const auto* row, const auto* end) {
            const Bytes field = records_[r].fields[kDegrees];
            require(count_numbers(field) == extents_[r].nodes, "as many degrees as nodes");
            PackedNumbers numbers(field);
            for (int64_t at = 0; row < end; ++row) {
                numbers.skip(row->first.node - at), at = row->first.node + 1;
                degrees[row->second] = int64_t(numbers.next());
            }
        });
    }

    // Columns and values of the set features: counted first, then each record is read from front to end.
    void read_sparse_features(Merged& merged) {
        const int64_t nodes = int64_t(nodes_.size());
        merged.width = int64_t(records_[0].feature_width) - 1;
        std::vector<std::vector<int64_t>> own(count_);
        for_records([&](int64_t r) {
            require(records_[r].feature_width == records_[0].feature_width, "as wide features as the others");
            own[r].resize(extents_[r].nodes + 1);
            read_feature_starts(records_[r], extents_[r].nodes, own[r].data());
        });
        int64_t* starts = merged.feature_starts.grow(nodes + 1);
        starts[0] = 0;
        for (int64_t i = 0; i < nodes; ++i) {
            const Place at = place_of(i);
            starts[i + 1] = starts[i] + own[at.record][at.node + 1] - own[at.record][at.node];
        }
        int32_t* columns = merged.feature_columns.grow(starts[nodes]);
        float* values = merged.features.grow(starts[nodes]);
        for_places(0, [&](int64_t r, const auto* row, const auto* end) {
            PackedNumbers steps(records_[r].fields[kFeatureColumns]);
            const uint8_t* stored = records_[r].fields[kFeatureValues].begin;
            for (int64_t at = 0; row < end; ++row) {
                const int64_t begin = own[r][row->first.node], count = own[r][row->first.node + 1] - begin;
                steps.skip(begin - at), at = begin + count;
                read_feature_columns(steps, records_[r].feature_width, count, columns + starts[row->second]);
                if (count > 0) std::memcpy(values + starts[row->second], stored + 4 * begin, 4 * count);
            }
        });
    }

    // Copy each node's bytes of a field.
    void copy(Field field, int64_t each, void* out) {
        for_records([&](int64_t r) { records_[r].sized(field, extents_[r].nodes, each); });
        const int64_t nodes = int64_t(nodes_.size());
        uint8_t* to = static_cast<uint8_t*>(out);
#pragma omp parallel for num_threads(threads_) schedule(static)
        for (int64_t i = 0; i < nodes; ++i) {
            if (i + kAhead < nodes) __builtin_prefetch(from(field, each, i + kAhead));
            std::memcpy(to + i * each, from(field, each, i), each);
        }
    }
    const uint8_t* from(Field field, int64_t each, int64_t node) const {
        const Place at = place_of(node);
        return records_[at.record].fields[field].begin + at.node * each;
    }

    const int64_t count_;
    const RequestedColumns requested_;
    const int threads_;
    std::vector<GraphFeature> records_;
    std::vector<Extent> extents_;
    std::vector<int64_t> bounds_;        // of each record's nodes
    Buffer<int64_t> ids_;                // of all records' nodes
    Buffer<int32_t> starts_, slots_;     // of their edges in their records; their numbers in this batch
    int64_t slot_count_ = 0;
    std::vector<uint64_t> nearest_;      // of each slot: distance, record and place
    std::vector<uint8_t> level_;         // of each slot: its layer
    std::vector<int32_t> nodes_;         // slots, layer by layer
    Buffer<int32_t> local_;              // of each slot: its place in `nodes_`
};

}  // namespace kernels
