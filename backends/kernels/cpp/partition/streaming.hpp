// Partitions in one pass over the nodes, or several: LDG (Stanton and Kliot 2012) and Fennel (Tsourakakis et al. 2014).
#pragma once
#include <cmath>

#include "partition/weighted_graph.hpp"

namespace kernels {

// What a node gains in a part of some load: neighbours there, less for a fuller part. `slope` 0 is LDG's factor,
// above 0 Fennel's price of a node, slope * 1.5 * sqrt(load).
inline double attraction(double neighbours, double load, double bound, double slope) {
    return slope == 0.0 ? neighbours * (1.0 - load / bound) : neighbours - slope * 1.5 * std::sqrt(load);
}

// Give nodes, in the order of their numbers, to the part that attracts them most, of those they fit in; of equal ones
// the lightest. `passes` above 1 give them again. `parts` [nodes] starts with -1; by the first constraint.
inline void stream(const WeightedGraph& graph, const int64_t* bounds, int64_t count, double slope, int passes,
                   int32_t* parts, int64_t* loads) {
    const Loads load{loads, graph.constraints};
    std::fill_n(loads, count * graph.constraints, 0);
    std::fill_n(parts, graph.nodes, -1);
    std::vector<int64_t> neighbours(count);
    for (int pass = 0; pass < passes; ++pass)
        for (int64_t node = 0; node < graph.nodes; ++node) {
            const int64_t* weights = graph.weights_of(node);
            if (parts[node] >= 0) load.add(parts[node], weights, -1);
            std::fill(neighbours.begin(), neighbours.end(), 0);
            for (int64_t edge = graph.starts[node]; edge < graph.starts[node + 1]; ++edge)
                if (const int32_t part = parts[graph.neighbours[edge]]; part >= 0)
                    neighbours[part] += graph.weight(edge);
            int64_t chosen = -1, lightest = 0;
            double most = 0;
            for (int64_t part = 0; part < count; ++part) {
                if (load.of(part)[0] < load.of(lightest)[0]) lightest = part;
                if (!load.fits(part, weights, bounds)) continue;
                const double here =
                    attraction(double(neighbours[part]), double(load.of(part)[0]), double(bounds[0]), slope);
                const bool lighter = chosen >= 0 && load.of(part)[0] < load.of(chosen)[0];
                if (chosen < 0 || here > most || (here == most && lighter)) chosen = part, most = here;
            }
            parts[node] = int32_t(chosen < 0 ? lightest : chosen);
            load.add(parts[node], weights, 1);
        }
}

}  // namespace kernels
