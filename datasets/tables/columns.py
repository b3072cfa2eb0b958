"""Columns of a user's tables as the arrays of a graph: positions of edge ends, features, weights, types, labels."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.graph import MISSING, NO_SPLIT, SPLITS
from datasets.randomness import uniform
from datasets.tables.csv_types import missing_words
from datasets.tables.options import names_of
from datasets.tables.table import TableError, UserTable, is_list, is_number, is_string

MOST_CLASSES = 1 << 20  # a larger number is no class but an id or a code: a model has an output for each
NO_COLUMN = "none"  # as the name of a column that may be absent: it is not read, unless one is called so
ROW_NUMBERS = re.compile(r"(__index_level_\d+__|Unnamed: \d+)?")  # as pandas calls a column of them, or not at all
TOLD = {"label", "split"}  # what a model must not see, also where another column has that role
LISTED = 20  # words
SPLIT_NAMES = SPLITS | {"valid": SPLITS["validation"], "val": SPLITS["validation"], "none": NO_SPLIT, "": NO_SPLIT}


def positions_of(nodes: UserTable, ids: Any, edges: UserTable, column: str) -> NDArray[np.int64]:
    """Map one end of every edge to the row of its node among the Arrow array ``ids``; they must be unique and known."""
    import pyarrow.compute

    first_rows = ids.dictionary_encode().indices.to_numpy()  # ids are numbered as they first appear
    repeated = first_rows < np.arange(len(ids))
    if repeated.any():
        row = int(repeated.argmax())
        raise TableError(
            f"{nodes.path}: row {row + 1}: id {ids[row].as_py()!r} appeared before: every node needs its own"
        )
    ends = edges.ids(column)
    if not len(ends):
        return np.empty(0, dtype=np.int64)
    check_kind(edges, column, id_kind(ends), nodes.path, id_kind(ids))
    places = pyarrow.compute.index_in(ends, value_set=ids)
    dangling = np.asarray(places.is_null())
    if dangling.any():
        edges.refuse(column, dangling, unknown_id(nodes.path, repr(ends[int(dangling.argmax())].as_py())))
    return np.asarray(places).astype(np.int64)


def id_kind(ids: Any) -> str:
    """Return whether an Arrow array of ids holds integers or strings, for comparisons and errors."""
    return "strings" if is_string(ids.type) else "integers"


def check_kind(table: UserTable, column: str, kind: str, nodes: str, expected: str) -> None:
    """Raise TableError if a column's ids are of another kind than those of the node table at path ``nodes``."""
    if table.rows and kind != expected:
        raise TableError(
            f"{table.path}: column {column!r} holds {kind}, but the ids of {nodes} are {expected}: give both alike"
        )


def unknown_id(path: str, node_id: object) -> str:
    """Return the message for an edge whose end is no node."""
    return f"no node has the id {node_id} in {path}: add a row for it there or remove the edge"


def require_named(options: Any, roles: Iterable[str], tables: Sequence[UserTable]) -> None:
    """Raise TableError for a column that an option names and no table has; one of a default name may be absent."""
    defaults = {option.name: option.default for option in fields(options)}
    for role in roles:
        name = getattr(options, role)
        is_default = name in (defaults[role], NO_COLUMN) or not isinstance(name, str)
        is_column = not is_default and (role != "split" or shares_of(name) is None)
        if is_column and not any(table.has(name) for table in tables):
            tables[0].require(name)


def features_of(
    table: UserTable, columns: str | list[str] | None, roles: Collection[str], width: int | None
) -> NDArray[np.float32] | None:
    """Concatenate feature columns to float32 [nodes, width]; ``None`` if there are none."""
    names = default_features(table, roles) if columns is None else names_of(columns)
    parts = [table.floats(name, width if len(names) == 1 else None) for name in names]
    if not parts and not width:
        return None
    if not parts:
        raise TableError(
            f"{table.path}: no column of features, but width={width}: name the columns with features=[...]"
        )
    features = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    if width is not None and features.shape[1] != width:
        raise TableError(
            f"{table.path}: {features.shape[1]} features in {', '.join(names)}, but width={width}: "
            "change the width or name the columns with features=[...]"
        )
    return features


