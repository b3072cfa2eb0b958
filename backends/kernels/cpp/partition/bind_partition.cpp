#include "common/bindings.hpp"
#include "partition/bisection.hpp"
#include "partition/clustering.hpp"
#include "partition/contraction.hpp"
#include "partition/sparsification.hpp"
#include "partition/streaming.hpp"
#include "partition/symmetric.hpp"

namespace {

using kernels::WeightedGraph;

WeightedGraph graph_of(const In<int64_t>& starts, const In<int32_t>& neighbours, const Maybe<int64_t>& edge_weights,
                       const In<int64_t>& node_weights) {
    return {starts.data(), neighbours.data(), pointer(edge_weights), node_weights.data(),
            int64_t(starts.shape(0)) - 1, int64_t(node_weights.shape(1))};
}

void count_ends(In<int32_t> sources, In<int32_t> destinations, Out<int64_t> degrees, int threads) {
    nb::gil_scoped_release released;
    kernels::count_ends(sources.data(), destinations.data(), int64_t(sources.shape(0)), degrees.data(), threads);
}

void scatter_ends(In<int32_t> sources, In<int32_t> destinations, int32_t first, int32_t last, Out<int64_t> next,
                  Out<int32_t> out, int threads) {
    nb::gil_scoped_release released;
    kernels::scatter_ends(sources.data(), destinations.data(), int64_t(sources.shape(0)), first, last, next.data(),
                          out.data(), threads);
}

int64_t sort_rows(In<int64_t> starts, Out<int32_t> values, Out<int64_t> lengths, int threads) {
    nb::gil_scoped_release released;
    return kernels::sort_rows(starts.data(), int64_t(starts.shape(0)) - 1, values.data(), lengths.data(), threads);
}

template <class I>
int64_t symmetrize(In<I> indptr, In<I> indices, Out<int64_t> starts, Out<int32_t> values,
                   std::optional<Out<uint8_t>> directions, Out<int64_t> lengths, int threads) {
    const auto matrix = view(indptr, indices);
    nb::gil_scoped_release released;
    return kernels::symmetrize(matrix, starts.data(), values.data(), directions ? directions->data() : nullptr,
                               lengths.data(), threads);
}

void cluster(In<int64_t> starts, In<int32_t> neighbours, Maybe<int64_t> edge_weights, In<int64_t> node_weights,
             In<int64_t> bounds, Maybe<int32_t> parts, int rounds, uint64_t key, Out<int32_t> labels,
             Out<int64_t> loads, int threads) {
    nb::gil_scoped_release released;
    kernels::cluster(graph_of(starts, neighbours, edge_weights, node_weights), bounds.data(), pointer(parts), rounds,
                     key, threads, labels.data(), loads.data());
}

int64_t renumber(Out<int32_t> labels) {
    nb::gil_scoped_release released;
    return kernels::renumber(labels.data(), int64_t(labels.shape(0)));
}

void clusters_of(In<int64_t> starts, In<int32_t> neighbours, Maybe<int64_t> edge_weights, In<int64_t> node_weights,
                 In<int32_t> labels, Out<int64_t> first, Out<int32_t> members, Out<int64_t> capacity,
                 Out<int64_t> loads) {
    nb::gil_scoped_release released;
    kernels::clusters_of(graph_of(starts, neighbours, edge_weights, node_weights), labels.data(),
                         int64_t(first.shape(0)) - 1, first.data(), members.data(), capacity.data(), loads.data());
}

int64_t contract_rows(In<int64_t> starts, In<int32_t> neighbours, Maybe<int64_t> edge_weights,
                      In<int64_t> node_weights, In<int32_t> labels, In<int64_t> first, In<int32_t> members,
                      In<int64_t> capacity, int64_t begin, int64_t end, Out<int64_t> lengths, Out<int32_t> out,
                      Out<int64_t> weights, int threads) {
    nb::gil_scoped_release released;
    const int64_t clusters = int64_t(first.shape(0)) - 1;
    return kernels::contract_rows(graph_of(starts, neighbours, edge_weights, node_weights), labels.data(), clusters,
                                  first.data(), members.data(), capacity.data(), begin, end, threads, lengths.data(),
                                  out.data(), weights.data());
}

void refine(In<int64_t> starts, In<int32_t> neighbours, Maybe<int64_t> edge_weights, In<int64_t> node_weights,
            Maybe<uint8_t> directions, In<int64_t> bounds, bool volume, Out<int32_t> parts, Out<int64_t> loads,
            int threads) {
    std::vector<int64_t> each;  // the bounds of each part
    for (size_t part = 0; part < loads.shape(0); ++part)
        each.insert(each.end(), bounds.data(), bounds.data() + bounds.shape(0));
    WeightedGraph graph = graph_of(starts, neighbours, edge_weights, node_weights);
    graph.directions = pointer(directions);
    nb::gil_scoped_release released;
    kernels::refine(graph, each.data(), int64_t(loads.shape(0)), volume, threads, parts.data(), loads.data());
}

int64_t cut_of(In<int64_t> starts, In<int32_t> neighbours, Maybe<int64_t> edge_weights, In<int64_t> node_weights,
               In<int32_t> parts, int threads) {
    nb::gil_scoped_release released;
    return kernels::cut_of(graph_of(starts, neighbours, edge_weights, node_weights), parts.data(), threads);
}

void bisect(In<int64_t> starts, In<int32_t> neighbours, Maybe<int64_t> edge_weights, In<int64_t> node_weights,
            In<int64_t> bounds, int count, uint64_t key, int tries, Out<int32_t> parts, int threads) {
    nb::gil_scoped_release released;
    kernels::bisect(graph_of(starts, neighbours, edge_weights, node_weights), bounds.data(), 0, count, key, tries,
                    threads, parts.data());
}

void mark_heaviest(In<int64_t> starts, In<int32_t> neighbours, Maybe<int64_t> edge_weights, In<int64_t> node_weights,
                   int64_t most, Out<uint8_t> marks, int threads) {
    nb::gil_scoped_release released;
    kernels::mark_heaviest(graph_of(starts, neighbours, edge_weights, node_weights), most, threads, marks.data());
}

void stream(In<int64_t> starts, In<int32_t> neighbours, Maybe<int64_t> edge_weights, In<int64_t> node_weights,
            In<int64_t> bounds, double slope, int passes, Out<int32_t> parts, Out<int64_t> loads) {
    nb::gil_scoped_release released;
    kernels::stream(graph_of(starts, neighbours, edge_weights, node_weights), bounds.data(), int64_t(loads.shape(0)),
                    slope, passes, parts.data(), loads.data());
}

template <class I>
void define_symmetrize(nb::module_& m) {
    m.def("symmetrize", &symmetrize<I>, "indptr"_a, "indices"_a, "starts"_a, "values"_a,
          "directions"_a.none(), "lengths"_a, "threads"_a);
}

}  // namespace

