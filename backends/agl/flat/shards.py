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
from backends.agl.records import Records
from backends.agl.wire import Pieces
from backends.kernels.sampling import distinct
from datasets.features import dense_features
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

    def count_batch(self, batch: EncodedBatch, width: int, embed: bool) -> None:
        """Count a batch; ``count_shared`` adds the features that are stored once per shard."""
        features = np.diff(batch.records.node_bounds) * 4 * width
        headers = sum(1 + max(1, -(-int(size).bit_length() // 7)) for size in features) if width else 0
        bare = len(batch.strings.data) - (int(features.sum()) + headers if embed else 0)
        self.records += len(batch.records)
        self.nodes += len(batch.numbers)
        self.edges += len(batch.records.edge_ids)
        self.shared_bytes += bare
        self.embedded_bytes += bare + int(features.sum()) + headers

    def count_shared(self, nodes: int, width: int) -> None:
        """Count the distinct nodes of a shard: an id and features each."""
        self.shared_bytes += nodes * (8 + 4 * width)


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

    shard, sizes, width = shard_path(folder, number), Sizes(), source.graph.width
    batch_nodes = []
    unnamed, writer = shard.with_name(f".{shard.name}.tmp"), None
    try:
        for batch in batches:
            rows = _rows(batch.records, batch.strings)
            writer = writer or parquet.ParquetWriter(unnamed, rows.schema, **LAYOUT)
            writer.write_table(rows)
            sizes.count_batch(batch, width, embed)
            batch_nodes.append(distinct(batch.numbers))
    finally:
        if writer is not None:
            writer.close()
    nodes = distinct(np.concatenate(batch_nodes))
    sizes.count_shared(len(nodes), width)
    if not embed and source.graph.features is not None:
        sizes.file_bytes += _write_features(features_path(shard), source, nodes)
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


def _write_features(path: Path, source: Source, nodes: Ints) -> int:
    import pyarrow as pa
    from pyarrow import parquet

    assert source.graph.features is not None
    values = dense_features(source.graph.features[nodes], "GraphFlat")
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    unnamed = path.with_name(f".{path.name}.tmp")
    parquet.write_table(pa.table({"id": ids_of(source.graph, nodes), "features": column}), unnamed, **LAYOUT)
    unnamed.replace(path)
    return path.stat().st_size


def shard_once(
    partial: Path, number: int, batches: Iterable[EncodedBatch], source: Source, embed: bool
) -> tuple[Sizes, Ints]:
    """Write a shard, or load the sizes and nodes in ``partial/sizes`` of one that an earlier run wrote."""
    facts, nodes_file = partial / "sizes" / f"{number}.json", partial / "sizes" / f"{number}.npy"
    facts.parent.mkdir(exist_ok=True)
    if facts.is_file() and shard_path(partial / "shards", number).is_file():
        return Sizes(**json.loads(facts.read_text())), np.load(nodes_file)
    sizes, nodes = write_shard(partial / "shards", number, batches, source, embed)
    np.save(nodes_file, nodes)
    unnamed = facts.with_suffix(".tmp")
    unnamed.write_text(json.dumps(asdict(sizes)))
    unnamed.replace(facts)
    return sizes, nodes
