"""Reader of GraphFlat's folders: batches of encoded records, in order or shuffled by a seed, decoded or merged."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backends.agl.flat.sampling_strategy import DRAWS, SamplingStrategy
from backends.agl.flat.shards import IDENTITY, features_path, shard_path
from backends.agl.graphfeature import Records, decode
from backends.base.sparse_rows import Rows, features_of, input_rows
from backends.kernels.graphfeatures import CorruptRecord, MergedRecords, Strings, merge_records
from backends.kernels.parquet import UncompressedParquet
from backends.settings import typed
from datasets.csr import Csr, index_dtype
from datasets.features import Features, SparseFeatures
from datasets.graph import NO_SPLIT, SPLITS
from datasets.randomness import permutation
from datasets.tables.node_stream import NAMES

Ints = NDArray[np.int64]
MANIFEST = "manifest.json"
# the facts that are read, and their kinds; manifests of earlier versions lack those in OPTIONAL
KINDS: dict[str, Any] = {"graph": str, "shards": int, "sizes": dict, "strategy": dict, "filter": str | None}
KINDS |= {"embed": bool, "width": int, "weighted": bool, "classes": int, "task": str}
OPTIONAL: dict[str, Any] = {"tables": dict, "sparse": bool, "edge_width": int, "draws": int, IDENTITY: str}


class ShardError(ValueError):
    """A folder or shard that is damaged or incomplete; the message names the file and what to do."""


class ShardFeatures:
    """The features of a shard's nodes, [nodes, width], stored once in a file beside it."""

    def __init__(self, path: Path, ids: Ints, features: Features) -> None:
        self.path, self.ids = path, ids
        self.order: Ints | None = None
        self.rows = input_rows(features)
        if (ids[1:] < ids[:-1]).any():
            self.order = np.argsort(ids, kind="stable")
            self.ids = ids[self.order]

    def rows_of(self, ids: Ints) -> Rows:
        """Features of nodes by id; raises ShardError for a node that the file lacks."""
        if not len(self.ids):
            raise ShardError(f"{self.path} holds no nodes: flatten the graph again")
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        unknown = self.ids[places] != ids
        if unknown.any():
            raise ShardError(f"{self.path} lacks node {ids[unknown.argmax()]}: flatten the graph again")
        rows = places if self.order is None else self.order[places]
        return self.rows.index_select(0, torch.from_numpy(rows))


@dataclass(frozen=True, eq=False)
class EncodedRecords:
    """Encoded rows of a shard; ``features`` are those of their nodes where the strings do not contain them.

    ``manifest`` is that of their folder: it says how they were sampled, and which columns the edges have.
    """

    manifest: dict[str, Any]
    strings: Strings
    rows: Ints
    shard: Path | None = None
    features: ShardFeatures | None = None

    def decode(self) -> Records:
        """Decode the records, with features; raises ShardError for a corrupt one."""
        with self._naming_corrupt_record():
            records = decode(self.strings)
        if self.features is None:
            return records
        return replace(records, features=features_of(self.features.rows_of(records.ids)))

    def merge(
        self,
        fanouts: tuple[int | None, ...],
        needed: bool = False,
        degrees: bool = False,
        edge_weights: bool = True,
        edge_features: bool = True,
    ) -> tuple[MergedRecords, Rows]:
        """Merge the records' neighbourhoods; also returns node features; raises ShardError for a corrupt record.

        With ``needed`` only the edges that some layer reads. The others say whether to read degrees, weighted where
        edges have weights, and the columns that the edges have.
        """
        weighted = bool(self.manifest["weighted"])
        of_nodes = "weighted_degrees" if weighted else "degrees"
        with self._naming_corrupt_record():
            merged = merge_records(
                self.strings,
                fanouts,
                apart=self.manifest["strategy"]["scope"] == "target",
                needed=needed,
                degrees=of_nodes if degrees else None,
                features=self.features is None,
                edge_weights=edge_weights and weighted,
                edge_width=self.manifest.get("edge_width", 0) if edge_features else 0,
            )
        if self.features is not None:
            return merged, self.features.rows_of(merged.neighbourhood.nodes)
        assert merged.features is not None
        return merged, input_rows(merged.features)

    @contextmanager
    def _naming_corrupt_record(self) -> Iterator[None]:
        """Raise ShardError with file and row for a corrupt record."""
        try:
            yield
        except CorruptRecord as error:
            if self.shard is None:
                raise
            row = "" if error.record is None else f" row {self.rows[error.record] + 1}:"
            raise ShardError(f"{self.shard}:{row} {error.reason}: flatten the graph again") from error


