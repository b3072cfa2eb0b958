#include "common/bindings.hpp"
#include "partition/clustering.hpp"
#include "partition/contraction.hpp"
#include "partition/hill_climbing.hpp"
#include "partition/streaming.hpp"
#include "partition/symmetric.hpp"

namespace {

using kernels::WeightedGraph;

WeightedGraph graph_of(const In<int64_t>& starts, const In<int32_t>& neighbours, const Maybe<int64_t>& edge_weights,
                       const In<int64_t>& node_weights) {
    return {starts.data(), neighbours.data(), pointer(edge_weights), node_weights.data(),
            int64_t(starts.shape(0)) - 1, int64_t(node_weights.shape(1))};
}

template <class I>
nb::tuple symmetric(In<I> indptr, In<I> indices, In<I> transposed_indptr, In<I> transposed_indices, int threads) {
    kernels::Undirected graph = [&] {
        nb::gil_scoped_release released;
        return kernels::symmetric(view(indptr, indices), view(transposed_indptr, transposed_indices), threads);
    }();
    return nb::make_tuple(to_numpy(graph.starts), to_numpy(graph.neighbours));
}

void cluster(In<int64_t> starts, In<int32_t> neighbours, Maybe<int64_t> edge_weights, In<int64_t> node_weights,
             In<int64_t> bounds, Maybe<int32_t> parts, int rounds, uint64_t key, Out<int32_t> labels,
             Out<int64_t> loads, int threads) {
    nb::gil_scoped_release released;
    kernels::cluster(graph_of(starts, neighbours, edge_weights, node_weights), bounds.data(), pointer(parts), rounds,
                     key, threads, labels.data(), loads.data());
}

// Number the labels and contract their clusters: starts, neighbours, weights of edges and of nodes (flat).
nb::tuple contract(In<int64_t> starts, In<int32_t> neighbours, Maybe<int64_t> edge_weights, In<int64_t> node_weights,
                   Out<int32_t> labels, int threads) {
    kernels::Contracted out = [&] {
        nb::gil_scoped_release released;
        const WeightedGraph graph = graph_of(starts, neighbours, edge_weights, node_weights);
        return kernels::contract(graph, labels.data(), kernels::renumber(labels.data(), graph.nodes), threads);
    }();
    return nb::make_tuple(to_numpy(out.starts), to_numpy(out.neighbours), to_numpy(out.edge_weights),
                          to_numpy(out.node_weights));
}

void refine(In<int64_t> starts, In<int32_t> neighbours, Maybe<int64_t> edge_weights, In<int64_t> node_weights,
            In<int64_t> bounds, int rounds, int climbs, uint64_t key, Out<int32_t> parts, Out<int64_t> loads,
            int threads) {
    nb::gil_scoped_release released;
    kernels::refine(graph_of(starts, neighbours, edge_weights, node_weights), bounds.data(), int64_t(loads.shape(0)),
                    rounds, climbs, key, threads, parts.data(), loads.data());
}

void stream(In<int64_t> starts, In<int32_t> neighbours, Maybe<int64_t> edge_weights, In<int64_t> node_weights,
            In<int64_t> bounds, double slope, int passes, Out<int32_t> parts, Out<int64_t> loads) {
    nb::gil_scoped_release released;
    kernels::stream(graph_of(starts, neighbours, edge_weights, node_weights), bounds.data(), int64_t(loads.shape(0)),
                    slope, passes, parts.data(), loads.data());
}

}  // namespace

void define_partition(nb::module_& m) {
    m.def("symmetric", &symmetric<int32_t>, "indptr"_a, "indices"_a, "transposed_indptr"_a, "transposed_indices"_a,
          "threads"_a);
    m.def("symmetric", &symmetric<int64_t>, "indptr"_a, "indices"_a, "transposed_indptr"_a, "transposed_indices"_a,
          "threads"_a);
    m.def("cluster", &cluster, "starts"_a, "neighbours"_a, "edge_weights"_a.none(), "node_weights"_a, "bounds"_a,
          "parts"_a.none(), "rounds"_a, "key"_a, "labels"_a, "loads"_a, "threads"_a);
    m.def("contract", &contract, "starts"_a, "neighbours"_a, "edge_weights"_a.none(), "node_weights"_a, "labels"_a,
          "threads"_a);
    m.def("refine", &refine, "starts"_a, "neighbours"_a, "edge_weights"_a.none(), "node_weights"_a, "bounds"_a,
          "rounds"_a, "climbs"_a, "key"_a, "parts"_a, "loads"_a, "threads"_a);
    m.def("stream", &stream, "starts"_a, "neighbours"_a, "edge_weights"_a.none(), "node_weights"_a, "bounds"_a,
          "slope"_a, "passes"_a, "parts"_a, "loads"_a);
}
