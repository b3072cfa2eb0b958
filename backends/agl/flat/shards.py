"""GraphFlat's Store stage (AGL, section 3.2.1): neighbourhoods sorted, joined with columns, encoded, written.

A shard is a Parquet file with one row per target (section 3.2.2, the triple of id, label and GraphFeature).
"""

from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from backends.agl.flat.rounds import Ints, RequestedEdges
from backends.agl.flat.source import Source
from backends.agl.graphfeature import Records, encode, feature_bytes
from backends.kernels.sampling import distinct
from backends.kernels.wire import Pieces
from backends.places import get_files, holds
from backends.progress import gibibytes
from datasets.array_files import create_array, save_array
from datasets.features import Features, SparseFeatures
from datasets.graph import NO_SPLIT, SPLITS, Graph

NODES_AT_ONCE = 1 << 20
FEATURE_BYTES = 64 << 20  # of a shard's nodes that are written at once
LARGEST_RECORD = (1 << 31) - (1 << 16)  # bytes: a page of Parquet and a message of protobuf have less than 2 GiB
SPLIT_NAMES = [*SPLITS, "none"]
LAYOUT = {"compression": "none", "use_dictionary": False, "write_statistics": False, "write_page_checksum": True}
IDENTITY = "identity"  # key of the job that wrote a shard, in its metadata and in the manifest
FORMAT = 2  # of shards, which name their job since 2; runs of another format are not resumed


class RecordTooLarge(ValueError):
    """A GraphFeature that no shard can hold; the message names its target and what to do."""


