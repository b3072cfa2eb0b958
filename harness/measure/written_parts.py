"""Parts on disk compared with the graph they come from, whoever wrote them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.contract import Nodes, WrittenParts
from datasets.features import SparseFeatures
from datasets.graph import Graph
from datasets.partition.description import node_attributes
from datasets.partition.dgl_format import StoredGraph, read_graph, read_tensors


def parts_of(written: WrittenParts) -> Nodes:
    """The part of each node of the graph, int64 [nodes], from the ranges in the JSON."""
    starts = np.array([start for start, _ in _ranges(_facts(written), "node_map")])
    parts = np.empty(len(written.nodes), dtype=np.int64)
    parts[written.nodes] = np.searchsorted(starts, np.arange(len(written.nodes)), side="right") - 1
    return parts


def wrong_maps(graph: Graph, written: WrittenParts) -> str:
    """Return a sentence on a map that is not one to one, empty if that of nodes and that of edges are."""
    for name, ids, known in (("nodes", written.nodes, np.arange(graph.nodes)), ("edges", written.edges, graph.csr.ids)):
        if not _same_ids(ids, known):
            return f"the map of {name} is not one to one"
    return ""


def _same_ids(ids: NDArray[np.integer], known: NDArray[np.integer]) -> bool:
    """Whether ids are the known ones, which are distinct, in any order; linear, as there may be 10^9 of them."""
    if ids.shape != known.shape:
        return False
    absent = np.zeros(int(known.max(initial=-1)) + 1, dtype=bool)
    if len(ids) and not 0 <= ids.min() <= ids.max() < len(absent):
        return False
    absent[known] = True
    absent[ids] = False
    return not absent.any()


def broken_parts(graph: Graph, written: WrittenParts, *, only_sources: bool) -> str:
    """Return a sentence on the first thing that is wrong with parts of a graph without types, empty if nothing is.

    Every node is owned by one part and every edge inner in that of its destination; ranges of new ids are contiguous;
    the maps are one to one; HALO nodes hold all sources, with ``only_sources`` nothing else; features, labels and masks
    are the graph's.
    """
    facts, attributes = _facts(written), node_attributes(graph, slice(0, graph.nodes))
    if wrong := wrong_maps(graph, written):
        return wrong
    node_ranges, edge_ranges = _ranges(facts, "node_map"), _ranges(facts, "edge_map")
    for what, ranges, count in (("node", node_ranges, graph.nodes), ("edge", edge_ranges, graph.csr.nnz)):
        bounds = [0, *(end for _, end in ranges)]
        if bounds[-1] != count or any(start != end for (start, _), end in zip(ranges, bounds, strict=False)):
            return f"the ranges of {what} ids are not contiguous"
    order = np.argsort(graph.csr.ids, kind="stable")
    positions = order[np.searchsorted(graph.csr.ids, written.edges, sorter=order)]
    for part in range(facts["num_parts"]):
        files = facts[f"part-{part}"]
        stored = read_graph(written.config.parent / files["part_graph"])
        wrong = _broken_graph(graph, written, positions, stored, node_ranges[part], edge_ranges[part], only_sources)
        own, path = written.nodes[slice(*node_ranges[part])], written.config.parent / files["node_feats"]
        wrong = wrong or _broken_attributes(attributes, own, path)
        if wrong:
            return f"part {part}: {wrong}"
    return ""


def _broken_graph(
    graph: Graph,
    written: WrittenParts,
    positions: NDArray[np.int64],
    stored: StoredGraph,
    nodes: tuple[int, int],
    edges: tuple[int, int],
    only_sources: bool,
) -> str:
    damage = stored.damage()
    if damage:
        return damage
    ids, inner = stored.ndata["_ID"], stored.ndata["inner_node"].astype(bool)
    if not np.array_equal(np.sort(ids[inner]), np.arange(*nodes)):
        return "its owned nodes are not those of its range"
    if len(ids) and (ids.min() < 0 or ids.max() >= graph.nodes):
        return f"a HALO node is none of the {graph.nodes} nodes"
    inner_edge = stored.edata["inner_edge"].astype(bool)
    numbers = stored.edata["_ID"][inner_edge]
    if not np.array_equal(np.sort(numbers), np.arange(*edges)):
        return "its edges are not those of its range"
    sources, destinations = (ids[ends[inner_edge]] for ends in (stored.sources, stored.destinations))
    at = positions[numbers]
    expected = graph.csr.indices[at], graph.csr.destinations[at]
    if not all(
        np.array_equal(written.nodes[own], other) for own, other in zip((sources, destinations), expected, strict=True)
    ):
        return "an edge has other ends than in the graph"
    if ((destinations < nodes[0]) | (destinations >= nodes[1])).any():
        return "an edge's destination is owned by another part"
    halo, needed = np.sort(ids[~inner]), np.unique(sources[(sources < nodes[0]) | (sources >= nodes[1])])
    if only_sources and not np.array_equal(halo, needed):
        return "its HALO nodes are not the sources that others own"
    return "" if np.isin(needed, halo).all() else "a source is no HALO node"


def _broken_attributes(attributes: dict[str, Any], own: Nodes, path: Path) -> str:
    stored = read_tensors(path)
    for name, array in attributes.items():
        rows = array[own]
        rows = rows.dense() if isinstance(rows, SparseFeatures) else rows
        if f"_N/{name}" not in stored or not np.array_equal(stored[f"_N/{name}"], rows):
            return f"the rows of {name} are not those of its nodes"
    return ""


def _facts(written: WrittenParts) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(written.config.read_text(encoding="utf-8"))
    return facts


def _ranges(facts: dict[str, Any], name: str) -> list[tuple[int, int]]:
    return [(int(start), int(end)) for start, end in next(iter(facts[name].values()))]