class GraphFeatureReader:
    """The GraphFeatures of a folder that GraphFlat finished; ``manifest`` records graph, sampling and sizes.

    ``shards`` are the files. Raises ShardError where GraphFlat did not finish, a file is damaged, or shards of another
    run lie there.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.manifest, self.strategy = _read_manifest(self.folder / MANIFEST)
        self.shards = [shard_path(self.folder, number) for number in range(self.manifest["shards"])]
        own = {name for shard in self.shards for name in (shard.name, features_path(shard).name)}
        foreign = sorted(path.name for path in self.folder.glob("part-*.parquet") if path.name not in own)
        if foreign:
            raise ShardError(
                f"{self.folder} holds {foreign[0]}, but GraphFlat wrote {len(self.shards)} shards there: shards of "
                "another run are among them, give each run a folder of its own"
            )
        self.bytes_read = 0

    @property
    def edge_width(self) -> int:
        """Features per edge."""
        return int(self.manifest.get("edge_width", 0))

    @property
    def edge_columns(self) -> set[str]:
        """Which of ``weight`` and ``features`` the edges have."""
        present = {"weight": self.manifest["weighted"], "features": self.edge_width}
        return {name for name in present if present[name]}

    def __len__(self) -> int:
        return int(self.manifest["sizes"]["records"])

    @property
    def largest(self) -> int:
        """Records of the largest shard, which no batch exceeds: the first, as only the last may have fewer."""
        return len(self.strings(0)) if self.shards else 0

    def batches(
        self, size: int, seed: int | None = None, split: str | None = None, shards: Sequence[int] | None = None
    ) -> Iterator[Records]:
        """Yield decoded batches; the arguments are those of ``encoded_batches``."""
        return (batch.decode() for batch in self.encoded_batches(size, seed, split, shards))

    def encoded_batches(
        self, size: int, seed: int | None = None, split: str | None = None, shards: Sequence[int] | None = None
    ) -> Iterator[EncodedRecords]:
        """Yield encoded batches of at most ``size`` records of one shard each, of a split or of all records.

        ``shards`` limits them to some shards. With a ``seed`` shards and rows are in the order of a hash permutation.
        """
        numbers = np.arange(len(self.shards)) if shards is None else np.asarray(shards, dtype=np.int64)
        order = numbers if seed is None else numbers[permutation(seed, "shards", len(numbers))]
        for number in order.tolist():
            strings = self.strings(number)
            count = len(strings)
            rows = np.arange(count) if seed is None else permutation(seed, f"rows {number}", count)
            if split is not None:
                rows = rows[self.splits(number)[rows] == split]
            features = self._features(number)
            for start in range(0, len(rows), size):
                batch = rows[start : start + size]
                yield EncodedRecords(self.manifest, strings.select(batch), batch, self.shards[number], features)

    def drop_pages(self) -> None:
        """Drop the shards from the page cache, so that they are read from the disk the next time."""
        for path in self.shards:
            for file in (path, features_path(path)):
                if file.is_file():
                    with file.open("rb") as pages:
                        os.fsync(pages.fileno())  # pages that are not on the disk yet would stay
                        os.posix_fadvise(pages.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def names(self, ids: Any) -> Any:
        """The user's names of nodes, an Arrow array, where the tables' ids are words and those of nodes row numbers."""
        return self._read(self.folder / NAMES, "name").take(np.asarray(ids)).combine_chunks()

    def splits(self, number: int) -> Any:
        """The split of each record of a shard, as text [records]; "none" for one without a label."""
        splits = self._read(self.shards[number], "split").to_numpy()
        return np.where((self._labels(number) >= 0).any(axis=1), splits, "none")

    def _labels(self, number: int) -> Any:
        """Labels [records, 1 or classes] of a shard, [records, 0] where there are none."""
        labels = self._read(self.shards[number], "label").combine_chunks()
        values = labels.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
        return values.reshape(len(labels), -1 if len(values) else 0)

    def labelled(self, shards: Sequence[int] | None = None) -> tuple[Any, Any, Any]:
        """Ids [records], labels [records, 1 or classes] and splits of some shards, without neighbourhoods.

        Splits [records] are numbers, as of a graph.
        """
        numbers = range(len(self.shards)) if shards is None else shards
        ids = np.concatenate([self._read(self.shards[number], "id").to_numpy() for number in numbers])
        labels = np.concatenate([self._labels(number) for number in numbers])
        splits = [SPLITS.get(name, NO_SPLIT) for number in numbers for name in self.splits(number)]
        return ids, labels, np.array(splits, dtype=np.int8)

    def strings(self, number: int) -> Strings:
        """The protobuf strings of a shard, in row order."""
        with self._plain(self.shards[number]) as file:
            return file.strings("graph_feature")

    def _features(self, number: int) -> ShardFeatures | None:
        """Features of a shard's nodes from the file beside it; ``None`` where they are in its records."""
        if self.manifest["embed"] or not self.manifest["width"]:
            return None
        path = features_path(self.shards[number])
        with self._plain(path) as file:
            ids = file.numbers("id", "INT64")
            if not self.manifest.get("sparse"):
                return ShardFeatures(path, ids, file.numbers("features", "FLOAT").reshape(len(ids), -1))
        return ShardFeatures(path, ids, self._sparse_features(path, len(ids)))

    def _sparse_features(self, path: Path, nodes: int) -> SparseFeatures:
        columns, values = (self._read(path, name).combine_chunks() for name in ("columns", "values"))
        entries = columns.flatten().to_numpy()
        starts = columns.offsets.to_numpy().astype(index_dtype(len(entries)), copy=False)
        csr = Csr(starts, entries, (nodes, self.manifest["width"]))
        return SparseFeatures(csr, values.flatten().to_numpy())

    @contextmanager
    def _plain(self, path: Path) -> Iterator[UncompressedParquet]:
        """Memory-map a Parquet file of GraphFlat; raises ShardError where it is damaged."""
        import pyarrow

        try:
            file = UncompressedParquet(path)
            self._refuse_other_run(path, file.metadata)
            yield file
            self.bytes_read += file.bytes_read
        except ShardError:
            raise
        except (OSError, ValueError, pyarrow.ArrowException, KeyError) as error:
            raise ShardError(f"{path} is damaged or missing ({error}): flatten the graph again") from error

    def _read(self, path: Path, column: str) -> Any:
        import pyarrow
        from pyarrow import parquet

        try:
            file = parquet.ParquetFile(path, page_checksum_verification=True)
            if path.name != NAMES:  # which is written with the graph
                self._refuse_other_run(path, file.metadata)
            table = file.read([column])
            self.bytes_read += _column_bytes(file.metadata, column)
            return table.column(column)
        except (OSError, pyarrow.ArrowException, KeyError) as error:
            raise ShardError(f"{path} is damaged or missing ({error}): flatten the graph again") from error

    def _refuse_other_run(self, path: Path, metadata: Any) -> None:
        """Raise ShardError for a file of another job than the manifest names; that of an earlier version names none."""
        identity = self.manifest.get(IDENTITY)
        if identity is not None and (metadata.metadata or {}).get(IDENTITY.encode()) != str(identity).encode():
            raise ShardError(
                f"{path} was written by another run than {self.folder / MANIFEST}: flatten again into an empty folder"
            )


