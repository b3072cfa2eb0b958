// Whole GraphFeatures decoded into columns, one for each field.
#pragma once
#include <vector>

#include "storage/graphfeature.hpp"

namespace kernels {

struct Strings {
    const uint8_t* data;
    const int64_t *starts, *ends;
    int64_t count;
    Bytes operator[](int64_t record) const { return {data + starts[record], data + ends[record]}; }
};

// nodes, edges, spans, labels; bytes of weighted degrees, features, edge weights and features; set features, their width + 1
constexpr int kCounted = 10;
constexpr std::array<Field, 4> kRaw = {kWeightedDegrees, kFeatures, kEdgeWeights, kEdgeFeatures};

// Count each record's entries, [records, kCounted], and refuse a record that contradicts itself.
inline void count_columns(const Strings& strings, int64_t* counts, int threads) {
    Damage damage;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 16)
    for (int64_t r = 0; r < strings.count; ++r) {
        damage.guard(r, [&] {
            const GraphFeature record = fields_of(strings[r]);
            const Extent extent = extent_of(record);
            int64_t* own = counts + r * kCounted;
            require(count_numbers(record.fields[kEdges]) == extent.edges, "as many sources as edges");
            require(count_numbers(record.fields[kRanks]) == extent.edges, "as many ranks as edges");
            require(count_numbers(record.fields[kDegrees]) == extent.nodes, "as many degrees as nodes");
            own[0] = extent.nodes, own[1] = extent.edges, own[2] = extent.spans;
            own[3] = count_numbers(record.fields[kLabel]);
            for (int i = 0; i < 4; ++i) own[4 + i] = record.fields[kRaw[i]].size();
            own[8] = count_numbers(record.fields[kFeatureColumns]), own[9] = int64_t(record.feature_width);
        });
    }
    damage.raise();
}

// Where columns go; raw ones are null where no record has any.
struct RecordColumns {
    const int64_t *nodes, *edges;  // bounds [records + 1]
    int64_t *ids, *distance, *in_edges, *sources, *ranks, *edge_ids, *degrees, *labels, *split;
    int64_t labelled;
    std::array<uint8_t*, 4> raw;
    std::array<int64_t, 4> each;
    const int64_t* set;  // bounds of the set features [records + 1], null where features are not sparse
    int64_t *set_features, *feature_columns;
    float* feature_values;
};

template <class T>
void read_numbers(Bytes field, int64_t count, T* out) {
    PackedNumbers numbers(field);
    for (int64_t i = 0; i < count; ++i) out[i] = T(numbers.next());
}

inline void read_columns(const GraphFeature& record, int64_t r, const RecordColumns& out) {
    const int64_t node = out.nodes[r], edge = out.edges[r];
    const Extent extent = extent_of(record);
    require(out.nodes[r + 1] - node == extent.nodes && out.edges[r + 1] - edge == extent.edges,
            "the size that was counted");
    const auto& fields = record.fields;
    std::vector<int64_t> starts(extent.nodes + 1);
    read_starts(record, extent, starts.data());
    for (int64_t i = 0; i < extent.nodes; ++i) out.in_edges[node + i] = starts[i + 1] - starts[i];
    read_ids(fields[kNodes], extent.nodes, out.ids + node);
    read_ids(fields[kEdges], extent.edges, out.edge_ids + edge);
    read_numbers(fields[kSources], extent.edges, out.sources + edge);
    for (int64_t e = 0; e < extent.edges; ++e)
        if (uint64_t(out.sources[edge + e]) >= uint64_t(extent.nodes))
            throw Corrupt("an edge starts at a node that its record does not hold");
    read_numbers(fields[kRanks], extent.edges, out.ranks + edge);
    read_numbers(fields[kDegrees], extent.nodes, out.degrees + node);
    PackedNumbers nodes_at(fields[kNodesAt]), labels(fields[kLabel]);
    for (int64_t span = 0, at = node; span < extent.spans; ++span)
        for (uint64_t left = nodes_at.next(); left > 0; --left) out.distance[at++] = span;
    for (int64_t i = 0; i < out.labelled; ++i) out.labels[r * out.labelled + i] = unzigzag(labels.next());
    out.split[r] = int64_t(record.split);
    for (int i = 0; i < 4; ++i) {
        const int64_t first = i < 2 ? node : edge, count = i < 2 ? extent.nodes : extent.edges;
        if (out.raw[i] == nullptr) continue;
        const Bytes bytes = record.sized(kRaw[i], count, out.each[i]);
        if (bytes.size() > 0) std::memcpy(out.raw[i] + first * out.each[i], bytes.begin, bytes.size());
    }
    if (out.set == nullptr) return;
    read_feature_starts(record, extent.nodes, starts.data());
    require(out.set[r + 1] - out.set[r] == starts[extent.nodes], "the set features that were counted");
    PackedNumbers steps(fields[kFeatureColumns]);
    for (int64_t i = 0; i < extent.nodes; ++i) {
        out.set_features[node + i] = starts[i + 1] - starts[i];
        read_feature_columns(steps, record.feature_width, starts[i + 1] - starts[i],
                             out.feature_columns + out.set[r] + starts[i]);
    }
    if (starts[extent.nodes] > 0)
        std::memcpy(out.feature_values + out.set[r], fields[kFeatureValues].begin, 4 * starts[extent.nodes]);
}

// Decode records that were counted.
inline void decode_columns(const Strings& strings, const RecordColumns& out, int threads) {
    Damage damage;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 16)
    for (int64_t r = 0; r < strings.count; ++r)
        damage.guard(r, [&] { read_columns(fields_of(strings[r]), r, out); });
    damage.raise();
}

}  // namespace kernels
