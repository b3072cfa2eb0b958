"""Paths and column names of a user's tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datasets.features import LAYOUTS
from datasets.options import OptionError, options_from, unknown_name

EDGE_ROLES = "weight", "edge_type"  # columns of the edge table that may be absent


@dataclass(frozen=True)
class TableOptions:
    """Paths and column names of user tables.

    ``features`` are numeric columns or one column of lists; ``None`` takes every numeric or list column of the node
    table that has no other role; ``edge_features`` takes the named columns of the edge table. ``label``, ``split``,
    ``weight``, ``node_type`` and ``edge_type`` are read where the column exists; one of another name than the default
    must, except ``none``. ``label`` may be a column of classes, a column of 0/1 lists or several 0/1 columns; ``split``
    may be the shares of the labelled nodes that a hash of their row puts into train, validation and test, as in
    ``0.8,0.1,0.1``. ``width`` is the expected number of features.
    ``feature_columns`` is a column of lists of the columns that are set, in place of ``features``, and
    ``feature_values`` one of their values, 1 without it. ``layout`` is ``dense``, ``sparse``, or ``auto``: sparse where
    less than 10 % of 64 or more are set.
    """

    nodes: str = ""
    edges: str = ""
    id: str = "id"
    source: str = "source"
    target: str = "target"
    features: str | list[str] | None = None
    label: str | list[str] = "label"
    split: str = "split"
    weight: str = "weight"
    node_type: str = "type"
    edge_type: str = "type"
    edge_features: str | list[str] | None = None
    width: int | None = None
    feature_columns: str | None = None
    feature_values: str | None = None
    layout: str = "auto"
    undirected: bool = False

    @property
    def roles(self) -> set[str]:
        """Columns of the node table that are no features unless they are named."""
        return {self.id, self.split, self.node_type, *names_of(self.label)}


def names_of(columns: str | list[str]) -> list[str]:
    """The names of one column or of several."""
    return [columns] if isinstance(columns, str) else columns


@dataclass(frozen=True)
class NamedTableOptions(TableOptions):
    """Options of tables that are a data set of their own: its name, and the beginning of the hash of both files."""

    name: str = "tables"
    sha256: str = ""


def check_feature_options(tables: TableOptions) -> None:
    """Raise OptionError for options of features that contradict each other, and for an unknown layout."""
    if tables.label == []:
        raise OptionError("label=[] names no column: name one or more, or leave label out")
    if tables.layout not in LAYOUTS:
        raise OptionError(unknown_name("layout of features", tables.layout, LAYOUTS))
    if tables.feature_columns is not None and tables.features is not None:
        raise OptionError("features and feature_columns name the features twice: give one of them")
    if tables.feature_values is not None and tables.feature_columns is None:
        raise OptionError("feature_values need feature_columns: name the column of lists of column numbers")


def table_options(options: Mapping[str, Any]) -> NamedTableOptions:
    """Build the options; raises OptionError for unknown names and where a table is not named."""
    tables = options_from(NamedTableOptions, "tables", options)
    check_feature_options(tables)
    for role in ("nodes", "edges"):
        if not getattr(tables, role):
            raise OptionError(
                f"data set tables needs the path of the {role} table: add +dataset.options.{role}=PATH "
                "(.parquet, .pq or .csv)"
            )
    return tables
