"""Types of a CSV file's columns, found by a pass over it: Arrow's stream of batches takes those of its first block."""

from collections.abc import Collection, Iterable, Iterator
from io import BytesIO
from typing import IO, Any

BLOCK, MOST = 1 << 20, 1 << 26  # bytes to read at once; Arrow reads no longer line
ROWS = 1000  # of a wide table, which take more than a block
WHOLE_NUMBER = "^(0|-?[1-9][0-9]{0,18})$"


def block_of(file: IO[bytes]) -> int:
    """Bytes of a CSV file to read at once, with about ``ROWS`` rows like its first two lines; it is at its start again.

    Each batch of rows costs time for each of its columns.
    """
    start = file.read(BLOCK).replace(b"\r", b"\n")
    if b"\n" not in start:
        start += file.read(MOST - BLOCK)
    file.seek(0)
    longest = max(map(len, start.split(b"\n", 4)[:4]))  # a line may end with both
    return min(max(BLOCK, ROWS * longest), MOST)


def csv_types(blocks: Iterable[bytes], longest: int = BLOCK, ids: Collection[str] = ()) -> dict[str, Any]:
    """The Arrow type of each column that all of its cells have; a line that is no row ends the pass.

    ``blocks`` are the bytes of the file. Integers and decimals together are decimals; other kinds together are text.
    The columns in ``ids`` have the types of ``id_column``. A line of more than ``longest`` bytes ends the pass too.
    """
    import pyarrow
    from pyarrow import csv

    names: list[str] | None = None
    types: dict[str, Any] = {}
    as_text = csv.ConvertOptions(column_types=dict.fromkeys(ids, pyarrow.string()))
    for lines in _whole_lines(blocks, longest):
        options = csv.ReadOptions(column_names=names, block_size=max(len(lines), BLOCK))
        try:
            table = csv.read_csv(BytesIO(lines), options, lines_in_cells(), as_text)
            names = table.column_names
        except (pyarrow.ArrowInvalid, UnicodeDecodeError):
            break  # whoever reads the rows meets this line or header too, and knows its number
        for name, column in zip(names, table.columns, strict=True):
            kind = id_column(column).type if name in ids else column.type
            types[name] = _common(types.get(name, kind), kind)
    return types


def id_column(words: Any) -> Any:
    """Ids that were read as text: as int64 where every cell is a whole number that is written in its one way.

    Else they stay text, as numbers would lose what 007, 0x1f and 20 digits say. Blanks around numbers and words for
    missing ones are those that Arrow knows, which reads the rows after that.
    """
    import pyarrow
    from pyarrow import compute, csv

    is_missing = compute.is_in(words, value_set=pyarrow.array(csv.ConvertOptions().null_values, words.type))
    numbers = compute.utf8_trim(words, characters=" \t")
    numbers = compute.if_else(is_missing, pyarrow.scalar(None, words.type), numbers)
    if numbers.null_count == len(numbers):
        return pyarrow.nulls(len(numbers))
    if not compute.all(compute.match_substring_regex(numbers, WHOLE_NUMBER)).as_py():
        return words
    try:
        return numbers.cast(pyarrow.int64())
    except pyarrow.ArrowInvalid:  # beyond 63 bits
        return words


def _whole_lines(blocks: Iterable[bytes], longest: int) -> Iterator[bytes]:
    """Whole lines, about a block of them at once; one longer than Arrow reads is the last."""
    begun = b""
    for block in blocks:
        if len(begun) > longest:
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
