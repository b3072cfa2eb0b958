"""GraphFeatures in Protocol Buffers' wire format: decoded whole, or merged into the neighbourhood of a batch.

The schema is ``backends/agl/graphfeature.proto``. Only native code reads it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.extension import extension, require, workers
from backends.kernels.neighbourhood import Neighbourhood, reaches
from datasets.csr import Csr, index_dtype
from datasets.features import Features, SparseFeatures

Ints = NDArray[np.int64]
NODES, EDGES, SPANS, LABELS = range(4)
SET_FEATURES, FEATURE_WIDTH = 8, 9  # the latter plus 1, 0 where features are not sparse
RAW = {"weighted_degrees": np.float64, "features": np.float32, "edge_weights": np.float32, "edge_features": np.float32}
COLUMNS = {"ids": NODES, "distance": NODES, "in_edges": NODES, "sources": EDGES, "ranks": EDGES, "edge_ids": EDGES,
           "degrees": NODES}  # fmt: skip


class CorruptRecord(ValueError):
    """Bytes that are no GraphFeature: the ``reason``, and the number of the bad ``record`` in the batch, if known."""

    def __init__(self, reason: str, record: int | None = None) -> None:
        super().__init__(reason if record is None else f"record {record}: {reason}")
        self.reason, self.record = reason, record


@dataclass(frozen=True, eq=False)
class Strings:
    """Byte strings in one buffer, gaps allowed: string r is ``data[starts[r]:ends[r]]``."""

    data: NDArray[np.uint8]
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, strings: Sequence[bytes | memoryview]) -> "Strings":
        """Copy strings into one buffer."""
        bounds = np.concatenate(([0], np.cumsum([len(string) for string in strings], dtype=np.int64)))
        return cls(np.frombuffer(b"".join(strings), dtype=np.uint8), bounds[:-1], bounds[1:])

    def __len__(self) -> int:
        return len(self.starts)

    def select(self, rows: Ints) -> "Strings":
        """The strings ``rows``, in the same buffer."""
        return Strings(self.data, self.starts[rows], self.ends[rows])

    def split(self) -> list[memoryview]:
        """Each string as a view."""
        view = memoryview(self.data)
        return [view[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]

    @property
    def arrays(self) -> tuple[NDArray[np.uint8], Ints, Ints]:
        """Contiguous arrays for the kernels: data, starts, ends."""
        return self.data, np.ascontiguousarray(self.starts), np.ascontiguousarray(self.ends)

    @property
    def threads(self) -> int:
        """Number of threads for reading all strings."""
        return workers(int((self.ends - self.starts).sum()), 1)


@dataclass(frozen=True, eq=False)
class MergedRecords:
    """A batch's neighbourhood with the requested columns of its nodes [n, ...] and edges [nnz].

    ``neighbourhood`` has no edge ids, and its ``positions`` are places in ``edge_weights`` and ``edge_features``,
    ``None`` without those.
    ``roots`` [records] are the local numbers of the records' targets.
    """

    neighbourhood: Neighbourhood
    roots: NDArray[np.int32]
    degrees: NDArray[np.int64] | NDArray[np.float64] | None = None
    features: Features | None = None
    edge_weights: NDArray[np.float32] | None = None
    edge_features: NDArray[np.float32] | None = None


def decode_columns(strings: Strings) -> dict[str, Any]:
    """Decode records: ``node_bounds``, ``edge_bounds`` and a column for each field but ``nodes_at``.

    Numbers are int64; ``labels`` [records, width]; a column that no record has is ``None``. Raises CorruptRecord.
    """
    counts = np.empty((len(strings), 6 + len(RAW)), dtype=np.int64)
    with _named_errors():
        extension.graphfeature_count(*strings.arrays, counts, strings.threads)
    for name, column in (("hops", SPANS), ("labels", LABELS)):
        _refuse(f"it has not as many {name} as the others", counts[:, column] != counts[:, column].max(initial=0))
    nodes, edges = (np.concatenate(([0], np.cumsum(counts[:, column]))) for column in (NODES, EDGES))
    columns: dict[str, Any] = {name: np.empty((nodes, edges)[of][-1], dtype=np.int64) for name, of in COLUMNS.items()}
    labelled = int(counts[:, LABELS].max(initial=0))
    columns |= {"labels": np.empty((len(strings), labelled), np.int64), "split": np.empty(len(strings), np.int64)}
    set_features = _SetFeatures(counts, int(nodes[-1]))
    raw, item_bytes = zip(*(_floats(name, counts, place) for place, name in enumerate(RAW)), strict=True)
    with _named_errors():
        views = [None if column is None else column.reshape(-1).view(np.uint8) for column in raw]
        extension.graphfeature_decode(
            *strings.arrays, nodes, edges, list(columns.values()), labelled, views, item_bytes, *set_features.arrays,
            strings.threads
        )  # fmt: skip
    columns |= dict(zip(RAW, raw, strict=True))
    if set_features.width:
        columns["features"] = set_features.rows()
    return columns | {"hops": int(counts[:, SPANS].max(initial=1)) - 1, "node_bounds": nodes, "edge_bounds": edges}


def merge_records(
    strings: Strings,
    fanouts: tuple[int | None, ...],
    *,
    apart: bool = False,
    needed: bool = False,
    degrees: str | None = None,
    features: bool = False,
    edge_weights: bool = False,
    edge_width: int = 0,
) -> MergedRecords:
    """Merge records whose neighbourhoods were drawn with ``fanouts``: the result of ``khop`` for all their targets.

    Where a node has one sample for all targets, the record in which it is nearest to the target has the most of its
    edges, and the others a prefix of them. Samples drawn per target differ: ``apart`` keeps a copy of a node for every
    record that contains it. ``needed`` is that of ``khop``. ``degrees`` names the column of degrees to return:
    ``degrees``, ``weighted_degrees`` or none; ``features`` and ``edge_weights`` say whether to return theirs, and
    ``edge_width`` is the number of features of each edge to return. Other columns are not decoded. Raises
    CorruptRecord.
    """
    options = apart, degrees == "degrees", degrees == "weighted_degrees", features, edge_weights, edge_width
    with _named_errors():
        ids, layers, starts, indices, roots, counts, sums, values, weights, attributes, *sparse = (
            extension.graphfeature_merge(*strings.arrays, reaches(fanouts, needed), *options, strings.threads)
        )
    csr = Csr(starts.astype(index_dtype(len(indices)), copy=False), indices, (len(ids),) * 2)
    distance = np.repeat(np.arange(len(layers), dtype=np.int32), layers)
    return MergedRecords(
        Neighbourhood(ids, distance, csr, np.arange(len(indices)) if edge_weights or edge_width else None, fanouts),
        roots,
        {None: None, "degrees": counts, "weighted_degrees": sums}[degrees],
        _merged_features(values, len(ids), *sparse) if features else None,
        weights if edge_weights else None,
        attributes.reshape(-1, edge_width) if edge_width else None,
    )


def _merged_features(
    values: NDArray[np.float32], nodes: int, starts: Ints, columns: NDArray[np.int32], width: int
) -> Features:
    if not len(starts):
        return values.reshape(nodes, -1)
    return SparseFeatures(Csr(starts.astype(index_dtype(max(len(columns), width))), columns, (nodes, width)), values)


class _SetFeatures:
    """Room for the sparse features of counted records; ``width`` is 0 where they have none."""

    def __init__(self, counts: Ints, nodes: int) -> None:
        self.width, entries = int(counts[:, FEATURE_WIDTH].max(initial=0)), int(counts[:, SET_FEATURES].sum())
        _refuse("its features are not as wide as the others'", counts[:, FEATURE_WIDTH] != self.width)
        self.bounds = np.concatenate(([0], np.cumsum(counts[:, SET_FEATURES]))) if self.width else None
        self.counts = np.empty(nodes if self.width else 0, dtype=np.int64)
        self.columns = np.empty(entries if self.width else 0, dtype=np.int64)
        self.values = np.empty(len(self.columns), dtype=np.float32)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the kernel fills."""
        return self.bounds, self.counts, self.columns, self.values

    def rows(self) -> SparseFeatures:
        """The features of all nodes."""
        width = self.width - 1
        kind = index_dtype(max(len(self.columns), width, 1))
        indptr = np.concatenate(([0], np.cumsum(self.counts))).astype(kind)
        return SparseFeatures(Csr(indptr, self.columns.astype(kind), (len(self.counts), width)), self.values)


