"""UUG as a graph that is never stored: edges and attributes are generated where they are read."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.typed_graph import Ids, TypedGraph
from datasets.graph import MISSING, NO_SPLIT, SPLITS
from datasets.options import options_from
from datasets.partition.description import MASKS
from datasets.schema import HOMOGENEOUS
from datasets.synthetic.uug import pieces_of
from datasets.synthetic.uug_partition import (
    UugOptions,
    draw_edge_features,
    draw_features,
    draw_in_edges,
    draw_splits,
    true_labels,
)

NAME = "uug_stream"
_PIECES = 4  # times as many as the data set is generated in: all of the memory is theirs
_PIECES_KEPT = 4  # a reader's pieces of edges end inside of generated ones, which are then read twice


@dataclass(frozen=True)
class UugEdges:
    """Edges by destination, as ``uug`` stores them; ``starts`` [pieces + 1] counts those before each piece."""

    options: UugOptions
    starts: Ids

    @classmethod
    def of(cls, options: UugOptions, threads: int) -> "UugEdges":
        """Generate all edges once to count them, in pieces of bounded size."""
        options = replace(options, partitions=min(options.nodes, _PIECES * pieces_of(options)))
        with ThreadPoolExecutor(threads) as pool:
            counts = list(pool.map(lambda index: len(_in_edges(options, index)[0]), range(options.partitions)))
        return cls(options, np.cumsum([0, *counts]))

    @property
    def count(self) -> int:
        """Number of edges."""
        return int(self.starts[-1])

    def read(self, start: int, stop: int) -> tuple[Ids, Ids]:
        """Sources and destinations of rows."""
        return self.ends_of(np.arange(start, stop))

    def ends_of(self, rows: Ids) -> tuple[Ids, Ids]:
        """Sources and destinations of ascending rows."""
        cuts = np.searchsorted(rows, self.starts)
        ends = [np.empty((2, 0), dtype=np.int64)]
        for index in np.flatnonzero(np.diff(cuts)).tolist():
            places = rows[cuts[index] : cuts[index + 1]] - self.starts[index]
            ends.append(np.stack([end[places] for end in _in_edges(self.options, index)]))
        sources, destinations = np.concatenate(ends, axis=1)
        return sources, destinations

    def original_ids(self, rows: Ids) -> Ids:
        """The rows themselves."""
        return rows

    def stamp(self) -> Any:
        """What names the content of all edges."""
        return asdict(self.options)


@lru_cache(maxsize=_PIECES_KEPT)
def _in_edges(options: UugOptions, index: int) -> tuple[Ids, Ids]:
    first, last = (options.nodes * end // options.partitions for end in (index, index + 1))
    return draw_in_edges(options, np.arange(first, last, dtype=np.int64))


class _Column:
    """Rows of an attribute, generated when they are read by a slice of step 1 or by ascending numbers."""

    def __init__(self, options: UugOptions, rows: int) -> None:
        self.options, self.rows = options, rows
        empty = self[:0]
        self.dtype, self.shape = empty.dtype, (rows, *empty.shape[1:])

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[Any]:
        numbers = np.arange(*rows.indices(self.rows)) if isinstance(rows, slice) else np.asarray(rows)
        return self.generated(numbers.astype(np.int64, copy=False))

    def generated(self, numbers: Ids) -> NDArray[Any]:
        """Values of some rows."""
        raise TypeError(f"{type(self).__name__} must define generated")

    def stamp(self) -> Any:
        """What names the content of all rows."""
        return asdict(self.options)


class _NodeColumn(_Column):
    def __init__(self, options: UugOptions, name: str) -> None:
        self.name = name
        super().__init__(options, options.nodes)

    def generated(self, numbers: Ids) -> NDArray[Any]:
        """Features, labels or a mask of some nodes."""
        if self.name == "feat":
            return draw_features(self.options, numbers, true_labels(self.options, numbers))
        split = draw_splits(self.options, numbers)
        if self.name == "label":
            return np.where(split == NO_SPLIT, MISSING, true_labels(self.options, numbers))
        return (split == SPLITS[MASKS[self.name]]).astype(np.uint8)


class _EdgeColumn(_Column):
    def __init__(self, edges: UugEdges) -> None:
        self.edges = edges
        super().__init__(edges.options, edges.count)

    def generated(self, numbers: Ids) -> NDArray[Any]:
        """Features of some edges."""
        features = draw_edge_features(self.options, *self.edges.ends_of(numbers))
        assert features is not None
        return features


def uug_stream(options: dict[str, Any], threads: int | None = None) -> TypedGraph:
    """The graph of data set ``uug`` with these options, with memory for some pieces of its edges.

    Edges are counted by ``threads``, all cores unless that is a number. Raises ValueError for options that ``uug`` does
    not have, and for less than one thread.
    """
    if threads is not None and threads < 1:
        raise ValueError(f"threads={threads} must be at least 1")
    uug = options_from(UugOptions, NAME, options)
    kind, relation = HOMOGENEOUS.node_types[0], HOMOGENEOUS.relations[0]
    edges = UugEdges.of(uug, threads or len(os.sched_getaffinity(0)))
    of_nodes = {name: _NodeColumn(edges.options, name) for name in ("feat", "label", *MASKS)}
    of_edges = {"feat": _EdgeColumn(edges)} if uug.edge_features else {}
    return TypedGraph("uug", HOMOGENEOUS, {kind: uug.nodes}, {relation: edges}, {kind: of_nodes}, {relation: of_edges})
