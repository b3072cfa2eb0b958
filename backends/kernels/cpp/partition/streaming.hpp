// Partitions in one pass over the nodes, or several: LDG (Stanton and Kliot 2012) and Fennel (Tsourakakis et al. 2014).
#pragma once
#include <cmath>

#include "partition/node_heap.hpp"
#include "partition/weighted_graph.hpp"

namespace kernels {

// What a node gains in a part of some load: neighbours there, less for a fuller part. `slope` 0 is LDG's factor,
// above 0 Fennel's price of a node, slope * 1.5 * sqrt(load).
inline double attraction(double neighbours, double load, double bound, double slope) {
    return slope == 0.0 ? neighbours * (1.0 - load / bound) : neighbours - slope * 1.5 * std::sqrt(load);
}

// Where one node goes: of the parts that it fits in the one that attracts it most, of equal ones the lightest, then the
// first.
struct Attraction {
    const Loads& load;
    const int64_t* weights;
    const int64_t* bounds;
    double slope;
    int64_t chosen = -1;
    double most = 0;

    void consider(int64_t part, int64_t neighbours) {
        if (!load.fits(part, weights, bounds)) return;
        const int64_t here = load.of(part)[0], there = chosen < 0 ? 0 : load.of(chosen)[0];
        const double value = attraction(double(neighbours), double(here), double(bounds[0]), slope);
        const bool lighter = value == most && (here < there || (here == there && part < chosen));
        if (chosen < 0 || value > most || lighter) chosen = part, most = value;
    }
};

// Give nodes, in the order of their numbers, to the part that attracts them most, of those they fit in. Only parts with
// neighbours and the lightest one are looked at: it attracts a node most of those without. `passes` above 1 give the
// nodes again. `parts` [nodes] starts with -1; by the first constraint.
inline void stream(const WeightedGraph& graph, const int64_t* bounds, int64_t count, double slope, int passes,
                   int32_t* parts, int64_t* loads) {
    const Loads load{loads, graph.constraints};
    std::fill_n(loads, count * graph.constraints, 0);
    std::fill_n(parts, graph.nodes, -1);
    NodeHeap lightest(count);
    for (int64_t part = 0; part < count; ++part) lightest.set(int32_t(part), 0);
    const auto change = [&](int32_t part, const int64_t* weights, int64_t sign) {
        load.add(part, weights, sign);
        lightest.set(part, -load.of(part)[0]);
    };
    LabelSums sums;
    for (int pass = 0; pass < passes; ++pass)
        for (int64_t node = 0; node < graph.nodes; ++node) {
            const int64_t* weights = graph.weights_of(node);
            if (parts[node] >= 0) change(parts[node], weights, -1);
            sums.reset(std::min(graph.degree(node), count), count);
            for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
                if (const int32_t part = parts[graph.neighbours[edge]]; part >= 0) sums.add(part, graph.weight(edge));
            Attraction best{load, weights, bounds, slope};
            for (int64_t i = 0; i < sums.count(); ++i) best.consider(sums.label(i), sums.sum(i));
            best.consider(lightest.top(), 0);
            if (graph.constraints > 1 && !load.fits(lightest.top(), weights, bounds))  // full in another load
                for (int64_t part = 0; part < count; ++part) best.consider(part, 0);
            parts[node] = best.chosen < 0 ? lightest.top() : int32_t(best.chosen);
            change(parts[node], weights, 1);
        }
}

}  // namespace kernels
