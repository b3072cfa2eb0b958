"""Encoded GraphFeatures of a shard: decoded to records, or merged into the neighbourhood of a batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backends.agl.graphfeature import decode
from backends.agl.records import Records
from backends.base.sparse_rows import Rows, features_of, input_rows
from backends.kernels.graphfeatures import CorruptRecord, MergedRecords, Strings, merge_records
from datasets.features import Features

Ints = NDArray[np.int64]


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

    ``scope`` is that of their sampling: with ``target`` a node has a sample of its own in every record.
    """

    shard: Path | None
    strings: Strings
    rows: Ints
    features: ShardFeatures | None = None
    scope: str = "node"

    def decode(self) -> Records:
        """Decode the records, with features; raises ShardError for a corrupt one."""
        with self._naming_corrupt_record():
            records = decode(self.strings)
        if self.features is None:
            return records
        return replace(records, features=features_of(self.features.rows_of(records.ids)))

    def merge(self, fanouts: tuple[int | None, ...], **options: Any) -> tuple[MergedRecords, Rows]:
        """Merge the records' neighbourhoods (``merge_records``); also returns node features; raises ShardError."""
        with self._naming_corrupt_record():
            merged = merge_records(self.strings, fanouts, features=self.features is None, **options)
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
