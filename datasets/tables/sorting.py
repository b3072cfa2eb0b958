"""Sorting of the rows of a bucket, however large: where they do not fit into memory, by parts of the numbers' range."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from datasets.tables.out_of_core import Buckets, rows_in_pieces

PARTS = 64  # at most, of a file that is too large: each is an open file
Span = tuple[int, int]


def part_of(numbers: NDArray[np.int64], span: Span, parts: int) -> NDArray[np.int64]:
    """The part of each number, of equal ``parts`` of the numbers from ``span[0]`` to below ``span[1]``."""
    first, last = span
    return (numbers - first) * parts // (last - first)


def part_span(number: int, span: Span, parts: int) -> Span:
    """The numbers of one of these parts, likewise from its first to below its last."""
    first, last = span
    start, end = (first - (-place * (last - first) // parts) for place in (number, number + 1))
    return start, end


def sorted_rows(path: Path, spans: tuple[Span, ...], most: int) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of a bucket's file in the order of their columns, at most ``most`` at once, and delete the file.

    Column c holds numbers from ``spans[c][0]`` to below ``spans[c][1]``; no two rows are equal.
    """
    if path.stat().st_size <= most * len(spans) * np.dtype(np.int64).itemsize:
        rows = np.fromfile(path, dtype=np.int64).reshape(-1, len(spans))
        path.unlink()
        rows = rows[np.lexsort(rows.T[::-1])]
        yield rows
        return
    column = next(place for place, (first, last) in enumerate(spans) if last - first > 1)
    parts = _partitioned(path, spans, column, most)
    for number, part in enumerate(parts):
        narrower = part_span(number, spans[column], len(parts))
        yield from sorted_rows(part, (*spans[:column], narrower, *spans[column + 1 :]), most)


def _partitioned(path: Path, spans: tuple[Span, ...], column: int, most: int) -> list[Path]:
    """Move the rows of a file to files of equal parts of one column's numbers."""
    first, last = spans[column]
    parts = Buckets(path.parent, path.stem, min(PARTS, last - first), len(spans))
    for rows in rows_in_pieces(path, len(spans), most):
        parts.append(part_of(rows[:, column], spans[column], len(parts.paths)), *rows.T)
    parts.close()
    return parts.paths
