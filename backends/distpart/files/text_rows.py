"""Rows of text whose first columns are integers and whose rest is kept as it is: the files of ``pm_dglpart``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.typed_graph import GraphError

_BLOCK, _ROWS = 1 << 24, 1 << 16  # characters that are read, and rows that are converted, at a time


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

    blocks = [TextRows(np.empty((0, len(names)), dtype=np.int64), pyarrow.array([], pyarrow.large_string()))]
    first = 1
    try:
        with path.open() as file:
            while lines := file.readlines(_BLOCK):
                blocks.append(_rows_of(path, lines, names, first))
                first += len(lines)
    except FileNotFoundError as error:
        raise GraphError(f"{path} does not exist") from error
    rest = pyarrow.concat_arrays([block.rest for block in blocks])
    return TextRows(np.concatenate([block.numbers for block in blocks]), rest)


def _rows_of(path: Path, lines: list[str], names: Sequence[str], first: int) -> TextRows:
    """The rows of some lines; ``first`` is the number of the first of them."""
    import pyarrow
    from pyarrow import compute

    text = compute.utf8_trim_whitespace(pyarrow.array(lines, pyarrow.large_string()))
    words = compute.split_pattern(text, " ", max_splits=len(names))
    lengths = compute.list_value_length(words).to_numpy()
    short = np.flatnonzero(lengths < len(names))
    if len(short):
        row = int(short[0])
        raise GraphError(f"{path}: row {first + row} has {lengths[row]} columns, needed are {' '.join(names)}")
    columns = []
    for number, name in enumerate(names):
        column = compute.list_element(words, number)
        integers = compute.match_substring_regex(column, r"^-?\d{1,18}$").to_numpy(zero_copy_only=False)
        if not integers.all():
            row = int(np.flatnonzero(~integers)[0])
            raise GraphError(f"{path}: row {first + row} has {name} {column[row].as_py()!r}: an integer is needed")
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

    with path.open("w") as file:
        for start in range(0, len(rest), _ROWS):
            some = slice(start, start + _ROWS)
            columns = [pyarrow.array(np.ascontiguousarray(column[some])) for column in numbers]
            texts = [compute.cast(column, pyarrow.large_string()) for column in columns]
            space = pyarrow.scalar(" ", pyarrow.large_string())
            lines = compute.binary_join_element_wise(*texts, rest.slice(start, _ROWS), space)
            file.writelines(f"{line.rstrip(' ')}\n" for line in lines.to_pylist())


def attributes_of(rest: Any, dtype: str, what: str) -> NDArray[Any]:
    """The numbers in the text of rows, [rows, width]; raises GraphError naming a row of another width or number."""
    width = len(rest[0].as_py().split()) if len(rest) else 0
    out = np.empty((len(rest), width), dtype=_number_type(dtype, what))
    for start in range(0, len(rest), _ROWS):
        rows = [text.split() for text in rest.slice(start, _ROWS).to_pylist()]
        for number, row in enumerate(rows, start):
            if len(row) != width:
                raise GraphError(
                    f"{what}: row {number} has {len(row)} attributes, row 0 has {width}: all must have the same"
                )
        out[start : start + len(rows)] = _numbers_of(rows, out.dtype, start, what)
    return out


def _number_type(dtype: str, what: str) -> np.dtype[Any]:
    try:
        number_type = np.dtype(dtype)
    except TypeError as error:
        raise GraphError(f"{what} have the type {dtype!r}: NumPy's name of integers or floats is needed") from error
    if number_type.kind not in "iuf":
        raise GraphError(f"{what} have the type {dtype!r}: integers or floats are needed")
    return number_type


def _numbers_of(rows: list[list[str]], dtype: np.dtype[Any], first: int, what: str) -> NDArray[Any]:
    """Words as numbers of a type; raises GraphError naming the first row, counted from ``first``, with none of it."""
    try:
        return _converted(rows, dtype)
    except (ValueError, OverflowError) as error:
        if len(rows) == 1:
            raise GraphError(f"{what}: row {first} is {' '.join(rows[0])!r}: {dtype} does not hold that") from error
    half = len(rows) // 2
    halves = (rows[:half], first), (rows[half:], first + half)
    return np.concatenate([_numbers_of(some, dtype, start, what) for some, start in halves])


def _converted(rows: list[list[str]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Words as numbers of a type; raises ValueError or OverflowError for one that is none of it."""
    wide = np.array(rows, dtype=np.float64 if dtype.kind == "f" else np.int64)
    with np.errstate(over="ignore"):
        numbers: NDArray[Any] = wide.astype(dtype)
    if not (np.isfinite(numbers) if dtype.kind == "f" else numbers == wide).all():
        raise ValueError("beyond the type")
    return numbers