void define_partition(nb::module_& m) {
    m.def("count_ends", &count_ends, "sources"_a, "destinations"_a, "degrees"_a, "threads"_a);
    m.def("scatter_ends", &scatter_ends, "sources"_a, "destinations"_a, "first"_a, "last"_a, "next"_a, "out"_a,
          "threads"_a);
    m.def("sort_rows", &sort_rows, "starts"_a, "values"_a, "lengths"_a, "threads"_a);
    define_symmetrize<int32_t>(m);
    define_symmetrize<int64_t>(m);
    m.def("cluster", &cluster, "starts"_a, "neighbours"_a, "edge_weights"_a.none(), "node_weights"_a, "bounds"_a,
          "parts"_a.none(), "rounds"_a, "key"_a, "labels"_a, "loads"_a, "threads"_a);
    m.def("renumber", &renumber, "labels"_a);
    m.def("clusters_of", &clusters_of, "starts"_a, "neighbours"_a, "edge_weights"_a.none(), "node_weights"_a,
          "labels"_a, "first"_a, "members"_a, "capacity"_a, "loads"_a);
    m.def("contract_rows", &contract_rows, "starts"_a, "neighbours"_a, "edge_weights"_a.none(), "node_weights"_a,
          "labels"_a, "first"_a, "members"_a, "capacity"_a, "begin"_a, "end"_a, "lengths"_a, "out"_a, "weights"_a,
          "threads"_a);
    m.def("refine", &refine, "starts"_a, "neighbours"_a, "edge_weights"_a.none(), "node_weights"_a,
          "directions"_a.none(), "bounds"_a, "volume"_a, "parts"_a, "loads"_a, "threads"_a);
    m.def("cut_of", &cut_of, "starts"_a, "neighbours"_a, "edge_weights"_a.none(), "node_weights"_a, "parts"_a,
          "threads"_a);
    m.def("bisect", &bisect, "starts"_a, "neighbours"_a, "edge_weights"_a.none(), "node_weights"_a, "bounds"_a,
          "count"_a, "key"_a, "tries"_a, "parts"_a, "threads"_a);
    m.def("mark_heaviest", &mark_heaviest, "starts"_a, "neighbours"_a, "edge_weights"_a.none(), "node_weights"_a,
          "most"_a, "marks"_a, "threads"_a);
    m.def("stream", &stream, "starts"_a, "neighbours"_a, "edge_weights"_a.none(), "node_weights"_a, "bounds"_a,
          "slope"_a, "passes"_a, "parts"_a, "loads"_a);
}
