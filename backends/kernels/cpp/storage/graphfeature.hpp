// GraphFeatures (backends/agl/graphfeature.proto) in Protocol Buffers' wire format: fields, packed numbers.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "storage/wire.hpp"

namespace kernels {

enum Field {  // the numbers of the schema
    kNodes = 1, kNodesAt, kInEdges, kSources, kRanks, kEdges, kDegrees, kWeightedDegrees, kFeatures, kEdgeWeights,
    kEdgeFeatures, kLabel, kSplit, kSetFeatures, kFeatureColumns, kFeatureValues, kFeatureWidth, kFields
};
constexpr const char* kFieldNames[kFields] = {
    "", "nodes", "nodes_at", "in_edges", "sources", "ranks", "edges", "degrees", "weighted_degrees", "features",
    "edge_weights", "edge_features", "label", "split", "set_features", "feature_columns", "feature_values",
    "feature_width"};

// How many numbers end in 8 bytes.
inline int ends_in(const uint8_t* bytes) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    return std::popcount(~word & 0x8080808080808080);
}

// How many numbers a packed field holds; it must end with one.
inline int64_t count_numbers(Bytes field) {
    if (field.begin == field.end) return 0;
    if (field.end[-1] >= 128) throw Corrupt("a packed field ends inside a number");
    int64_t count = 0;
    for (; field.end - field.begin >= 8; field.begin += 8) count += ends_in(field.begin);
    for (; field.begin < field.end; ++field.begin) count += *field.begin < 128;
    return count;
}

// The numbers of a packed field one by one. At most as many as `count_numbers` returned may be read.
class PackedNumbers {
  public:
    explicit PackedNumbers(Bytes field) : at_(field.begin), end_(field.end) {}

    uint64_t next() {
        const uint64_t byte = *at_++;
        if (byte < 128) return byte;
        const uint64_t second = *at_++;
        if (second < 128) return (byte & 127) | second << 7;
        return rest((byte & 127) | (second & 127) << 7);
    }

    void skip(int64_t count) {
        while (end_ - at_ >= 8) {
            const int ends = ends_in(at_);
            if (ends >= count) break;  // the last one may end before the 8 bytes do
            at_ += 8, count -= ends;
        }
        while (count > 0) count -= *at_++ < 128;
    }

  private:
    uint64_t rest(uint64_t value) {
        for (int shift = 14; shift < 70; shift += 7) {
            const uint64_t byte = *at_++;
            value |= (byte & 127) << shift;
            if (byte < 128) return value;
        }
        throw Corrupt("a number is longer than 10 bytes");
    }

    const uint8_t *at_, *end_;
};

// The bytes of a record's fields; empty where it lacks the field.
struct GraphFeature {
    std::array<Bytes, kFields> fields{};
    uint64_t split = 0, feature_width = 0;

    bool sparse() const { return feature_width > 0; }

    // Refuse a field of bytes that does not hold `each` bytes for each of `count`.
    Bytes sized(Field field, int64_t count, int64_t each) const {
        if (fields[field].size() != count * each)
            throw Corrupt(std::string(kFieldNames[field]) + " has not " + std::to_string(each) + " bytes for each of " +
                          std::to_string(count));
        return fields[field];
    }
};

inline void require(bool holds, const char* expected) {
    if (!holds) throw Corrupt(std::string("it has not ") + expected);
}

// Split a record into its fields, of which four are required. The last one counts where a field is repeated.
inline GraphFeature fields_of(Bytes record) {
    GraphFeature feature;
    const int64_t whole = record.size();
    while (record.begin < record.end) {
        const uint64_t tag = read_number(record), value = read_number(record), field = tag >> 3, kind = tag & 7;
        if (kind != 0 && (kind != 2 || value > uint64_t(record.size())))
            throw Corrupt("field " + std::to_string(field) + " of wire type " + std::to_string(kind) +
                          " does not fit into " + std::to_string(whole) + " bytes");
        if (field >= 1 && field < kFields && (kind == 0) != (field == kSplit || field == kFeatureWidth))
            throw Corrupt(std::string("field ") + kFieldNames[field] + " has the wrong wire type");
        if (field == kSplit) feature.split = value;
        if (field == kFeatureWidth) feature.feature_width = value;
        const int64_t length = kind == 0 ? 0 : int64_t(value);
        if (field >= 1 && field < kFields) feature.fields[field] = {record.begin, record.begin + length};
        record.begin += length;
    }
    for (const Field field : {kNodes, kNodesAt, kInEdges, kDegrees})
        if (feature.fields[field].begin == nullptr)
            throw Corrupt(std::string("field ") + kFieldNames[field] + " is missing");
    return feature;
}

