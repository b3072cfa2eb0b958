// Bindings of sampling and searching: numpy arrays of 32 or 64 bits in, read in place; numpy arrays out.
#include <nanobind/stl/vector.h>

#include "common/bindings.hpp"
#include "sample/loops.hpp"
#include "sample/neighbourhood.hpp"
#include "sample/prefixes.hpp"

namespace {

using Array = InPlace<nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>>;
using Reaches = std::vector<std::vector<std::optional<int64_t>>>;

template <class Narrow, class Wide>
kernels::Numbers<Narrow, Wide> numbers(const Array& array, const char* name) {
    if (array.dtype() != nb::dtype<Narrow>() && array.dtype() != nb::dtype<Wide>())
        throw std::invalid_argument(std::string(name) + " has a type that is neither of the two allowed: " +
                                    (std::is_integral_v<Wide> ? "int32, int64" : "float32, float64"));
    return {array.data(), array.dtype() == nb::dtype<Wide>()};
}

kernels::GraphView graph(const Array& indptr, const Array& indices, const std::optional<Array>& ids,
                         const std::optional<Array>& weight, const Maybe<double>& sums) {
    kernels::GraphView g;
    g.indptr = numbers<int32_t, int64_t>(indptr, "indptr");
    g.indices = numbers<int32_t, int64_t>(indices, "indices");
    if (indptr.size() == 0) throw std::invalid_argument("indptr is empty: it has one entry more than there are rows");
    if (ids && ids->size() != indices.size()) throw std::invalid_argument("edge_ids has another length than indices");
    if (ids) g.ids = numbers<int32_t, int64_t>(*ids, "edge_ids");
    if (weight) g.weight = numbers<float, double>(*weight, "weight");
    g.sums = pointer(sums);
    g.rows = g.columns = int64_t(indptr.size()) - 1, g.nnz = int64_t(indices.size());
    return g;
}

kernels::Draw draw_of(int sampler, bool replacement, std::optional<int64_t> fanout) {
    return {kernels::Sampler(sampler), replacement, fanout.value_or(kernels::kEverything)};
}

nb::object ids_of(const kernels::GraphView& g, kernels::Edges& edges) {
    if (g.ids.data == nullptr) return nb::none();
    return g.ids.wide ? to_numpy(edges.wide_ids) : to_numpy(edges.narrow_ids);
}

template <class Numbering>
kernels::SearchResult search(const kernels::GraphView& g, const In<int64_t>& targets,
                             const std::vector<kernels::Hop>& hops, uint64_t key, bool apart, int threads) {
    nb::gil_scoped_release released;
    kernels::Search<Numbering> search(g, targets.data(), int64_t(targets.size()), apart, key, threads);
    for (const kernels::Hop& hop : hops) search.hop(hop);
    search.finish();
    return std::move(search.result);
}

// `reaches`: for each hop, of how many edges the source is needed within one layer, two, ...; the last is its fanout.
nb::tuple khop(Array indptr, Array indices, std::optional<Array> ids, std::optional<Array> weight,
               Maybe<double> sums, In<int64_t> targets, Reaches reaches, uint64_t key, bool apart, int sampler, bool replacement,
               int threads) {
    const kernels::GraphView g = graph(indptr, indices, ids, weight, sums);
    std::vector<kernels::Hop> hops;
    for (const auto& reach : reaches) {
        auto& hop = hops.emplace_back(kernels::Hop{draw_of(sampler, replacement, reach.back()), {}});
        for (const auto& one : reach) hop.reach.push_back(one.value_or(kernels::kEverything));
    }
    const int64_t count = int64_t(targets.size()), numbers = apart ? count * g.columns : g.columns;
    const bool many = kernels::reaches_many(g, count, numbers, hops, threads);
    kernels::SearchResult result = many ? search<kernels::BitNumbering>(g, targets, hops, key, apart, threads)
                                        : search<kernels::TableNumbering>(g, targets, hops, key, apart, threads);
    nb::object positions = to_numpy(result.edges.positions);
    return nb::make_tuple(to_numpy(result.numbers), result.layers, to_numpy(result.starts), to_numpy(result.indices),
                          ids_of(g, result.edges), positions);
}

nb::tuple sample(Array indptr, Array indices, std::optional<Array> ids, std::optional<Array> weight,
                 Maybe<double> sums, In<int64_t> nodes, std::optional<int64_t> fanout, Maybe<uint64_t> keys, uint64_t key,
                 Maybe<int64_t> node_ids, int sampler, bool replacement, int threads) {
    const kernels::GraphView g = graph(indptr, indices, ids, weight, sums);
    const kernels::RowRequest request{int64_t(nodes.size()), nodes.data(), pointer(keys), pointer(node_ids), key};
    const kernels::Draw draw = draw_of(sampler, replacement, fanout);
    kernels::Edges edges;
    kernels::Buffer<int64_t> starts;
    *starts.grow(1) = 0;
    {
        nb::gil_scoped_release released;
        kernels::count_edges(g, draw, request, starts, threads);
        edges.grow(g, starts.data()[request.count]);
        kernels::sample_rows(g, draw, request, starts.data(), edges, threads, [](int64_t, int64_t) {});
    }
    return nb::make_tuple(to_numpy(starts), ids_of(g, edges), to_numpy(edges.positions));
}

// Sums of the weights from the first edge of each row to each of its edges.
nb::object weight_sums(Array indptr, Array weight, int threads) {
    const auto starts = numbers<int32_t, int64_t>(indptr, "indptr");
    const auto values = numbers<float, double>(weight, "weight");
    const int64_t rows = int64_t(indptr.size()) - 1, edges = int64_t(weight.size());
    for (int64_t row = 0; row < rows; ++row)
        if (starts[row] < 0 || starts[row + 1] < starts[row] || starts[row + 1] > edges)
            throw std::invalid_argument("indptr does not ascend from 0 to the number of weights at row " + std::to_string(row));
    kernels::Buffer<double> sums;
    double* out = sums.grow(edges);
    {
        nb::gil_scoped_release released;
#pragma omp parallel for num_threads(kernels::workers(edges, threads)) schedule(dynamic, 4096)
        for (int64_t row = 0; row < rows; ++row) {
            double total = 0;
            for (int64_t e = starts[row]; e < starts[row + 1]; ++e) out[e] = total = (e == starts[row] ? 0 : total) + values[e];
        }
    }
    return to_numpy(sums);
}

template <class T>
nb::tuple add_self_loops(In<T> indptr, In<T> indices, int64_t columns, Maybe<double> scale, std::optional<Array> weights,
                         Maybe<int64_t> positions, int threads) {
    kernels::LayerEdges<T> edges{indptr.data(), indices.data(), int64_t(indptr.size()) - 1, columns, pointer(scale), {}, 0,
                                 pointer(positions)};
    if (weights)
        edges.edge_weights = numbers<float, double>(*weights, "edge_weights"), edges.weights = int64_t(weights->size());
    kernels::Buffer<T> bounds, sources;
    kernels::Buffer<float> weight;
    const int64_t nnz = int64_t(indices.size()) + edges.rows;
    bounds.grow(edges.rows + 1), sources.grow(nnz), weight.grow(scale ? nnz : 0);
    {
        nb::gil_scoped_release released;
        kernels::add_self_loops(edges, bounds.data(), sources.data(), weight.data(), threads);
    }
    nb::object values = scale ? to_numpy(weight) : nb::none();
    return nb::make_tuple(to_numpy(bounds), to_numpy(sources), values);
}

template <class T, class V>
nb::tuple first_of_rows(In<T> indptr, In<V> values, int64_t most, int threads) {
    const kernels::Prefixes<T> prefixes{indptr.data(), int64_t(indptr.size()) - 1, most};
    kernels::Buffer<T> starts;
    kernels::Buffer<V> kept;
    T* bounds = starts.grow(prefixes.rows + 1);
    {
        nb::gil_scoped_release released;
        prefixes.take(values.data(), bounds, kept.grow(prefixes.write_starts(bounds)), threads);
    }
    return nb::make_tuple(to_numpy(starts), to_numpy(kept));
}

template <class T>
void define_layers(nb::module_& m) {
    m.def("first_of_rows", &first_of_rows<T, int32_t>, "indptr"_a, "values"_a, "most"_a, "threads"_a);
    m.def("first_of_rows", &first_of_rows<T, int64_t>, "indptr"_a, "values"_a, "most"_a, "threads"_a);
    m.def("add_self_loops", &add_self_loops<T>, "indptr"_a, "indices"_a, "columns"_a, "scale"_a.none(),
          "edge_weights"_a.none(), "positions"_a.none(), "threads"_a);
}

}  // namespace

void define_neighbourhood(nb::module_& m) {
    m.def("khop", &khop, "indptr"_a, "indices"_a, "ids"_a.none(), "weight"_a.none(), "sums"_a.none(), "targets"_a,
          "reaches"_a, "key"_a, "apart"_a, "sampler"_a, "replacement"_a, "threads"_a);
    m.def("sample", &sample, "indptr"_a, "indices"_a, "ids"_a.none(), "weight"_a.none(), "sums"_a.none(), "nodes"_a,
          "fanout"_a.none(), "keys"_a.none(), "key"_a, "node_ids"_a.none(), "sampler"_a, "replacement"_a,
          "threads"_a);
    m.def("keyed", [](uint64_t key, int64_t id) { return kernels::keyed(key, id); });
    define_layers<int32_t>(m);
    define_layers<int64_t>(m);
    m.def("weight_sums", &weight_sums, "indptr"_a, "weight"_a, "threads"_a);
    m.def("shuffle", [](int64_t degree, int64_t count, uint64_t key) {
        kernels::Buffer<int64_t> places;
        kernels::Shuffle().take(degree, count, key, 0, places.grow(count));
        return to_numpy(places);
    });
    m.def("logarithm", [](double value) { return kernels::logarithm(value); });
}