@contextmanager
def _named_errors() -> Iterator[None]:
    """Raise KernelsMissing without the extension; turn its errors into CorruptRecord with the record's number."""
    require("GraphFeatures are read")
    try:
        yield
    except ValueError as error:
        if len(error.args) != 2:
            raise
        raise CorruptRecord(*error.args) from None


def _floats(name: str, counts: Ints, place: int) -> tuple[Any, int]:
    """Allocate the array of a column per node or edge, ``None`` where no record has it; also return bytes per row."""
    rows, sizes, item = counts[:, NODES if place < 2 else EDGES], counts[:, 4 + place], np.dtype(RAW[name]).itemsize
    if not sizes.any():
        return None, 0
    total, wide = int(rows.sum()), name in ("features", "edge_features")
    width = max(1, int(sizes.sum()) // (item * max(total, 1)))
    if not wide and width > 1:
        raise CorruptRecord(f"{name} has {width} numbers of {item} bytes for each, not one", int(sizes.argmax()))
    _refuse(f"{name} has not {width} numbers of {item} bytes for each", sizes != rows * item * width)
    return np.empty((total, width) if wide else total, dtype=RAW[name]), item * width


def _refuse(reason: str, wrong: NDArray[np.bool_]) -> None:
    if wrong.any():
        raise CorruptRecord(reason, int(wrong.argmax()))
