"""Types of a CSV file's columns, found by a pass over it: Arrow's stream of batches takes those of its first block."""

from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any

BLOCK = 1 << 20  # bytes: Arrow reads no longer line


def csv_types(blocks: Iterable[bytes]) -> dict[str, Any]:
    """The Arrow type of each column that all of its cells have; a line that is no row ends the pass.

    ``blocks`` are the bytes of the file. Integers and decimals together are decimals; other kinds together are text.
    """
    import pyarrow
    from pyarrow import csv

    names: list[str] | None = None
    types: dict[str, Any] = {}
    for lines in _whole_lines(blocks):
        try:
            table = csv.read_csv(BytesIO(lines), csv.ReadOptions(column_names=names), lines_in_cells())
        except pyarrow.ArrowInvalid:
            break  # whoever reads the rows meets this line too, and knows its number
        names = table.column_names
        for column in table.schema:
            types[column.name] = _common(types.get(column.name, column.type), column.type)
    return types


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, about a block of them at once; one longer than ``BLOCK``, which Arrow does not read, is the last."""
    begun = b""
    for block in blocks:
        if len(begun) > BLOCK:
            break
        text = begun + block
        end = _last_end(text)
        lines, begun = text[:end], text[end:]
        if lines.strip():
            yield lines
    if begun.strip():
        yield begun


def _last_end(text: bytes) -> int:
    """Where the last whole line ends: outside of quotes, unless a single quote stands for itself (5")."""
    ends = b"\n" if b"\n" in text else b"\r"
    quoted = text.split(b'"')
    outside = len(text)
    for number in range(len(quoted) - 1, -1, -1):
        outside -= len(quoted[number])
        if number % 2 == 0 and ends in quoted[number]:
            return outside + quoted[number].rindex(ends) + 1
        outside -= 1
    return text.rfind(ends) + 1


def missing_words() -> set[str]:
    """Words that stand for an empty cell among numbers, as in Arrow, and Python's."""
    from pyarrow import csv

    return {*csv.ConvertOptions().null_values, "None"}


def lines_in_cells() -> Any:
    """Arrow's options for files whose quoted cells may hold line breaks."""
    from pyarrow import csv

    return csv.ParseOptions(newlines_in_values=True)


def _common(first: Any, second: Any) -> Any:
    import pyarrow as pa

    kinds = {first, second}
    if len(kinds) == 1:
        return first
    if pa.null() in kinds:
        return second if first == pa.null() else first
    if kinds == {pa.int64(), pa.float64()}:
        return pa.float64()
    return pa.binary() if pa.binary() in kinds else pa.string()
