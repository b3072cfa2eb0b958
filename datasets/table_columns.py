"""Columns of a user's table as arrays; whatever is wrong is said with file, column and row."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.graph import MISSING, NO_SPLIT, SPLITS

Values = NDArray[Any]
SPLIT_NAMES = SPLITS | {"valid": SPLITS["validation"], "val": SPLITS["validation"], "none": NO_SPLIT, "": NO_SPLIT}


class TableError(ValueError):
    """A user's table cannot become a graph; the message names file, column and row (from 1, without the header)."""


@dataclass(frozen=True)
class Table:
    """An Arrow table, or a piece of one, and where it came from; ``first`` rows of the file stand before it."""

    path: str
    data: Any
    first: int = 0

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.data.num_rows)

    def has(self, column: str) -> bool:
        """Whether a column exists."""
        return column in self.data.column_names

    def column(self, name: str) -> Any:
        """Return a column as one Arrow array; raises TableError with the existing names."""
        if not self.has(name):
            raise TableError(f"{self.path}: there is no column {name!r}, only {', '.join(self.data.column_names)}")
        column = self.data.column(name).combine_chunks()
        return column.dictionary_decode() if hasattr(column, "dictionary_decode") else column

    def values(self, name: str) -> Values:
        """Return integers or strings without gaps, as ids must be."""
        import pyarrow.types as types

        column = self.column(name)
        if not (types.is_integer(column.type) or types.is_string(column.type) or types.is_large_string(column.type)):
            raise TableError(f"{self.path}: column {name!r} holds {column.type}: ids are integers or strings")
        self.refuse(name, np.asarray(column.is_null()), "is empty")
        array: Values = column.to_numpy(zero_copy_only=False)
        if array.dtype == np.uint64:
            self.refuse(
                name, array > np.iinfo(np.int64).max, "an id must fit into 63 bits: give larger ones as strings"
            )
        return array.astype(np.int64 if types.is_integer(column.type) else str)

    def refuse(self, column: str, bad: Any, problem: str) -> None:
        """Raise TableError for the first row that is bad."""
        if bad.any():
            raise TableError(f"{self.path}: row {self.first + int(bad.argmax()) + 1}, column {column!r}: {problem}")


def positions_of(nodes: Table, ids: Values, edges: Table, column: str) -> NDArray[np.int64]:
    """Map one end of every edge to the row of its node; ids must be unique and known."""
    order = np.argsort(ids, kind="stable")
    again = np.zeros(len(ids), dtype=bool)
    again[order[1:]] = ids[order[1:]] == ids[order[:-1]]
    if again.any():
        raise TableError(f"{nodes.path}: row {int(again.argmax()) + 1}: id {ids[again.argmax()]!r} appeared before")
    ends = edges.values(column)
    if ends.dtype.kind != ids.dtype.kind:
        raise TableError(f"{edges.path}: column {column!r} holds {ends.dtype}, but the ids of {nodes.path} {ids.dtype}")
    found = np.minimum(np.searchsorted(ids, ends, sorter=order), len(ids) - 1)
    dangling = ids[order[found]] != ends
    if dangling.any():
        edges.refuse(column, dangling, f"no node has the id {ends[dangling.argmax()]!r} in {nodes.path}")
    return order[found].astype(np.int64)


def features_of(
    table: Table, columns: str | list[str] | None, roles: Collection[str], width: int | None
) -> NDArray[np.float32] | None:
    """Put feature columns side by side, float32 [nodes, width]; ``None`` if there are none."""
    names = _default_features(table, roles) if columns is None else [columns] if isinstance(columns, str) else columns
    parts = [_numbers(table, name, width if len(names) == 1 else None) for name in names]
    if not parts:
        return None
    features = np.concatenate(parts, axis=1)
    if width is not None and features.shape[1] != width:
        raise TableError(
            f"{table.path}: {features.shape[1]} features in {', '.join(names)}, but width={width} was asked"
        )
    return features


def weights_of(table: Table, column: str) -> NDArray[np.float32] | None:
    """Read edge weights if the column exists."""
    return _numbers(table, column, None)[:, 0] if table.has(column) else None


def types_of(table: Table, column: str) -> NDArray[np.int32] | None:
    """Read types of nodes or edges, whole numbers from 0, if the column exists."""
    if not table.has(column):
        return None
    values = _doubles(table, column)
    allowed = (values >= 0) & (values == np.floor(values)) & (values <= np.iinfo(np.int32).max)
    table.refuse(column, ~allowed, "a type is a whole number from 0")
    return values.astype(np.int32)


