"""Writing of shards: Parquet, one row per target (section 3.2.2, the triple of id, label and GraphFeature)."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from backends.agl.flat.rounds import Ints
from backends.agl.flat.source import Source
from backends.agl.flat.store import EncodedBatch, ids_of
from backends.agl.graphfeature import feature_bytes
from backends.agl.records import Records
from backends.agl.wire import Pieces
from backends.kernels.sampling import distinct
from datasets.array_files import save_array
from datasets.features import Features, SparseFeatures
from datasets.graph import SPLITS

SPLIT_NAMES = [*SPLITS, "none"]
LAYOUT = {"compression": "none", "use_dictionary": False, "write_statistics": False, "write_page_checksum": True}


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
        in_records = _bytes_in_records(features, batch)
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


class Totals:
    """Sizes of the shards so far, their number, and a bit for each of the graph's nodes that they hold."""

    def __init__(self, nodes: int) -> None:
        self.sizes, self.shards, self.seen = Sizes(), 0, np.zeros(nodes, dtype=bool)

    def add(self, sizes: Sizes, nodes: Ints) -> None:
        """Count a shard by its sizes and its distinct nodes."""
        self.sizes.add(sizes)
        self.shards += 1
        self.seen[nodes] = True


def _bytes_in_records(features: Features | None, batch: EncodedBatch) -> int:
    """Bytes that the features of a batch's nodes take in its records."""
    if features is None or not features.shape[1]:
        return 0
    bounds = batch.records.node_bounds
    if isinstance(features, SparseFeatures):
        return feature_bytes(features[batch.numbers], bounds)
    sizes = np.diff(bounds) * 4 * features.shape[1]
    return int(sizes.sum()) + sum(1 + max(1, -(-int(size).bit_length() // 7)) for size in sizes)


def shard_path(folder: Path, number: int) -> Path:
    """Path of a shard."""
    return folder / f"part-{number:05d}.parquet"


def features_path(shard: Path) -> Path:
    """Path of the features of a shard's nodes, where they are not in its records."""
    return shard.with_suffix(".features.parquet")


def write_shard(
    folder: Path, number: int, batches: Iterable[EncodedBatch], source: Source, embed: bool
) -> tuple[Sizes, Ints]:
    """Write a shard, whole or not at all; returns its sizes and its distinct nodes.

    Columns: ``id``, ``label`` (a list: one class, or 0/1 per class), ``split``, ``graph_feature`` (protobuf). Without
    ``embed`` a second file holds every node's features once. Files are renamed to their final name when complete.
    """
    from pyarrow import parquet

    shard, sizes, features = shard_path(folder, number), Sizes(), source.graph.features
    batch_nodes = []
    unnamed, writer = shard.with_name(f".{shard.name}.tmp"), None
    try:
        for batch in batches:
            rows = _rows(batch.records, batch.strings)
            writer = writer or parquet.ParquetWriter(unnamed, rows.schema, **LAYOUT)
            writer.write_table(rows)
            sizes.count_batch(batch, features, embed)
            batch_nodes.append(distinct(batch.numbers))
    finally:
        if writer is not None:
            writer.close()
    nodes = distinct(np.concatenate(batch_nodes))
    sizes.count_shared(nodes, features)
    if not embed and features is not None:
        sizes.file_bytes += _write_features(features_path(shard), ids_of(source.graph, nodes), features[nodes])
    sizes.file_bytes += unnamed.stat().st_size
    unnamed.replace(shard)
    return sizes, nodes


def _rows(records: Records, strings: Pieces) -> Any:
    import pyarrow as pa

    offsets = np.arange(len(records) + 1, dtype=np.int32) * records.labels.shape[1]
    buffers = [None, pa.py_buffer(strings.bounds), pa.py_buffer(strings.data)]
    return pa.table(
        {
            "id": records.targets,
            "label": pa.ListArray.from_arrays(offsets, pa.array(records.labels.ravel())),
            "split": pa.array([SPLIT_NAMES[number] for number in records.split.tolist()]),
            "graph_feature": pa.Array.from_buffers(pa.large_binary(), len(records), buffers),
        }
    )


def _write_features(path: Path, ids: Ints, features: Features) -> int:
    """Write the features of nodes; returns the bytes of the file.

    Columns: ``id`` and ``features``, a list per node; of sparse features ``columns`` and ``values``, lists likewise.
    """
    import pyarrow as pa
    from pyarrow import parquet

    if isinstance(features, SparseFeatures):
        starts, columns, values = features.arrays
        short = features.csr.nnz <= np.iinfo(np.int32).max
        kind, offsets = (pa.ListArray, np.int32) if short else (pa.LargeListArray, np.int64)
        lists = {
            name: kind.from_arrays(pa.array(starts.astype(offsets)), pa.array(entries))
            for name, entries in (("columns", columns.astype(np.int32)), ("values", values))
        }
    else:
        lists = {"features": pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), features.shape[1])}
    unnamed = path.with_name(f".{path.name}.tmp")
    parquet.write_table(pa.table({"id": ids, **lists}), unnamed, **LAYOUT)
    unnamed.replace(path)
    return path.stat().st_size


def read_sizes(partial: Path, number: int) -> tuple[Sizes, Ints]:
    """Sizes and distinct nodes of a shard that was written."""
    facts = json.loads((partial / "sizes" / f"{number}.json").read_text())
    return Sizes(**facts), np.load(partial / "sizes" / f"{number}.npy")


def shard_once(
    partial: Path, number: int, batches: Iterable[EncodedBatch], source: Source, embed: bool
) -> tuple[Sizes, Ints]:
    """Write a shard, or load the sizes and nodes in ``partial/sizes`` of one that an earlier run wrote."""
    facts, nodes_file = partial / "sizes" / f"{number}.json", partial / "sizes" / f"{number}.npy"
    facts.parent.mkdir(exist_ok=True)
    if facts.is_file() and shard_path(partial / "shards", number).is_file():
        return read_sizes(partial, number)
    sizes, nodes = write_shard(partial / "shards", number, batches, source, embed)
    save_array(nodes_file, nodes)
    unnamed = facts.with_suffix(".tmp")
    unnamed.write_text(json.dumps(asdict(sizes)))
    unnamed.replace(facts)
    return sizes, nodes
