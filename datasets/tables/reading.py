"""Parquet and CSV tables on any path that fsspec opens, read whole or in batches of rows."""

import hashlib
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import IO, Any

from datasets.tables.csv_types import block_of, csv_types, id_column, lines_in_cells
from datasets.tables.out_of_core import Progress, silent
from datasets.tables.table import TableError, UserTable

BLOCK = 1 << 20
LARGE = 64 << 20  # bytes of a file that is read for seconds, or longer from another machine
BYTES_PER_ROW = 8  # of a CSV file, rarely fewer
ROWS_AT_ONCE = 1 << 17  # at most
BYTES_PER_CELL = 24  # as Arrow holds it, as float64, and twice as float32
ENDINGS = (".parquet", ".pq", ".csv")
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)  # of a file inside of an archive


def read_table(
    path: str, role: str, text: Sequence[str] = (), may_be_empty: bool = False, ids: Sequence[str] = ()
) -> UserTable:
    """Read a whole table; raises TableError for one that cannot be read, or has no rows unless it ``may_be_empty``.

    A CSV file has no types: its columns in ``text`` are read as text, even where all cells are numbers, those in
    ``ids`` unless all are whole numbers (``id_column``).
    """
    import pyarrow
    from pyarrow import parquet

    is_csv = _ending(path, role) == ".csv"
    try:
        with _open(path) as file:
            table = UserTable(path, _whole_csv(file, text, ids) if is_csv else parquet.read_table(file))
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error
    if not table.rows and not may_be_empty:
        raise _empty(path, role)
    return table


def _whole_csv(file: IO[bytes], text: Sequence[str], ids: Sequence[str]) -> Any:
    import pyarrow
    from pyarrow import csv

    in_order = csv.ReadOptions(use_threads=False, block_size=block_of(file))  # With threads, errors do not name rows.
    as_text = csv.ConvertOptions(column_types=dict.fromkeys([*text, *ids], pyarrow.string()))
    table = csv.read_csv(file, in_order, lines_in_cells(), as_text)
    for name in {*ids} - {*text}:
        if (place := table.schema.get_field_index(name)) >= 0:  # else there is none, or several
            table = table.set_column(place, name, id_column(table.column(place)))
    return table


def read_batches(
    path: str,
    role: str,
    memory: int,
    progress: Progress = silent,
    text: Sequence[str] = (),
    may_be_empty: bool = False,
    ids: Sequence[str] = (),
) -> Iterator[UserTable]:
    """Yield a table in batches of rows, with the row number of each; ``text``, ``ids``, errors as of ``read_table``.

    A batch of a Parquet file takes about ``memory`` bytes with the arrays that are made of it, one of CSV a few MiB,
    more only where rows are wide.
    One that ``may_be_empty`` and is yields a batch of no rows.
    ``progress`` is that of the pass over a large CSV file that finds the types of its columns.
    """
    import pyarrow
    from pyarrow import parquet

    ending = _ending(path, role)
    first = 0
    try:
        with _open(path) as file:
            is_csv = ending == ".csv"
            parts = (
                _csv_batches(file, role, progress, text, ids)
                if is_csv
                else _parquet_batches(parquet.ParquetFile(file), memory)
            )
            for batch in parts:
                if batch.num_rows:
                    yield UserTable(path, pyarrow.Table.from_batches([batch]), first)
                first += batch.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(f"{path}: after row {first}", error) from error
    if not first and not may_be_empty:
        raise _empty(path, role)
    if not first:
        yield read_columns(path, role)


def read_columns(path: str, role: str, progress: Progress = silent) -> UserTable:
    """The columns of a table with their types, without its rows; raises TableError for one that cannot be read."""
    import pyarrow
    from pyarrow import parquet

    ending = _ending(path, role)
    try:
        with _open(path) as file:
            is_csv = ending == ".csv"
            schema = pyarrow.schema(_csv_types(file, role, progress)[1]) if is_csv else parquet.read_schema(file)
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error
    return UserTable(path, schema.empty_table())


def _csv_types(
    file: IO[bytes], role: str, progress: Progress, ids: Sequence[str] = ()
) -> tuple[int, list[tuple[str, Any]]]:
    """Bytes to read at once, and the columns with the types that they have in the whole file."""
    block = block_of(file)
    blocks = _blocks(file, f"MiB of the {role} table, for its types", progress, block)
    return block, list(csv_types(blocks, block, ids).items())


