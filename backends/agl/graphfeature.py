"""GraphFeatures (AGL, section 3.2): many targets with their neighbourhoods as arrays, and as protobuf strings.

``graphfeature.proto`` is the schema; ``encode`` and ``decode`` speak its wire format for a batch of records at once.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl.records import Records
from backends.agl.wire import (
    LENGTH_DELIMITED,
    VARINT,
    Bounds,
    CorruptRecord,
    Fields,
    Pieces,
    Slices,
    differences,
    fields_of,
    headers,
    interleave,
    read_varints,
    scalars,
    sums,
    unzigzag,
    varints,
    zigzag,
)

SCHEMA = Path(__file__).with_name("graphfeature.proto")
FIELDS = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+);", SCHEMA.read_text())}
SIGNED = ("nodes", "edges", "label")


def encode(records: Records) -> Pieces:
    """Serialise records, one protobuf string each; the same content gives the same bytes everywhere."""
    nodes, edges, count = records.node_bounds, records.edge_bounds, len(records)
    columns = {
        "nodes": varints(zigzag(differences(records.ids, nodes)), nodes),
        "nodes_at": _nodes_at(records),
        "in_edges": varints(records.in_edges, nodes),
        "sources": varints(records.sources, edges),
        "ranks": varints(records.ranks, edges),
        "edges": varints(zigzag(differences(records.edge_ids, edges)), edges),
        "degrees": varints(records.degrees, nodes),
        "weighted_degrees": _raw(records.weighted_degrees, nodes),
        "features": _raw(records.features, nodes),
        "edge_weights": _raw(records.edge_weights, edges),
        "edge_features": _raw(records.edge_features, edges),
        "label": varints(zigzag(records.labels.ravel()), np.arange(count + 1) * records.labels.shape[1]),
    }
    parts = [part for name, held in columns.items() if held for part in (headers(FIELDS[name], held), held)]
    return interleave([*parts, scalars(FIELDS["split"], records.split)])


def _nodes_at(records: Records) -> Pieces:
    count, span = len(records), records.hops + 1
    owner = np.repeat(np.arange(count), np.diff(records.node_bounds))
    held = np.bincount(owner * span + records.distance, minlength=count * span)
    return varints(held, np.arange(count + 1) * span)


def _raw(values: NDArray[np.floating] | None, bounds: Bounds) -> Pieces | None:
    if values is None:
        return None
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    wide = little.itemsize * int(np.prod(values.shape[1:]))
    return Pieces(little.view(np.uint8).reshape(-1), bounds * wide)


def decode(strings: Slices | Sequence[bytes | memoryview]) -> Records:
    """Read protobuf strings back; raises CorruptRecord naming the record that is none."""
    found = fields_of(strings if isinstance(strings, Slices) else Slices.of(strings), max(FIELDS.values()))
    _complete(found)
    return _assemble(found)


def _complete(found: Fields) -> None:
    """Refuse records without what every record has, or with a number where bytes belong."""
    for name, number in FIELDS.items():
        kinds = found.kinds[number]
        wrong = (kinds >= 0) & (kinds != (VARINT if name == "split" else LENGTH_DELIMITED))
        if wrong.any():
            raise CorruptRecord(f"field {name} has the wrong wire type", int(wrong.argmax()))
    for name in ("nodes", "nodes_at", "in_edges", "degrees"):
        absent = found.kinds[FIELDS[name]] < 0
        if absent.any():
            raise CorruptRecord(f"field {name} is missing", int(absent.argmax()))


def _assemble(found: Fields) -> Records:
    numbers = {
        name: _numbers(found, name)
        for name in ("nodes", "nodes_at", "in_edges", "sources", "ranks", "edges", "degrees", "label")
    }
    nodes, edges = numbers["nodes"][1], numbers["edges"][1]
    spans, width = np.diff(numbers["nodes_at"][1]), np.diff(numbers["label"][1])
    distance = np.arange(numbers["nodes_at"][1][-1]) - np.repeat(numbers["nodes_at"][1][:-1], spans)
    _agree(numbers, spans, width)
    return Records(
        hops=int(spans.max(initial=1)) - 1,
        node_bounds=nodes,
        edge_bounds=edges,
        ids=sums(numbers["nodes"][0], nodes),
        distance=np.repeat(distance, numbers["nodes_at"][0]),
        **{name: numbers[name][0] for name in ("in_edges", "sources", "ranks", "degrees")},
        edge_ids=sums(numbers["edges"][0], edges),
        labels=numbers["label"][0].reshape(len(width), int(width.max(initial=0))),
        split=found.numbers[FIELDS["split"]],
        weighted_degrees=_floats(found, "weighted_degrees", nodes, np.float64),
        features=_floats(found, "features", nodes, np.float32, wide=True),
        edge_weights=_floats(found, "edge_weights", edges, np.float32),
        edge_features=_floats(found, "edge_features", edges, np.float32, wide=True),
    )


def _numbers(found: Fields, name: str) -> tuple[NDArray[np.int64], Bounds]:
    values, bounds = read_varints(found.pieces(FIELDS[name]))
    return (unzigzag(values) if name in SIGNED else values.astype(np.int64)), bounds


def _agree(numbers: dict[str, tuple[NDArray[np.int64], Bounds]], spans: Bounds, width: Bounds) -> None:
    """Refuse records whose fields contradict each other."""
    nodes, edges = np.diff(numbers["nodes"][1]), np.diff(numbers["edges"][1])
    total = _per_record(*numbers["in_edges"])
    checks = {
        "as many in_edges as nodes": np.diff(numbers["in_edges"][1]) != nodes,
        "as many degrees as nodes": np.diff(numbers["degrees"][1]) != nodes,
        "as many nodes at all distances as nodes": _per_record(*numbers["nodes_at"]) != nodes,
        "as many sources as edges": np.diff(numbers["sources"][1]) != edges,
        "as many ranks as edges": np.diff(numbers["ranks"][1]) != edges,
        "as many edges as in_edges say": total != edges,
        "as many labels as the others": width != width.max(initial=0),
        "as many hops as the others": spans != spans.max(initial=0),
    }
    for wanted, wrong in checks.items():
        if wrong.any():
            raise CorruptRecord(f"it has not {wanted}", int(wrong.argmax()))
    far = np.flatnonzero(numbers["sources"][0].view(np.uint64) >= np.repeat(nodes, edges).view(np.uint64))
    if len(far):
        record = int(np.searchsorted(numbers["edges"][1], far[0], side="right")) - 1
        raise CorruptRecord("an edge starts at a node that its record does not hold", record)


def _per_record(values: NDArray[np.int64], bounds: Bounds) -> NDArray[np.int64]:
    running = np.concatenate(([0], np.cumsum(values)))
    return running[bounds[1:]] - running[bounds[:-1]]


def _floats(found: Fields, name: str, bounds: Bounds, dtype: Any, wide: bool = False) -> Any:
    """Numbers per node or edge, [count] or, where ``wide``, [count, width]; ``None`` where no record has any."""
    pieces, item = found.pieces(FIELDS[name]), np.dtype(dtype).itemsize
    if not len(pieces.data):
        return None
    counts = np.diff(bounds)
    width = max(1, len(pieces.data) // (item * max(int(counts.sum()), 1)))
    wrong = pieces.sizes != counts * item * width
    if wrong.any() or (width > 1 and not wide):
        raise CorruptRecord(f"{name} has not {width} numbers of {item} bytes for each", int(wrong.argmax()))
    values = pieces.data.view(np.dtype(dtype).newbyteorder("<")).astype(dtype, copy=False)
    return values.reshape(-1, width) if wide else values
