"""GraphFeatures in Protocol Buffers' wire format: decoded whole, or merged into the neighbourhood of a batch.

The schema is ``backends/agl/graphfeature.proto``. Only the compiled kernels read it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.native import native, workers
from backends.kernels.neighbourhood import Neighbourhood, reaches
from datasets.csr import Csr, index_dtype

Ints = NDArray[np.int64]
NODES, EDGES, SPANS, LABELS = range(4)
RAW = {"weighted_degrees": np.float64, "features": np.float32, "edge_weights": np.float32, "edge_features": np.float32}
COLUMNS = {"ids": NODES, "distance": NODES, "in_edges": NODES, "sources": EDGES, "ranks": EDGES, "edge_ids": EDGES,
           "degrees": NODES}  # fmt: skip


class CorruptRecord(ValueError):
    """Bytes that are no GraphFeature; ``record`` is its place among those that were read, where one is to blame."""

    def __init__(self, told: str, record: int | None = None) -> None:
        super().__init__(told if record is None else f"record {record}: {told}")
        self.told, self.record = told, record


@dataclass(frozen=True, eq=False)
class Strings:
    """Byte strings anywhere in one buffer: string r is ``data[starts[r]:ends[r]]``."""

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

    def taken(self, rows: Ints) -> "Strings":
        """Some of the strings, where they lie."""
        return Strings(self.data, self.starts[rows], self.ends[rows])

    def split(self) -> list[memoryview]:
        """Each string as a view."""
        view = memoryview(self.data)
        return [view[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]

    @property
    def arrays(self) -> tuple[NDArray[np.uint8], Ints, Ints]:
        """What the kernels take."""
        return self.data, np.ascontiguousarray(self.starts), np.ascontiguousarray(self.ends)

    @property
    def threads(self) -> int:
        """Threads worth starting."""
        return workers(int((self.ends - self.starts).sum()), 1)


@dataclass(frozen=True, eq=False)
class Merged:
    """A batch's neighbourhood and what was asked for of its nodes [n, ...] and edges [nnz].

    ``held`` has no edge ids, and its ``positions`` are places in ``edge_weights``, ``None`` without those. ``roots``
    [records] are rows of ``held``, the records' targets.
    """

    held: Neighbourhood
    roots: NDArray[np.int32]
    degrees: NDArray[np.int64] | NDArray[np.float64] | None = None
    features: NDArray[np.float32] | None = None
    edge_weights: NDArray[np.float32] | None = None


def decode_columns(strings: Strings) -> dict[str, Any]:
    """Decode all that records hold: ``node_bounds``, ``edge_bounds`` and a column for each field but ``nodes_at``.

    Numbers are int64; ``labels`` [records, width]; a column that no record has is ``None``. Raises CorruptRecord.
    """
    counts = np.empty((len(strings), 4 + len(RAW)), dtype=np.int64)
    with _checked():
        native.graphfeature_count(*strings.arrays, counts, strings.threads)
    for name, column in (("hops", SPANS), ("labels", LABELS)):
        _refuse(f"it has not as many {name} as the others", counts[:, column] != counts[:, column].max(initial=0))
    nodes, edges = (np.concatenate(([0], np.cumsum(counts[:, column]))) for column in (NODES, EDGES))
    found: dict[str, Any] = {name: np.empty((nodes, edges)[of][-1], dtype=np.int64) for name, of in COLUMNS.items()}
    labelled = int(counts[:, LABELS].max(initial=0))
    found |= {"labels": np.empty((len(strings), labelled), np.int64), "split": np.empty(len(strings), np.int64)}
    raw, each = zip(*(_floats(name, counts, place) for place, name in enumerate(RAW)), strict=True)
    with _checked():
        views = [None if column is None else column.reshape(-1).view(np.uint8) for column in raw]
        native.graphfeature_decode(*strings.arrays, nodes, edges, list(found.values()), labelled, views, each,
                                   strings.threads)  # fmt: skip
    found |= dict(zip(RAW, raw, strict=True))
    return found | {"hops": int(counts[:, SPANS].max(initial=1)) - 1, "node_bounds": nodes, "edge_bounds": edges}


def merge_records(
    strings: Strings,
    fanouts: tuple[int | None, ...],
    *,
    apart: bool = False,
    needed: bool = False,
    degrees: str | None = None,
    features: bool = False,
    edge_weights: bool = False,
) -> Merged:
    """Merge records whose neighbourhoods were drawn with ``fanouts``: what ``khop`` finds for all their targets.

    Where a node has one sample for all targets, the record that holds it nearest to its target has the most of its
    edges, and the others a prefix of them. Samples drawn per target differ: ``apart`` keeps a copy of a node for every
    record that holds it. ``needed`` is that of ``khop``. ``degrees`` asks for ``degrees`` or ``weighted_degrees``,
    ``features`` for those that are in the records. Only what is asked for is decoded. Raises CorruptRecord.
    """
    wanted = apart, degrees == "degrees", degrees == "weighted_degrees", features, edge_weights
    with _checked():
        ids, layers, starts, indices, roots, whole, weighted, values, weights = native.graphfeature_merge(
            *strings.arrays, reaches(fanouts, needed), *wanted, strings.threads
        )
    csr = Csr(starts.astype(index_dtype(len(indices)), copy=False), indices, (len(ids),) * 2)
    distance = np.repeat(np.arange(len(layers), dtype=np.int32), layers)
    return Merged(
        Neighbourhood(ids, distance, csr, np.arange(len(weights)) if edge_weights else None, fanouts),
        roots,
        {None: None, "degrees": whole, "weighted_degrees": weighted}[degrees],
        values.reshape(len(ids), -1) if features else None,
        weights if edge_weights else None,
    )


@contextmanager
def _checked() -> Iterator[None]:
    """Refuse to go without the kernels; name the record that they could not read."""
    if native is None:
        raise RuntimeError("GraphFeatures are read by the compiled kernels: build them with pip install -e .")
    try:
        yield
    except ValueError as error:
        if len(error.args) != 2:
            raise
        raise CorruptRecord(*error.args) from None


def _floats(name: str, counts: Ints, place: int) -> tuple[Any, int]:
    """Room for numbers per node or edge, [count] or [count, width], ``None`` where no record has any; bytes of each."""
    held, sizes, item = counts[:, NODES if place < 2 else EDGES], counts[:, 4 + place], np.dtype(RAW[name]).itemsize
    if not sizes.any():
        return None, 0
    total, wide = int(held.sum()), name in ("features", "edge_features")
    width = max(1, int(sizes.sum()) // (item * max(total, 1)))
    if not wide and width > 1:
        raise CorruptRecord(f"{name} has {width} numbers of {item} bytes for each, not one", int(sizes.argmax()))
    _refuse(f"{name} has not {width} numbers of {item} bytes for each", sizes != held * item * width)
    return np.empty((total, width) if wide else total, dtype=RAW[name]), item * width


def _refuse(told: str, wrong: NDArray[np.bool_]) -> None:
    if wrong.any():
        raise CorruptRecord(told, int(wrong.argmax()))
