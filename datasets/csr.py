"""Compressed sparse rows by destination, the form in which every engine receives a graph's edges."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]


def index_dtype(largest: int) -> type[np.signedinteger]:
    """Return int32 while ``largest`` fits, else int64."""
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64


@dataclass(frozen=True, eq=False)
class Csr:
    """Edges by destination: row = destination, columns = sources in ascending order.

    ``indptr`` [rows + 1] and ``indices`` [nnz] are int32 while they fit. ``edge_ids`` [nnz] names the input
    row of each edge, ``None`` meaning its position here. ``shape`` is (destinations, sources).
    """

    indptr: NDArray[np.integer]
    indices: NDArray[np.integer]
    shape: tuple[int, int]
    edge_ids: NDArray[np.integer] | None = None

    @property
    def nnz(self) -> int:
        """Number of stored edges."""
        return int(self.indices.shape[0])

    @property
    def ids(self) -> NDArray[np.integer]:
        """Edge ids as an array, also where they are positions."""
        return np.arange(self.nnz, dtype=index_dtype(self.nnz)) if self.edge_ids is None else self.edge_ids

    @cached_property
    def in_degrees(self) -> NDArray[np.integer]:
        """Stored edges of each row, [rows]."""
        return np.diff(self.indptr)

    @cached_property
    def destinations(self) -> NDArray[np.integer]:
        """Row of each edge, [nnz]: the coordinate form beside ``indices``."""
        dtype = np.result_type(self.indices.dtype, index_dtype(self.shape[0]))
        return np.repeat(np.arange(self.shape[0], dtype=dtype), self.in_degrees)

    @cached_property
    def transpose(self) -> tuple["Csr", NDArray[np.integer]]:
        """The same edges by source, and the permutation: edge i of the transpose is edge ``permutation[i]`` here."""
        permutation = np.argsort(self.indices, kind="stable").astype(self.indptr.dtype, copy=False)
        counts = np.bincount(self.indices, minlength=self.shape[1])
        indptr = np.concatenate(([0], np.cumsum(counts))).astype(self.indptr.dtype)
        edge_ids = None if self.edge_ids is None else self.edge_ids[permutation]
        flipped = Csr(indptr, self.destinations[permutation], (self.shape[1], self.shape[0]), edge_ids)
        return flipped, permutation

    def edges(self, start: int, stop: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Sources and destinations of the edges at positions ``start`` to below ``stop``."""
        place = self.indptr.dtype.type  # numbers of another type would convert the whole array
        first = int(np.searchsorted(self.indptr, place(start), side="right")) - 1
        last = int(np.searchsorted(self.indptr, place(stop), side="left"))
        bounds = np.clip(self.indptr[first : last + 1], start, stop)
        rows = np.arange(first, last, dtype=index_dtype(self.shape[0]))
        return self.indices[start:stop], np.repeat(rows, np.diff(bounds))

    def rows(self, rows: NDArray[np.integer]) -> tuple["Csr", NDArray[np.int64]]:
        """Select ``rows``, in their order; also return the position here of each selected edge."""
        starts = self.indptr[rows].astype(np.int64)
        degrees = self.indptr[rows + 1] - starts
        indptr = np.concatenate(([0], np.cumsum(degrees)))
        positions = np.arange(indptr[-1]) - np.repeat(indptr[:-1], degrees) + np.repeat(starts, degrees)
        dtype = np.result_type(self.indptr.dtype, index_dtype(int(indptr[-1])))
        ids = positions.astype(index_dtype(self.nnz)) if self.edge_ids is None else self.edge_ids[positions]
        return Csr(indptr.astype(dtype), self.indices[positions], (len(rows), self.shape[1]), ids), positions


def row_ranges(indptr: NDArray[np.integer], at_once: int) -> list[tuple[int, int]]:
    """Split rows into consecutive ranges of about ``at_once`` edges each, or of one row that has more."""
    # numbers of another type would convert the starts of all rows
    edges = np.arange(at_once, int(indptr[-1]), at_once).astype(indptr.dtype)
    cuts = np.unique(np.concatenate(([0], np.searchsorted(indptr, edges), [len(indptr) - 1])))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def csr_from_edges(
    sources: NDArray[np.integer],
    destinations: NDArray[np.integer],
    shape: tuple[int, int],
    edge_ids: NDArray[np.integer] | None = None,
) -> Csr:
    """Sort an edge list by (destination, source), ties in input order; ids default to the input row."""
    check_edges(sources, destinations, shape)
    count = len(sources)
    dtype = index_dtype(max(count, *shape, 1))
    order = _edge_order(sources, destinations, shape)
    counts = np.bincount(destinations, minlength=shape[0]) if count else np.zeros(shape[0], dtype=np.int64)
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(dtype)
    ids = order if edge_ids is None else edge_ids[order]
    return Csr(indptr, sources[order].astype(dtype), shape, ids.astype(index_dtype(int(ids.max(initial=0)))))


def _edge_order(
    sources: NDArray[np.integer], destinations: NDArray[np.integer], shape: tuple[int, int]
) -> NDArray[np.integer]:
    """The edges by (destination, source), ties in input order."""
    if shape[0] * shape[1] > np.iinfo(np.int64).max:
        return np.lexsort((sources, destinations))
    keys = destinations.astype(np.int64) * shape[1] + sources
    order = np.argsort(keys)  # not stable, which takes twice as long: parallel edges, the only ties, are sorted again
    ascending = keys[order]
    is_next = ascending[1:] == ascending[:-1]
    if is_next.any():
        ties = np.flatnonzero(np.append(is_next, False) | np.append(False, is_next))
        order[ties] = order[ties][np.lexsort((order[ties], ascending[ties]))]
    return order


def check_edges(sources: NDArray[np.integer], destinations: NDArray[np.integer], shape: tuple[int, int]) -> None:
    """Refuse edge lists whose arrays differ in length or point outside ``shape``."""
    if len(sources) != len(destinations):
        raise ValueError(f"{len(sources)} sources but {len(destinations)} destinations: each edge needs one of both")
    for name, ends, bound in (("source", sources, shape[1]), ("destination", destinations, shape[0])):
        bad = np.flatnonzero((ends < 0) | (ends >= bound))
        if len(bad):
            raise ValueError(f"edge {bad[0]} has {name} {ends[bad[0]]}: allowed are node numbers from 0 to {bound - 1}")