def default_features(table: UserTable, roles: Collection[str]) -> list[str]:
    """The columns of numbers or of lists of numbers that have no role, in the order of the table.

    Row numbers as pandas writes them, and columns called label or split, are none unless they are named.
    """
    return [name for name in table.data.column_names if name not in roles and _is_feature(table, name)]


def notes_of_columns(table: UserTable, roles: Collection[str]) -> tuple[str, ...]:
    """A note on columns that are no features by default: a single word makes a whole column of a CSV file text."""
    others = [name or '""' for name in table.data.column_names if name not in roles and not _is_feature(table, name)]
    return (f"columns that are no features unless they are named: {_listed(others)}",) if others else ()


def notes_of_labels(table: UserTable, label: str | list[str]) -> tuple[str, ...]:
    """A note on classes that are words, in the order of their numbers: a stray word makes a class of its own."""
    words = None if isinstance(label, list) else label_words(table, label)
    if words is None:
        return ()
    return (f"classes are words, numbered in this order: {_listed(word_names([words]))}",)


def _listed(names: Sequence[str]) -> str:
    more = [f"and {len(names) - LISTED} more"] if len(names) > LISTED else []
    return ", ".join([*names[:LISTED], *more])


def _is_feature(table: UserTable, name: str) -> bool:
    import pyarrow.types as types

    kind = table.kind(name)
    value = kind.value_type if is_list(kind) else kind
    is_other = name in TOLD or ROW_NUMBERS.fullmatch(name) is not None
    return is_number(value) and not types.is_null(value) and not is_other


def weights_of(table: UserTable, column: str) -> NDArray[np.float32] | None:
    """Read edge weights, one number for each edge, if the column exists."""
    if not table.has(column):
        return None
    if is_list(table.kind(column)):
        raise TableError(f"{table.path}: column {column!r} holds {table.kind(column)}: a weight is one number")
    return table.floats(column, None)[:, 0]


def types_of(table: UserTable, column: str, role: str) -> NDArray[np.int32] | None:
    """Read types of nodes or edges, whole numbers from 0, if the column exists; its ``role`` is that in the options."""
    if not table.has(column):
        return None
    option = f"--{role.replace('_', '-')} (dataset.options.{role})"
    rule = f"a type is a whole number from 0; {option} names another column, or none"
    if not is_number(kind := table.kind(column)):
        raise TableError(f"{table.path}: column {column!r} holds {kind}: {rule}")
    values = table.doubles(column)
    allowed = (values >= 0) & (values == np.floor(values)) & (values <= np.iinfo(np.int32).max)
    table.refuse(column, ~allowed, rule)
    return values.astype(np.int32)


def edge_arrays(
    table: UserTable, weight: str, types: str, features: str | list[str] | None
) -> dict[str, NDArray[Any] | None]:
    """Read the attributes of edges, by their names in ``Graph``; features only from the named columns."""
    return {
        "edge_weights": weights_of(table, weight),
        "edge_types": types_of(table, types, "edge_type"),
        "edge_features": None if features is None else features_of(table, features, (), None),
    }


def labels_of(
    table: UserTable, label: str | list[str], names: Sequence[str] | None = None
) -> tuple[NDArray[np.integer] | None, int]:
    """Read classes as int64 [nodes], or 0/1 columns or lists as int8 [nodes, classes]; empty means missing (-1).

    Words become their places in ``names``, which ascend, by default all words of this table. Lists that are all empty
    have no columns: [nodes, 0].
    """
    if isinstance(label, list):
        columns = [_classes(table, name, 2)[0] for name in label]
        return np.stack(columns, axis=1).astype(np.int8), len(label)
    if not table.has(label):
        return None, 0
    if is_list(table.kind(label)):
        bits = table.floats(label, None, missing=MISSING)
        table.refuse(label, ~np.isin(bits, (MISSING, 0, 1)).all(axis=1), "a list of labels holds 0, 1 or -1 (missing)")
        return bits.astype(np.int8), bits.shape[1]
    words = label_words(table, label)
    if words is not None:
        import pyarrow.compute

        names = word_names([words]) if names is None else names
        if len(names) > MOST_CLASSES:
            words_of_label = f"{len(names):,} different words in column {label!r}, at most {MOST_CLASSES:,} are classes"
            raise TableError(f"{table.path}: {words_of_label}: name the column of labels")
        places = pyarrow.compute.index_in(words, value_set=pyarrow.array(names, words.type), skip_nulls=True)
        return places.fill_null(MISSING).to_numpy().astype(np.int64), len(names)
    return _classes(table, label)