def sampling_of(reader: GraphFeatureReader) -> SamplingStrategy:
    """The sampling strategy of a folder's neighbourhoods.

    Raises ShardError for samples of an earlier version, which a graph no longer gives.
    """
    draws = reader.manifest.get("draws", 1)
    if reader.strategy.method != "full" and draws != DRAWS:
        raise ShardError(f"{reader.folder} was sampled by version {draws} of GraphFlat, this is {DRAWS}: flatten again")
    return reader.strategy


def _read_manifest(path: Path) -> tuple[dict[str, Any], SamplingStrategy]:
    """The facts of a manifest, with those of its strategy in full, and the strategy; raises ShardError."""
    try:
        facts = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ShardError(f"{path} does not exist: GraphFlat did not finish there, flatten the graph first") from error
    except ValueError as error:
        raise ShardError(f"{path} is damaged ({error}): flatten the graph again") from error
    lacking = [name for name in KINDS if not isinstance(facts, dict) or name not in facts]
    if lacking:
        raise ShardError(f"{path} is not GraphFlat's, it lacks {', '.join(lacking)}: give the folder of its shards")
    try:
        for name, kind in (KINDS | OPTIONAL).items():
            if name in facts and not isinstance(facts[name], kind):
                raise TypeError(f"{name} is {facts[name]!r}")
        strategy, records = typed(SamplingStrategy, facts["strategy"]), facts["sizes"]["records"]
        if "method" not in facts["strategy"] or not isinstance(records, int):  # the class has a default method
            raise TypeError(f"strategy is {facts['strategy']}, records are {records!r}")
    except (KeyError, TypeError, ValueError) as error:
        raise ShardError(f"{path} is damaged ({error}): flatten the graph again") from error
    return facts | {"strategy": asdict(strategy)}, strategy


def _column_bytes(metadata: Any, name: str) -> int:
    """Bytes of a column in a Parquet file."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    return sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema.split(".")[0] == name)