def _csv_batches(
    file: IO[bytes], role: str, progress: Progress, text: Sequence[str], ids: Sequence[str]
) -> Iterator[Any]:
    """Batches of rows, with the types that the columns have in the whole file."""
    import pyarrow
    from pyarrow import csv

    block, columns = _csv_types(file, role, progress, ids)
    file.seek(0)
    in_order = csv.ReadOptions(use_threads=False, block_size=block)
    types = csv.ConvertOptions(column_types=dict(columns) | dict.fromkeys(text, pyarrow.string()))
    yield from csv.open_csv(file, in_order, lines_in_cells(), types)


def _parquet_batches(file: Any, memory: int) -> Iterator[Any]:
    """Batches of rows, one row group after the other: one iterator over all holds on to what it has read."""
    for group in range(file.num_row_groups):
        rows = _rows_within(memory, file.metadata.row_group(group))
        yield from file.iter_batches(rows, row_groups=[group])


def _rows_within(memory: int, group: Any) -> int:
    """Rows of a row group to read at once: as many as take ``memory`` bytes, by its numbers of cells and bytes."""
    cells = sum(group.column(place).num_values for place in range(group.num_columns))
    size = max(cells * BYTES_PER_CELL, group.total_byte_size, 1)
    return max(min(memory * group.num_rows // size, ROWS_AT_ONCE), 1)


def most_rows(path: str, role: str) -> int:
    """Upper bound of a table's rows, from its footer or its bytes, without reading it."""
    import pyarrow
    from pyarrow import parquet

    ending = _ending(path, role)
    try:
        with _open(path) as file:
            if ending != ".csv":
                return int(parquet.ParquetFile(file).metadata.num_rows)
            return file.seek(0, 2) // BYTES_PER_ROW + 1
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def table_sha256(path: str, step: str = "MiB hashed", progress: Progress = silent) -> str:
    """Hash the bytes of one table's file; ``progress`` hears of ``step`` where the file is large."""
    sha256 = hashlib.sha256()
    with _open(path) as file:
        for block in _blocks(file, step, progress):
            sha256.update(block)
    return sha256.hexdigest()


def _blocks(file: IO[bytes], step: str, progress: Progress, block_size: int = BLOCK) -> Iterator[bytes]:
    """Yield a file in blocks; ``progress`` hears of those of a large file whose size is known."""
    size, done = getattr(file, "size", None) or 0, 0
    while block := file.read(block_size):
        yield block
        done += len(block)
        if size >= LARGE:
            progress(step, done >> 20, size >> 20)


@contextmanager
def _open(path: str) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        try:
            file = stack.enter_context(import_module("fsspec").open(path, "rb"))
        except (ImportError, ValueError) as error:  # a file system that is unknown or whose package is not installed
            raise TableError(f"{path}: {error}; give a local path or one that fsspec opens") from error
        except Exception as error:  # each file system has errors of its own
            if isinstance(error, FileNotFoundError) or getattr(error, "errno", None) is not None:
                raise  # with the name of the file
            advice = "see that its name is right, that its server answers, and that this user may read there"
            raise TableError(f"{path} cannot be reached ({type(error).__name__}: {error}): {advice}") from error
        try:
            yield file
        except DAMAGED as error:
            raise TableError(f"{path} is damaged ({error}): write it again, or copy it again") from error
        except ValueError as error:
            if isinstance(error, TableError) or "seek" not in str(error):
                raise
            raise TableError(f"{path} can be read only once ({error}): copy it to this machine") from error


def _ending(path: str, role: str) -> str:
    """Return the ending that names the format, in a chained path (``zip://nodes.csv::a.zip``) of its first link."""
    first = path.partition("::")[0]
    for ending in ENDINGS:
        if first.endswith(ending):
            return ending
    if first.endswith(PACKED):
        inside = f", or name the file inside: zip://NAME.csv::{path}" if first.endswith(".zip") else ""
        raise TableError(f"{path}: the {role} table is packed: unpack it first{inside}")
    raise TableError(f"{path}: the name of the {role} table must end with one of {', '.join(ENDINGS)}")


def _empty(path: str, role: str) -> TableError:
    return TableError(f"{path}: the {role} table has no rows: it needs at least one")


def _unreadable(where: str, error: Exception) -> Exception:
    """Name the file that Arrow cannot read; an error of the file system, which has a number, names it itself."""
    if isinstance(error, FileNotFoundError):
        return TableError(f"{where} does not exist: give the path of a table that does")
    if isinstance(error, IsADirectoryError):
        return TableError(f"{where} is a folder: give one file, into which the parts of a table are joined")
    return error if getattr(error, "errno", None) is not None else TableError(f"{where}: {error}")
