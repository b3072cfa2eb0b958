"""The JSON that describes a partition, as ``dgl.distributed.load_partition`` reads it."""

import json
import re
from pathlib import Path
from typing import Any

from backends.distpart.dispatch.buckets import EdgeBuckets
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.dispatch.part import EDGE_FEATURES, GRAPH, NODE_FEATURES
from backends.distpart.typed_graph import GraphError, TypedGraph
from datasets.files import write_atomic

_NAME = re.compile(r"[A-Za-z0-9_]{1,200}")  # file names have at most 255 bytes


def check_name(name: str) -> str:
    """Return a graph's name; raises GraphError for one that cannot name DGL's files and servers."""
    if not _NAME.fullmatch(name):
        raise GraphError(
            f"graph name {name!r} is not allowed in DGL: name it by up to 200 letters, digits and underscores (--name)"
        )
    return name


def check_counts(config: Path, facts: dict[str, Any]) -> None:
    """Raise GraphError where the JSON of a partition counts parts or hops by something else than a whole number."""
    for name in ("num_parts", "halo_hops"):
        if type(facts.get(name, 1)) is not int or facts.get(name, 1) < 1:
            raise GraphError(f"{config} says {name}={facts[name]}: a whole number from 1 on is needed")


def part_folder(number: int) -> str:
    """Name of a part's folder."""
    return f"part{number}"


def write_metadata(
    folder: Path, name: str, graph: TypedGraph, numbering: Numbering, buckets: EdgeBuckets, method: str, hops: int
) -> Path:
    """Write ``<name>.json`` into the folder of the parts; it is written last: a partition that has it is whole."""
    facts: dict[str, Any] = {
        "graph_name": check_name(name),
        "num_nodes": graph.total_nodes,
        "num_edges": graph.total_edges,
        "part_method": method,
        "num_parts": numbering.count,
        "halo_hops": hops,
        "node_map": _ranges(graph.schema.node_types, numbering.bounds),
        "edge_map": _ranges(graph.schema.relations, buckets.bounds),
        "ntypes": {kind: number for number, kind in enumerate(graph.schema.node_types)},
        "etypes": {str(relation): number for number, relation in enumerate(graph.schema.relations)},
    }
    for part in range(numbering.count):
        files = {"node_feats": NODE_FEATURES, "edge_feats": EDGE_FEATURES, "part_graph": GRAPH}
        facts[f"part-{part}"] = {role: f"{part_folder(part)}/{file}" for role, file in files.items()}
    path = folder / f"{name}.json"
    write_atomic({path: json.dumps(facts, indent=1)})
    return path


def _ranges(kinds: Any, bounds: Any) -> dict[str, list[list[int]]]:
    """First and last new id of each type in each part."""
    return {
        str(kind): [[int(row[number]), int(row[number + 1])] for row in bounds] for number, kind in enumerate(kinds)
    }