def edge_arrays(
    table: Table, weight: str, types: str, features: str | list[str] | None
) -> dict[str, NDArray[Any] | None]:
    """Read what is known of edges, by its name in ``Graph``; features only of the columns that are named."""
    held = None if features is None else features_of(table, features, (), None)
    return {"edge_weights": weights_of(table, weight), "edge_types": types_of(table, types), "edge_features": held}


def labels_of(table: Table, label: str | list[str]) -> tuple[NDArray[np.integer] | None, int]:
    """Read classes as int64 [nodes], or 0/1 columns or lists as int8 [nodes, classes]; empty means missing (-1)."""
    import pyarrow.types as types

    if isinstance(label, list):
        columns = [_classes(table, name, 2)[0] for name in label]
        return np.stack(columns, axis=1).astype(np.int8), len(label)
    if not table.has(label):
        return None, 0
    if _is_list(table.column(label).type):
        bits = _numbers(table, label, None)
        table.refuse(label, ~np.isin(bits, (MISSING, 0, 1)).all(axis=1), "a list of labels holds 0, 1 or -1 (missing)")
        return bits.astype(np.int8), bits.shape[1]
    if types.is_string(table.column(label).type) or types.is_large_string(table.column(label).type):
        encoded = table.column(label).to_numpy(zero_copy_only=False)
        known = np.array([value not in (None, "") for value in encoded])
        names, codes = np.unique(encoded[known].astype(str), return_inverse=True)
        classes = np.full(table.rows, MISSING, dtype=np.int64)
        classes[known] = codes
        return classes, len(names)
    return _classes(table, label, None)


def split_of(table: Table, column: str) -> NDArray[np.int8] | None:
    """Read the split of every node if the column exists: train, validation (valid, val), test, none or empty."""
    if not table.has(column):
        return None
    names = ["" if name is None else str(name) for name in table.column(column).to_pylist()]
    unknown = np.array([name not in SPLIT_NAMES for name in names])
    if unknown.any():
        table.refuse(column, unknown, f"split {names[unknown.argmax()]!r} is none of train, validation, test, none")
    return np.array([SPLIT_NAMES[name] for name in names], dtype=np.int8)


def _classes(table: Table, column: str, bound: int | None) -> tuple[NDArray[np.int64], int]:
    values = _doubles(table, column)
    values = np.where(np.isnan(values), MISSING, values)
    allowed = (values == np.floor(values)) & (values >= MISSING) & (values < (np.inf if bound is None else bound))
    table.refuse(column, ~allowed, f"a class is a whole number from 0{'' if bound is None else f' to {bound - 1}'}")
    return values.astype(np.int64), int(values.max(initial=-1)) + 1


def _is_list(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return any(check(kind) for check in (types.is_integer, types.is_floating, types.is_boolean, types.is_null))


def _default_features(table: Table, roles: Collection[str]) -> list[str]:
    usable = [name for name in table.data.column_names if name not in roles]
    return [name for name in usable if _is_list(table.column(name).type) or _is_number(table.column(name).type)]


def _numbers(table: Table, name: str, width: int | None) -> NDArray[np.float32]:
    """Return a numeric column [rows, 1] or a column of equally long lists [rows, width]; nothing may be NaN."""
    import pyarrow.compute

    column = table.column(name)
    if _is_list(column.type):
        lengths = np.asarray(pyarrow.compute.list_value_length(column).fill_null(-1))
        expected = int(lengths[0]) if width is None else width
        wrong = lengths != expected
        table.refuse(name, wrong, f"{lengths[wrong.argmax()]} values, but {expected} are expected in every row")
        flat = column.flatten()
    else:
        expected, flat = 1, column
    values = _doubles(table, name, flat).astype(np.float32).reshape(table.rows, expected)
    table.refuse(name, ~np.isfinite(values).all(axis=1), "a number is NaN, infinite or empty")
    return values


def _doubles(table: Table, name: str, column: Any = None) -> NDArray[np.float64]:
    """Return numbers with NaN where there is none; raises TableError for a column of anything else."""
    column = table.column(name) if column is None else column
    if not _is_number(column.type):
        raise TableError(f"{table.path}: column {name!r} holds {column.type}: numbers are expected")
    values: NDArray[np.float64] = column.cast("float64").to_numpy(zero_copy_only=False)
    return values
