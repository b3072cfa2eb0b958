// Bindings of GraphFeatures: byte strings anywhere in one buffer in, columns or one merged neighbourhood out.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "common/bindings.hpp"
#include "storage/graphfeature_merge.hpp"

namespace {

using Raw = std::optional<Out<uint8_t>>;

kernels::Strings strings_of(const In<uint8_t>& data, const In<int64_t>& starts, const In<int64_t>& ends) {
    const kernels::Strings strings{data.data(), starts.data(), ends.data(), int64_t(starts.size())};
    if (ends.size() != starts.size()) throw std::invalid_argument("as many ends as starts are needed");
    for (int64_t r = 0; r < strings.count; ++r)
        if (starts.data()[r] < 0 || starts.data()[r] > ends.data()[r] || ends.data()[r] > int64_t(data.size()))
            throw std::invalid_argument("string " + std::to_string(r) + " is not inside the buffer");
    return strings;
}

// Run without the interpreter's lock; a corrupt record raises ValueError(reason, record).
template <class Work>
void released(Work&& work) {
    try {
        nb::gil_scoped_release unlocked;
        work();
    } catch (const kernels::Corrupt& corrupt) {
        PyErr_SetObject(PyExc_ValueError, nb::make_tuple(corrupt.reason, corrupt.record).ptr());
        throw nb::python_error();
    }
}

void count(In<uint8_t> data, In<int64_t> starts, In<int64_t> ends, Out<int64_t> counts, int threads) {
    const auto strings = strings_of(data, starts, ends);
    released([&] { kernels::count_columns(strings, counts.data(), threads); });
}

// `columns`: ids, distance, in_edges, sources, ranks, edge_ids, degrees, labels, split.
void decode(In<uint8_t> data, In<int64_t> starts, In<int64_t> ends, In<int64_t> nodes, In<int64_t> edges,
            std::vector<Out<int64_t>> columns, int64_t labelled, std::vector<Raw> raw, std::vector<int64_t> each,
            Maybe<int64_t> set, Out<int64_t> set_features, Out<int64_t> feature_columns, Out<float> feature_values,
            int threads) {
    const auto strings = strings_of(data, starts, ends);
    kernels::RecordColumns out{nodes.data(), edges.data()};
    int64_t** targets[] = {&out.ids, &out.distance, &out.in_edges, &out.sources, &out.ranks, &out.edge_ids,
                           &out.degrees, &out.labels, &out.split};
    for (size_t i = 0; i < std::size(targets); ++i) *targets[i] = columns.at(i).data();
    for (size_t i = 0; i < 4; ++i) out.raw[i] = raw.at(i) ? raw[i]->data() : nullptr, out.each[i] = each.at(i);
    out.labelled = labelled, out.set = pointer(set), out.set_features = set_features.data();
    out.feature_columns = feature_columns.data(), out.feature_values = feature_values.data();
    released([&] { kernels::decode_columns(strings, out, threads); });
}

nb::tuple merge(In<uint8_t> data, In<int64_t> starts, In<int64_t> ends,
                std::vector<std::vector<std::optional<int64_t>>> reaches, bool apart, bool degrees,
                bool weighted_degrees, bool features, bool edge_weights, int64_t edge_width, int threads) {
    const auto strings = strings_of(data, starts, ends);
    std::vector<kernels::Merge::Reach> hops;
    for (const auto& reach : reaches)
        for (auto& hop = hops.emplace_back(); const auto& one : reach)
            hop.push_back(one.value_or(std::numeric_limits<int64_t>::max()));
    const kernels::RequestedColumns requested{degrees, weighted_degrees, features, edge_weights, edge_width};
    kernels::Merged merged;
    released([&] { kernels::Merge(strings, apart, requested, threads).run(hops, merged); });
    return nb::make_tuple(to_numpy(merged.ids), merged.layers, to_numpy(merged.starts), to_numpy(merged.indices),
                          to_numpy(merged.roots), to_numpy(merged.degrees), to_numpy(merged.weighted_degrees), to_numpy(merged.features),
                          to_numpy(merged.edge_weights), to_numpy(merged.edge_features), to_numpy(merged.feature_starts),
                          to_numpy(merged.feature_columns), merged.width);
}

}  // namespace

void define_graphfeature(nb::module_& m) {
    m.def("graphfeature_count", &count, "data"_a, "starts"_a, "ends"_a, "counts"_a, "threads"_a);
    m.def("graphfeature_decode", &decode, "data"_a, "starts"_a, "ends"_a, "nodes"_a, "edges"_a, "columns"_a,
          "labelled"_a, "raw"_a, "each"_a, "set"_a.none(), "set_features"_a, "feature_columns"_a, "feature_values"_a,
          "threads"_a);
    m.def("graphfeature_merge", &merge, "data"_a, "starts"_a, "ends"_a, "reaches"_a,
          "apart"_a, "degrees"_a, "weighted_degrees"_a, "features"_a, "edge_weights"_a, "edge_width"_a,
          "threads"_a);
}
