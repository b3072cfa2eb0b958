"""Types of a CSV file's columns, found by a pass over it: Arrow's stream of batches takes those of its first block."""

from collections.abc import Iterator
from io import BytesIO
from typing import IO, Any

BLOCK = 1 << 20


def csv_types(file: IO[bytes]) -> dict[str, Any]:
    """The Arrow type of each column that all of its cells have; a line that is no row ends the pass.

    Integers and decimals together are decimals; other kinds of cells together are text.
    """
    import pyarrow
    from pyarrow import csv

    names: list[str] | None = None
    types: dict[str, Any] = {}
    for block in _blocks(file):
        try:
            table = csv.read_csv(BytesIO(block), csv.ReadOptions(column_names=names))
        except pyarrow.ArrowInvalid:
            break  # whoever reads the rows meets this line too, and knows its number
        names = table.column_names
        for column in table.schema:
            types[column.name] = _common(types.get(column.name, column.type), column.type)
    return types


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Whole lines, of about ``BLOCK`` bytes together; a longer line, which Arrow does not read, is the last."""
    begun = b""
    while (block := file.read(BLOCK)) and len(begun) <= BLOCK:
        text = begun + block
        lines, end, begun = text.rpartition(b"\n" if b"\n" in text else b"\r")
        if lines.strip():
            yield lines + end
    if begun.strip():
        yield begun


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
