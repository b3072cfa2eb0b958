"""Map: the edges of one piece, sorted by the part that owns them, which is their destination's, on disk."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.dispatch.numbering import Numbering, contiguous_bounds
from backends.distpart.open_files import allowed
from backends.distpart.typed_graph import TypedGraph
from datasets.array_files import save_array
from datasets.csr import index_dtype
from datasets.files import atomic_folder
from datasets.schema import Relation

_MOST_MAPPED = 1024  # pieces whose files stay mapped: a process may have 65,530 maps


@dataclass(frozen=True)
class Piece:
    """Some edges of a relation: ``start`` to below ``stop`` of its rows; ``number`` counts the relation's pieces."""

    relation: Relation
    kind: int  # the relation's number
    number: int
    start: int
    stop: int

    @property
    def folder(self) -> str:
        """Name of the folder of its bucket."""
        return f"{self.kind:03d}-{self.number:06d}"


def pieces_of(graph: TypedGraph, length: int) -> list[Piece]:
    """All edges in pieces of at most ``length``, relation after relation."""
    kinds = {relation: kind for kind, relation in enumerate(graph.schema.relations)}
    return [
        Piece(relation, kinds[relation], start // length, start, stop) for relation, start, stop in graph.chunks(length)
    ]


def write_bucket(graph: TypedGraph, numbering: Numbering, folder: Path, piece: Piece) -> None:
    """Sort a piece by owner and write it; nothing is done where that was done before.

    ``ends`` [2, edges]: new ids of source and destination; ``rows``: rows of the relation, ascending within an owner;
    ``owners``: the part of each row; ``counts`` [parts].
    """
    target = folder / piece.folder
    if target.is_dir():
        return
    sources, destinations = graph.read(piece.relation, piece.start, piece.stop)
    owners = numbering.parts[destinations].astype(numbering.part_dtype, copy=False)
    order = np.argsort(owners, kind="stable")
    ends = np.stack([numbering.new_ids[sources[order]], numbering.new_ids[destinations[order]]])
    rows = (piece.start + order).astype(index_dtype(max(1, graph.edges[piece.relation].count)))
    with atomic_folder(target) as temporary:
        save_array(temporary / "ends.npy", ends)
        save_array(temporary / "rows.npy", rows)
        save_array(temporary / "owners.npy", owners)
        save_array(temporary / "counts.npy", np.bincount(owners, minlength=numbering.count))


@dataclass(frozen=True, eq=False)
class Share:
    """The edges of one part in one piece, or some of them: new ids of both ends and rows of the relation, mapped."""

    kind: int
    first_id: int  # new id of the first edge
    sources: NDArray[np.integer]
    destinations: NDArray[np.integer]
    rows: NDArray[np.integer]
    places: NDArray[np.int64] | None = None  # of these edges among all of the share, ``None``: these are all

    @property
    def ids(self) -> NDArray[np.int64]:
        """New ids of the edges."""
        return self.first_id + (np.arange(len(self.rows)) if self.places is None else self.places)

    def chosen(self, places: NDArray[np.int64]) -> "Share":
        """The edges at some places, in memory."""
        arrays = (array[places] for array in (self.sources, self.destinations, self.rows))
        return Share(self.kind, self.first_id, *arrays, places)


class EdgeBuckets:
    """All pieces, when they are written, as the parts read them; new ids of edges follow from their numbers."""

    def __init__(self, folder: Path, pieces: list[Piece], parts: int, relations: int) -> None:
        self.folder, self.pieces = folder, pieces
        shape = (len(pieces), parts)
        self.counts = np.array([np.load(folder / piece.folder / "counts.npy") for piece in pieces], np.int64).reshape(
            shape
        )
        self.ends = np.cumsum(self.counts, axis=1)  # where the share of each part ends in a piece
        kinds = np.array([piece.kind for piece in pieces], dtype=np.int64)
        self.starts = np.searchsorted(kinds, np.arange(relations + 1)).tolist()  # first piece of each relation
        sizes = np.zeros((parts, relations), dtype=np.int64)
        before = np.zeros_like(self.counts)  # edges of the same part and relation in earlier pieces
        for kind, of_kind in enumerate(map(slice, self.starts[:-1], self.starts[1:])):
            sizes[:, kind] = self.counts[of_kind].sum(axis=0)
            before[of_kind] = np.cumsum(self.counts[of_kind], axis=0) - self.counts[of_kind]
        self.bounds = contiguous_bounds(sizes)  # first new id by part and relation, and the end
        self.first_ids = self.bounds[:, :-1].T[kinds].reshape(shape) + before
        self._mapped: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """All but the mapped files: another process maps them itself."""
        return self.__dict__ | {"_mapped": {}}

    def owners(self) -> Iterator[NDArray[np.integer]]:
        """The part of each edge, piece after piece."""
        return (np.load(self.folder / piece.folder / "owners.npy", mmap_mode="r") for piece in self.pieces)

    def shares(self, part: int, kind: int | None = None) -> Iterator[Share]:
        """The edges of a part, in the order of their new ids; of relation ``kind`` alone unless it is ``None``."""
        return (self.share(number, part) for number in self.pieces_with(part, kind))

    def pieces_with(self, part: int, kind: int | None = None) -> Iterator[int]:
        """Numbers of the pieces in which a part has edges; of relation ``kind`` alone unless it is ``None``."""
        first, last = (0, len(self.counts)) if kind is None else self.starts[kind : kind + 2]
        yield from (first + np.flatnonzero(self.counts[first:last, part])).tolist()

    def _map(self, number: int) -> tuple[NDArray[Any], NDArray[Any]]:
        files = (self.folder / self.pieces[number].folder / name for name in ("ends.npy", "rows.npy"))
        ends, rows = (np.load(file, mmap_mode="r") for file in files)
        if len(self._mapped) < min(_MOST_MAPPED, allowed() // 4):  # of two files each
            self._mapped[number] = ends, rows
        return ends, rows

    def share(self, number: int, part: int) -> Share:
        """The edges of a part in a piece, of which it has some."""
        piece = self.pieces[number]
        start, stop = self.ends[number, part] - self.counts[number, part], self.ends[number, part]
        ends, rows = self._mapped.get(number) or self._map(number)
        return Share(
            piece.kind, int(self.first_ids[number, part]), ends[0, start:stop], ends[1, start:stop], rows[start:stop]
        )
