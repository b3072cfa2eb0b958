"""Rows of text whose first columns are integers and whose rest is kept as it is: the files of ``pm_dglpart``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.typed_graph import GraphError


@dataclass(frozen=True)
class TextRows:
    """``numbers`` int64 [rows, columns], and the text that follows them in each row, empty if nothing does."""

    numbers: NDArray[np.int64]
    rest: Any  # a pyarrow array of strings

    def __len__(self) -> int:
        return len(self.numbers)


def read_rows(path: Path, names: Sequence[str]) -> TextRows:
    """Read rows whose first columns, by ``names``, are integers separated by single spaces.

    Raises GraphError naming the file and the row, from 1, that is too short or has something else there.
    """
    import pyarrow
    from pyarrow import compute

    try:
        text = path.read_text()
    except FileNotFoundError as error:
        raise GraphError(f"{path} does not exist") from error
    lines = pyarrow.array(text.splitlines(), pyarrow.large_string())
    if not len(lines):
        return TextRows(np.empty((0, len(names)), dtype=np.int64), lines)
    words = compute.split_pattern(compute.utf8_trim_whitespace(lines), " ", max_splits=len(names))
    lengths = compute.list_value_length(words).to_numpy()
    short = np.flatnonzero(lengths < len(names))
    if len(short):
        raise GraphError(f"{path}: row {short[0] + 1} has {lengths[short[0]]} columns, needed are {' '.join(names)}")
    columns = []
    for number, name in enumerate(names):
        column = compute.list_element(words, number)
        integers = compute.match_substring_regex(column, r"^[+-]?\d{1,18}$").to_numpy(zero_copy_only=False)
        if not integers.all():
            row = int(np.flatnonzero(~integers)[0])
            raise GraphError(f"{path}: row {row + 1} has {name} {column[row].as_py()!r}: an integer is needed")
        columns.append(compute.cast(column, pyarrow.int64()).to_numpy())
    return TextRows(np.stack(columns, axis=1), _rest(words, lengths, len(names)))


def _rest(words: Any, lengths: NDArray[np.integer], columns: int) -> Any:
    """What follows the numbers of each row."""
    import pyarrow

    last = words.offsets.to_numpy()[1:] - 1
    text = words.flatten().take(pyarrow.array(last))
    return pyarrow.compute.if_else(pyarrow.array(lengths > columns), text, pyarrow.scalar("", pyarrow.large_string()))


def write_rows(path: Path, numbers: Sequence[NDArray[np.integer]], rest: Any) -> None:
    """Write columns of integers and the text after them; a row without text ends with its last number."""
    import pyarrow
    from pyarrow import compute

    columns = [compute.cast(pyarrow.array(np.ascontiguousarray(column)), pyarrow.large_string()) for column in numbers]
    lines = compute.binary_join_element_wise(*columns, rest, pyarrow.scalar(" ", pyarrow.large_string()))
    with path.open("w") as file:
        file.writelines(f"{line.rstrip(' ')}\n" for line in lines.to_pylist())


def attributes_of(rest: Any, dtype: str, what: str) -> NDArray[Any]:
    """The numbers in the text of rows, [rows, width]; raises GraphError for rows of another width or no number."""
    rows = [text.split() for text in rest.to_pylist()]
    width = len(rows[0]) if rows else 0
    for number, row in enumerate(rows):
        if len(row) != width:
            raise GraphError(
                f"{what}: row {number} has {len(row)} attributes, row 0 has {width}: all must have the same"
            )
    try:
        values = np.array(rows, dtype=np.float64 if np.dtype(dtype).kind == "f" else np.int64)
    except (ValueError, TypeError) as error:
        raise GraphError(f"{what}: attributes are not of type {dtype}: {error}") from error
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise GraphError(f"{what}: row {row} is not finite")
    return values.astype(dtype).reshape(len(rows), width)