@dataclass(frozen=True, eq=False)
class TargetNeighbourhoods:
    """Nodes and edges of the neighbourhoods of ``count`` targets, in any order.

    ``requests`` [n] are the nodes (``target * nodes + node``, targets numbered from 0), ``distance`` [n] their steps to
    the target.
    """

    count: int
    hops: int
    requests: Ints
    distance: Ints
    edges: RequestedEdges

    @classmethod
    def of_levels(cls, count: int, levels: list[Ints], edges: list[RequestedEdges]) -> "TargetNeighbourhoods":
        """Join the requests that were new in each round, whose number is their distance, and the edges of each."""
        distance = np.repeat(np.arange(len(levels)), [len(level) for level in levels])
        return cls(count, len(levels) - 1, np.concatenate(levels), distance, RequestedEdges.concatenate(edges))

    def edges_by_target(self, nodes: int) -> Ints:
        """How many edges each target has, in a graph of so many ``nodes``."""
        return np.bincount(self.edges.requests // nodes, minlength=self.count)


@dataclass(frozen=True, eq=False)
class EncodedBatch:
    """A batch of GraphFeatures: records as arrays and as protobuf strings, and the graph's numbers of their nodes."""

    records: Records
    strings: Pieces
    numbers: Ints


def encode_neighbourhoods(neighbourhoods: TargetNeighbourhoods, source: Source, *, embed: bool = True) -> EncodedBatch:
    """Sort, join and encode neighbourhoods; ``embed`` stores features in every record.

    Raises RecordTooLarge, where features alone are too large before they are read.
    """
    _refuse_too_large(_bytes_of_features(neighbourhoods, source.graph, embed), neighbourhoods, source.graph, embed)
    records, numbers = sort_and_join(neighbourhoods, source, embed=embed)
    strings = encode(records)
    _refuse_too_large(strings.sizes, neighbourhoods, source.graph, embed)
    return EncodedBatch(records, strings, numbers)


def _bytes_of_features(neighbourhoods: TargetNeighbourhoods, graph: Graph, embed: bool) -> Ints:
    """Bytes that values of features take in each record: of nodes with ``embed``, and of edges."""
    requests, features, count = neighbourhoods.requests, graph.features, neighbourhoods.count
    sizes = np.zeros(count, dtype=np.int64)
    if embed and isinstance(features, SparseFeatures):
        starts, nodes = features.csr.indptr, requests % graph.nodes
        entries = starts[nodes + 1].astype(np.int64) - starts[nodes]
        sizes += 4 * np.bincount(requests // graph.nodes, weights=entries, minlength=count).astype(np.int64)
    elif embed and features is not None:
        sizes += 4 * features.shape[1] * np.bincount(requests // graph.nodes, minlength=count)
    if graph.edge_features is not None:
        sizes += 4 * graph.edge_features.shape[1] * neighbourhoods.edges_by_target(graph.nodes)
    return sizes


def _refuse_too_large(sizes: Ints, neighbourhoods: TargetNeighbourhoods, graph: Graph, embed: bool) -> None:
    """Raise RecordTooLarge where the record of a neighbourhood takes more than ``LARGEST_RECORD`` bytes."""
    if sizes.max(initial=0) <= LARGEST_RECORD:
        return
    largest, requests = int(sizes.argmax()), neighbourhoods.requests
    is_target = (requests // graph.nodes == largest) & (neighbourhoods.distance == 0)
    target = ids_of(graph, requests[is_target] % graph.nodes)[0]
    raise RecordTooLarge(
        f"the GraphFeature of node {target} takes {gibibytes(sizes[largest])} or more, and a record is at most "
        f"{gibibytes(LARGEST_RECORD)}: give {'--shared (backend.features=shared) or ' if embed else ''}smaller fanouts"
    )


def sort_and_join(neighbourhoods: TargetNeighbourhoods, source: Source, *, embed: bool = True) -> tuple[Records, Ints]:
    """Sort nodes by (target, distance, number), edges by (target, destination, rank); join the graph's columns.

    Returns the records and the numbers of their nodes in the whole graph.
    """
    graph, count = source.graph, source.graph.nodes
    requests, hops = neighbourhoods.requests, neighbourhoods.hops
    order = np.argsort((requests // count * (hops + 1) + neighbourhoods.distance) * count + requests % count)
    requests, numbers = requests[order], requests[order] % count
    node_bounds = np.searchsorted(requests // count, np.arange(neighbourhoods.count + 1))
    by_key = np.argsort(requests)
    keys, places = requests[by_key], by_key - np.repeat(node_bounds[:-1], np.diff(node_bounds))

    def place_of(requested: Ints) -> Ints:
        """Place of each request's node inside its record."""
        return places[np.searchsorted(keys, requested)]

    edges = neighbourhoods.edges
    owner = edges.requests // count
    destination = node_bounds[owner] + place_of(edges.requests)
    # ranks of a destination are distinct, so any sort gives this order
    by_edge = np.argsort(destination * (int(edges.ranks.max(initial=0)) + 1) + edges.ranks)
    positions, indptr = edges.positions[by_edge], graph.csr.indptr
    records = Records(
        hops=hops,
        node_bounds=node_bounds,
        edge_bounds=np.searchsorted(owner[by_edge], np.arange(neighbourhoods.count + 1)),
        ids=ids_of(graph, numbers),
        distance=neighbourhoods.distance[order],
        in_edges=np.bincount(destination, minlength=len(requests)),
        sources=place_of(owner * count + edges.sources)[by_edge],
        ranks=edges.ranks[by_edge],
        edge_ids=(positions if graph.csr.edge_ids is None else graph.csr.edge_ids[positions]).astype(np.int64),
        degrees=(indptr[numbers + 1] - indptr[numbers]).astype(np.int64),
        weighted_degrees=None if source.weighted_degrees is None else source.weighted_degrees[numbers],
        features=graph.features[numbers] if embed and graph.features is not None else None,
        **_of_targets(graph, numbers[node_bounds[:-1]]),
        **_of_edges(graph, positions),
    )
    return records, numbers


def ids_of(graph: Graph, numbers: Ints) -> Ints:
    """Original ids of nodes."""
    return numbers if graph.node_ids is None else graph.node_ids[numbers].astype(np.int64)


def _of_targets(graph: Graph, targets: Ints) -> dict[str, Any]:
    labels = np.zeros((len(targets), 0)) if graph.labels is None else graph.labels[targets].reshape(len(targets), -1)
    split = np.full(len(targets), NO_SPLIT) if graph.split is None else graph.split[targets]
    return {"labels": labels.astype(np.int64), "split": split.astype(np.int64)}


def _of_edges(graph: Graph, positions: Ints) -> dict[str, Any]:
    columns = {"edge_weights": graph.edge_weights, "edge_features": graph.edge_features}
    return {name: column[positions] for name, column in columns.items() if column is not None}


@dataclass
class Sizes:
    """Counts of records, nodes and edges; bytes with features in each record and with features once per shard."""

    records: int = 0
    nodes: int = 0
    edges: int = 0
    embedded_bytes: int = 0
    shared_bytes: int = 0
    file_bytes: int = 0

    def add(self, other: "Sizes") -> None:
        """Add the counts of another."""
        for count in fields(self):
            setattr(self, count.name, getattr(self, count.name) + getattr(other, count.name))

    def count_batch(self, batch: EncodedBatch, features: Features | None, embed: bool) -> None:
        """Count a batch of a graph with ``features``; ``count_shared`` adds those that are stored once per shard."""
        in_records = feature_bytes(features, batch.numbers, batch.records.node_bounds)
        bare = len(batch.strings.data) - (in_records if embed else 0)
        self.records += len(batch.records)
        self.nodes += len(batch.numbers)
        self.edges += len(batch.records.edge_ids)
        self.shared_bytes += bare
        self.embedded_bytes += bare + in_records

    def count_shared(self, nodes: Ints, features: Features | None) -> None:
        """Count the distinct nodes of a shard: an id and features each."""
        self.shared_bytes += 8 * len(nodes)
        if isinstance(features, SparseFeatures):
            self.shared_bytes += features[nodes].nbytes
        elif features is not None:
            self.shared_bytes += 4 * features.shape[1] * len(nodes)


@dataclass
class Totals:
    """Sizes of the shards so far, and their number."""

    sizes: Sizes = field(default_factory=Sizes)
    shards: int = 0

    def add(self, sizes: Sizes) -> None:
        """Count a shard."""
        self.sizes.add(sizes)
        self.shards += 1


def shard_path(folder: Path, number: int) -> Path:
    """Path of a shard."""
    return folder / f"part-{number:05d}.parquet"


def features_path(shard: Path) -> Path:
    """Path of the features of a shard's nodes, where they are not in its records."""
    return shard.with_suffix(".features.parquet")


def write_shard(
    partial: Path, number: int, batches: Iterable[EncodedBatch], source: Source, embed: bool, identity: str
) -> Sizes:
    """Write a shard to ``partial/shards``, then its sizes, which it returns, and distinct nodes to ``partial/sizes``.

    Columns: ``id``, ``label`` (a list: one class, or 0/1 per class), ``split``, ``graph_feature`` (protobuf). Without
    ``embed`` a second file holds every node's features once. The metadata of both name the job, by its ``identity``.
    Files are renamed to their final name when complete.
    """
    shard, counts = shard_path(partial / "shards", number), partial / _counts_name(number)
    sizes, features, batch_nodes = Sizes(), source.graph.features, []

    def rows_of_batches() -> Iterator[Any]:
        for batch in batches:
            sizes.count_batch(batch, features, embed)
            batch_nodes.append(distinct(batch.numbers))
            yield _rows(batch.records, batch.strings, identity)

    for file in (shard, counts):
        file.parent.mkdir(exist_ok=True)
    sizes.file_bytes += _write_tables(shard, rows_of_batches())
    nodes = distinct(np.concatenate(batch_nodes))
    sizes.count_shared(nodes, features)
    if not embed and features is not None:
        sizes.file_bytes += _write_tables(features_path(shard), _rows_of_features(source.graph, nodes, identity))
    unnamed = counts.with_suffix(".tmp")
    save_array(unnamed, np.concatenate((astuple(sizes), nodes)))
    unnamed.replace(counts)
    return sizes


def _write_tables(path: Path, tables: Iterable[Any]) -> int:
    """Write Arrow tables, one after the other, and name the file when it is complete; returns its bytes."""
    from pyarrow import parquet

    unnamed, writer = path.with_name(f".{path.name}.tmp"), None
    try:
        for rows in tables:
            writer = writer or parquet.ParquetWriter(unnamed, rows.schema, **LAYOUT)
            writer.write_table(rows)
    finally:
        if writer is not None:
            writer.close()
    unnamed.replace(path)
    return path.stat().st_size


def _rows(records: Records, strings: Pieces, identity: str) -> Any:
    import pyarrow as pa

    offsets = np.arange(len(records) + 1, dtype=np.int32) * records.labels.shape[1]
    buffers = [None, pa.py_buffer(strings.bounds), pa.py_buffer(strings.data)]
    return pa.table(
        {
            "id": records.targets,
            "label": pa.ListArray.from_arrays(offsets, pa.array(records.labels.ravel())),
            "split": pa.array([SPLIT_NAMES[number] for number in records.split.tolist()]),
            "graph_feature": pa.Array.from_buffers(pa.large_binary(), len(records), buffers),
        },
        metadata={IDENTITY: identity},
    )


def _rows_of_features(graph: Graph, nodes: Ints, identity: str) -> Iterator[Any]:
    """Yield the features of nodes, ``FEATURE_BYTES`` at a time.

    Columns: ``id`` and ``features``, a list per node; of sparse features ``columns`` and ``values``, lists likewise.
    """
    import pyarrow as pa

    assert graph.features is not None
    at_once = max(1, FEATURE_BYTES * len(graph.features) // max(graph.features.nbytes, 1))
    for start in range(0, len(nodes), at_once):
        some = nodes[start : start + at_once]
        lists = _feature_lists(graph.features[some])
        yield pa.table({"id": ids_of(graph, some), **lists}, metadata={IDENTITY: identity})


def _feature_lists(features: Features) -> dict[str, Any]:
    """Arrow's columns of the features of some nodes."""
    import pyarrow as pa

    if not isinstance(features, SparseFeatures):
        return {"features": pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), features.shape[1])}
    starts, columns, values = features.arrays
    entries = {"columns": columns.astype(np.int32), "values": values}
    offsets = pa.array(starts.astype(np.int64))
    return {name: pa.LargeListArray.from_arrays(offsets, pa.array(array)) for name, array in entries.items()}


def stored_shard(partial: Path | str, number: int) -> Sizes | None:
    """Sizes of a shard that an earlier run wrote to a folder or URL, ``None`` where none did."""
    name = _counts_name(number)
    if isinstance(partial, Path):
        is_stored = (partial / name).is_file() and shard_path(partial / "shards", number).is_file()
        return _read_counts(partial / name)[0] if is_stored else None
    if not holds(f"{partial}/{name}"):
        return None
    with TemporaryDirectory(prefix="agl-") as folder:
        return _read_counts(get_files(partial, [name], Path(folder)) / name)[0]


def _counts_name(number: int) -> str:
    return f"sizes/{number}.counts"


def _read_counts(path: Path) -> tuple[Sizes, Ints]:
    """The sizes and the distinct nodes of a shard, ascending and mapped."""
    counts, nodes = np.split(np.load(path, mmap_mode="r"), [len(fields(Sizes))])
    return Sizes(*counts.tolist()), nodes


def count_distinct(partial: Path, shards: int, nodes: int) -> int:
    """Count the nodes of a graph that any of the shards has, by the lists in ``partial/sizes``.

    A mapped file has a bit for each of the graph's ``nodes``, and lists are read in pieces: memory grows with neither.
    """
    bits = create_array(partial / "distinct.npy", np.uint8, (-(-nodes // 8),))
    for number in range(shards):
        in_shard = _read_counts(partial / _counts_name(number))[1]
        for start in range(0, len(in_shard), NODES_AT_ONCE):
            some = in_shard[start : start + NODES_AT_ONCE]
            places, bit = some // 8, np.uint8(1) << (some % 8).astype(np.uint8)
            firsts = np.flatnonzero(np.diff(places, prepend=-1))  # of the nodes that share a byte
            bits[places[firsts]] |= np.bitwise_or.reduceat(bit, firsts)
    blocks = (bits[start : start + NODES_AT_ONCE] for start in range(0, len(bits), NODES_AT_ONCE))
    return sum(int(np.bitwise_count(block).sum()) for block in blocks)