// Sizes of a record; `spans` is how many distances it counts nodes at.
struct Extent {
    int64_t nodes = 0, edges = 0, spans = 0;
};

// Count nodes and edges, and refuse a record whose structure contradicts itself.
inline Extent extent_of(const GraphFeature& record) {
    const auto& fields = record.fields;
    const Extent extent{count_numbers(fields[kNodes]), count_numbers(fields[kSources]), count_numbers(fields[kNodesAt])};
    require(extent.nodes > 0, "a target");
    require(extent.nodes < int64_t(1) << 31 && extent.edges < int64_t(1) << 31, "fewer than 2^31 nodes and edges");
    require(count_numbers(fields[kInEdges]) == extent.nodes, "as many in_edges as nodes");
    for (const Field field : {kSetFeatures, kFeatureColumns, kFeatureValues})
        require(record.sparse() || fields[field].size() == 0, "the feature_width of its sparse features");
    require(!record.sparse() || fields[kFeatures].size() == 0, "either dense or sparse features");
    uint64_t placed = 0;
    PackedNumbers nodes_at(fields[kNodesAt]);
    for (int64_t i = 0; i < extent.spans && placed <= uint64_t(extent.nodes); ++i) {
        const uint64_t here = nodes_at.next();
        require(here <= uint64_t(extent.nodes), "as many nodes at all distances as nodes");
        placed += here;
    }
    require(placed == uint64_t(extent.nodes), "as many nodes at all distances as nodes");
    return extent;
}

// Write where each node's edges begin, [nodes + 1].
template <class T>
void read_starts(const GraphFeature& record, const Extent& extent, T* starts) {
    PackedNumbers in_edges(record.fields[kInEdges]);
    uint64_t total = 0;
    starts[0] = 0;
    for (int64_t i = 0; i < extent.nodes; ++i) {
        const uint64_t here = in_edges.next();
        require(here <= uint64_t(extent.edges) - total, "as many edges as in_edges say");
        total += here, starts[i + 1] = T(total);
    }
    require(total == uint64_t(extent.edges), "as many edges as in_edges say");
}

// Write where each node's set features begin, [nodes + 1], and refuse other numbers of columns or values.
inline void read_feature_starts(const GraphFeature& record, int64_t nodes, int64_t* starts) {
    const int64_t total = count_numbers(record.fields[kFeatureColumns]);
    require(count_numbers(record.fields[kSetFeatures]) == nodes, "as many set_features as nodes");
    require(record.feature_width <= uint64_t(1) << 31, "fewer than 2^31 columns of features");
    record.sized(kFeatureValues, total, 4);
    PackedNumbers counts(record.fields[kSetFeatures]);
    starts[0] = 0;
    for (int64_t i = 0; i < nodes; ++i) {
        const uint64_t here = counts.next();
        require(here <= uint64_t(total - starts[i]), "as many feature_columns as set_features say");
        starts[i + 1] = starts[i] + int64_t(here);
    }
    require(starts[nodes] == total, "as many feature_columns as set_features say");
}

// Undo the differences of one node's columns, which ascend and are below the width.
template <class T>
void read_feature_columns(PackedNumbers& steps, uint64_t width, int64_t count, T* columns) {
    uint64_t column = 0;
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t step = steps.next();
        column = i == 0 ? step : column + step;
        if (step >= width || column + 1 >= width || (i > 0 && step == 0))
            throw Corrupt("feature_columns of a node do not ascend below feature_width");
        columns[i] = T(column);
    }
}

// Undo the differences of ids.
template <class T>
void read_ids(Bytes field, int64_t count, T* ids) {
    PackedNumbers steps(field);
    uint64_t id = 0;
    for (int64_t i = 0; i < count; ++i) ids[i] = T(id += uint64_t(unzigzag(steps.next())));
}

}  // namespace kernels