def label_words(table: UserTable, label: str) -> Any:
    """The word that labels each row as an Arrow array, null where it is missing; ``None`` where labels are no words.

    Missing are empty cells and -1, in a CSV file also what Arrow takes for an empty cell among numbers (NA, NaN, null).
    """
    if not table.has(label) or not is_string(table.kind(label)):
        return None
    import pyarrow.compute

    words = table.column(label)
    missing = {"", str(MISSING)} | (missing_words() if table.is_csv else set())
    is_missing = pyarrow.compute.is_in(words, value_set=pyarrow.array(sorted(missing), words.type))
    return pyarrow.compute.if_else(is_missing, pyarrow.scalar(None, words.type), words)


def word_names(columns: Sequence[Any]) -> list[str]:
    """The words of several columns of ``label_words``, ascending, each once: classes are numbered in this order."""
    return sorted({word for column in columns for word in column.unique().drop_null().to_pylist()})


def shares_of(split: str) -> tuple[float, ...] | None:
    """Shares of train, validation and test, where ``split`` holds numbers with commas instead of a column's name.

    Raises TableError for any but three shares from 0 that sum to 1.
    """
    if "," not in split:
        return None
    try:
        shares = tuple(float(part) for part in split.split(","))
    except ValueError:
        return None
    if len(shares) != 3 or min(shares) < 0 or not abs(sum(shares) - 1) < 1e-6:
        raise TableError(
            f"split={split} is not allowed: name a column, or give three shares that sum to 1: 0.8,0.1,0.1"
        )
    return shares


def drawn_split(
    labels: NDArray[np.integer] | None, rows: NDArray[np.integer], shares: tuple[float, ...]
) -> NDArray[np.int8] | None:
    """Put each labelled node into a split by a hash of its row in the node table; ``None`` without labels."""
    if labels is None:
        return None
    splits = np.searchsorted(np.cumsum(shares[:2]), uniform(0, "split", rows)).astype(np.int8)
    names = np.array([SPLITS[name] for name in ("train", "validation", "test")], dtype=np.int8)
    labelled = (labels >= 0).reshape(len(labels), -1).any(axis=1)
    return np.where(labelled, names[splits], np.int8(NO_SPLIT))


def split_of(
    table: UserTable, split: str, labels: NDArray[np.integer] | None, rows: NDArray[np.integer]
) -> NDArray[np.int8] | None:
    """The split of every node: of the column where it exists (train, validation, test, none), or drawn by shares.

    ``rows`` are the nodes' rows in the node table.
    """
    shares, column = shares_of(split), split
    if shares is not None:
        return drawn_split(labels, rows, shares)
    if not table.has(column):
        return None
    names = ["" if name is None else str(name) for name in table.column(column).to_pylist()]
    unknown = np.array([name not in SPLIT_NAMES for name in names])
    if unknown.any():
        name = names[unknown.argmax()]
        table.refuse(column, unknown, f"split {name!r} is unknown: allowed are train, validation, test, none or empty")
    return np.array([SPLIT_NAMES[name] for name in names], dtype=np.int8)


def _classes(table: UserTable, column: str, bound: int = MOST_CLASSES) -> tuple[NDArray[np.int64], int]:
    values = table.doubles(column)
    values = np.where(np.isnan(values), MISSING, values)
    allowed = (values == np.floor(values)) & (values >= MISSING) & (values < bound)
    table.refuse(column, ~allowed, f"a class is a whole number from 0 to {bound - 1}, or empty where it is missing")
    return values.astype(np.int64), int(values.max(initial=-1)) + 1
