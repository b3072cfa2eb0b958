"""GraphFeatures as they lie in a shard, before they are decoded: whole, or merged into what a batch needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.agl.graphfeature import decode
from backends.agl.records import Records
from backends.kernels.graphfeatures import CorruptRecord, MergedRecords, Strings, merge_records

Ints = NDArray[np.int64]


class ShardError(ValueError):
    """A folder or shard that is damaged or incomplete; the message names the file and what to do."""


class Features:
    """The features of a shard's nodes, [nodes, width], in a file of their own beside it."""

    def __init__(self, path: Path, ids: Ints, values: NDArray[np.float32]) -> None:
        self.path, self.ids = path, ids
        self.order: Ints | None = None
        self.values = torch.from_numpy(values)
        if (ids[1:] < ids[:-1]).any():
            self.order = np.argsort(ids, kind="stable")
            self.ids = ids[self.order]

    def of(self, wanted: Ints) -> Tensor:
        """Features of nodes by id; raises ShardError for a node that the file lacks."""
        if not len(self.ids):
            raise ShardError(f"{self.path} holds no nodes: flatten the graph again")
        places = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        unknown = self.ids[places] != wanted
        if unknown.any():
            raise ShardError(f"{self.path} lacks node {wanted[unknown.argmax()]}: flatten the graph again")
        rows = places if self.order is None else self.order[places]
        return self.values.index_select(0, torch.from_numpy(rows))


@dataclass(frozen=True, eq=False)
class Stored:
    """Some records of a shard: ``strings`` are its ``rows``; ``features`` are those of their nodes unless in them."""

    shard: Path | None
    strings: Strings
    rows: Ints
    features: Features | None = None

    def decoded(self) -> Records:
        """All that the records hold; raises ShardError."""
        with self._checked():
            records = decode(self.strings)
        return records if self.features is None else replace(records, features=self.features.of(records.ids).numpy())

    def merged(self, fanouts: tuple[int | None, ...], **options: Any) -> tuple[MergedRecords, Tensor]:
        """Merge as ``merge_records`` does, with the features of each node [nodes, width]; raises ShardError."""
        with self._checked():
            merged = merge_records(self.strings, fanouts, features=self.features is None, **options)
        if self.features is not None:
            return merged, self.features.of(merged.neighbourhood.nodes)
        assert merged.features is not None
        return merged, torch.from_numpy(merged.features)

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Name file and row of a record that is corrupt."""
        try:
            yield
        except CorruptRecord as error:
            if self.shard is None:
                raise
            row = "" if error.record is None else f" row {self.rows[error.record] + 1}:"
            raise ShardError(f"{self.shard}:{row} {error.reason}: flatten the graph again") from error
