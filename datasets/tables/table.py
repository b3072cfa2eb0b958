"""An Arrow table of a user: typed access to its columns, errors with file, column and row."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
NOT_FINITE = "a number is NaN, infinite, too large for float32 or empty: give a finite one"


class TableError(ValueError):
    """A user's table cannot become a graph; the message names file, column and row (from 1, without the header)."""


@dataclass(frozen=True)
class UserTable:
    """An Arrow table, or a batch of one, with its path; ``first`` rows of the file precede the batch."""

    path: str
    data: Any
    first: int = 0

    @property
    def is_csv(self) -> bool:
        """Whether the file is text without types, in a chained path (``zip://nodes.csv::a.zip``) by its first link."""
        return self.path.partition("::")[0].endswith(".csv")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.data.num_rows)

    def has(self, column: str) -> bool:
        """Whether a column exists."""
        return column in self._names

    @cached_property
    def _names(self) -> Counter[str]:
        """How often each name stands: Arrow makes a list of all names whenever it is asked."""
        try:
            return Counter(self.data.column_names)
        except UnicodeDecodeError as error:
            raise TableError(f"{self.path}: the name of a column is no UTF-8 ({error}): save it as UTF-8") from error

    def require(self, name: str) -> None:
        """Raise TableError unless exactly one column has this name."""
        if not self.has(name):
            columns = ", ".join(self._names.elements())
            raise TableError(f"{self.path}: there is no column {name!r}, only {columns}: name one of them")
        if (count := self._names[name]) > 1:
            raise TableError(f"{self.path}: {count} columns are called {name!r}: give each a name of its own")

    def column(self, name: str) -> Any:
        """Return a column as one Arrow array; raises TableError for none or several of this name."""
        import pyarrow

        self.require(name)
        column = self.data.column(name)
        if column.type == pyarrow.string():
            column = column.cast(pyarrow.large_string())  # an array of strings ends at 2 GiB
        if pyarrow.types.is_list(column.type):
            column = column.cast(pyarrow.large_list(column.type.value_field))  # one of lists at 2^31 numbers
        column = column.combine_chunks()
        return column.dictionary_decode() if hasattr(column, "dictionary_decode") else column

    def kind(self, name: str) -> Any:
        """Return the Arrow type of a column, without reading it; raises TableError for none or several of this name."""
        import pyarrow.types as types

        self.require(name)
        kind = self.data.schema.field(name).type
        return kind.value_type if types.is_dictionary(kind) else kind

    def ids(self, name: str) -> Any:
        """Return a column of ids, none of them empty, as an Arrow array of int64 or large_string.

        Text stays in Arrow: in an array of NumPy every id takes as much as the longest. Integers where there is no row.
        """
        import pyarrow
        import pyarrow.compute
        import pyarrow.types as types

        column = self.column(name)
        if not self.rows:
            return pyarrow.array([], pyarrow.int64())
        if types.is_null(column.type):
            self.refuse(name, np.ones(self.rows, dtype=bool), "is empty: every row needs an id")
        if not (types.is_integer(column.type) or is_string(column.type)):
            raise TableError(
                f"{self.path}: column {name!r} holds {column.type}: ids are integers or strings: write them as strings"
            )
        empty = "is empty: every row needs an id"
        self.refuse(name, np.asarray(column.is_null()), empty)
        if is_string(column.type):
            no_letters = pyarrow.compute.equal(column, "")  # an empty cell of CSV
            self.refuse(name, np.asarray(no_letters), empty)
            return column.cast(pyarrow.large_string())
        if types.is_uint64(column.type):
            too_large = column.to_numpy() > np.iinfo(np.int64).max
            self.refuse(name, too_large, "an id must fit into 63 bits: give larger ones as strings")
        return column.cast(pyarrow.int64())

    def doubles(self, name: str, column: Any = None) -> NDArray[np.float64]:
        """Return a numeric column, rounded, NaN where it is empty; ``column`` replaces the column's own values."""
        column = self.column(name) if column is None else column
        if not is_number(column.type):
            raise TableError(f"{self.path}: column {name!r} holds {self.kind(name)}: numbers are expected")
        values: NDArray[np.float64] = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
        return values

    def floats(self, name: str, width: int | None, missing: float | None = None) -> NDArray[np.float32]:
        """Return a numeric column [rows, 1] or a column of equally long lists [rows, width], all numbers finite.

        ``missing`` stands for numbers and lists that are empty, which are refused without one.
        """
        import pyarrow.compute

        column = self.column(name)
        if is_list(column.type) and not self.rows:
            return np.empty((0, width or 0), dtype=np.float32)
        if not is_list(column.type):
            values = float32_of(self.doubles(name, column))[:, None]
        else:
            if missing is None:
                self.refuse(name, np.asarray(column.is_null()), "is empty: every row needs a list of as many numbers")
            lengths = np.asarray(pyarrow.compute.list_value_length(column).fill_null(0))
            written = lengths > 0
            expected = width if width is not None else int(lengths[written.argmax()])
            wrong = (lengths != expected) & (written | (missing is None))
            self.refuse(name, wrong, f"{lengths[wrong.argmax()]} values, but {expected} are expected in every row")
            values = np.full((self.rows, expected), np.nan, dtype=np.float32)
            values[written] = float32_of(self.doubles(name, column.flatten())).reshape(int(written.sum()), expected)
        if missing is not None:
            values[np.isnan(values)] = missing
        self.refuse(name, ~np.isfinite(values).all(axis=1), NOT_FINITE)
        return values

    def refuse(self, column: str, bad: Any, problem: str) -> None:
        """Raise TableError for the first row that is bad."""
        if bad.any():
            raise TableError(f"{self.path}: row {self.first + int(bad.argmax()) + 1}, column {column!r}: {problem}")


def float32_of(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round to float32; what is too large for it becomes infinite, which ``refuse`` names by its row."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def is_string(kind: Any) -> bool:
    """Whether an Arrow type holds text."""
    import pyarrow.types as types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def is_list(kind: Any) -> bool:
    """Whether an Arrow type holds lists."""
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: Any) -> bool:
    """Whether an Arrow type holds numbers, also decimals, truth values or nothing but empty cells."""
    import pyarrow.types as types

    numeric = types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null
    return any(check(kind) for check in numeric)
