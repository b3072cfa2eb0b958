"""Paths and column names of a user's tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datasets.options import options_from


@dataclass(frozen=True)
class TableOptions:
    """Paths and column names of user tables.

    ``features`` are numeric columns or one column of lists; ``None`` takes every numeric or list column of the node
    table that has no other role; ``edge_features`` takes the named columns of the edge table. ``label``, ``split``,
    ``weight``, ``node_type`` and ``edge_type`` are read where the column exists; ``label`` may be a column of classes,
    a column of 0/1 lists or several 0/1 columns. ``width`` is the expected number of features.
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
    undirected: bool = False

    @property
    def roles(self) -> set[str]:
        """Columns of the node table that are no features unless they are named."""
        return {self.id, self.split, self.node_type, *([self.label] if isinstance(self.label, str) else self.label)}


@dataclass(frozen=True)
class NamedTableOptions(TableOptions):
    """Options of tables that are a data set of their own: its name, and the beginning of the hash of both files."""

    name: str = "tables"
    sha256: str = ""


def table_options(options: Mapping[str, Any]) -> NamedTableOptions:
    """Build the options; raises ValueError for unknown names and where a table is not named."""
    tables = options_from(NamedTableOptions, "tables", options)
    for role in ("nodes", "edges"):
        if not getattr(tables, role):
            raise ValueError(
                f"data set tables needs the path of the {role} table: add +dataset.options.{role}=PATH "
                "(.parquet, .pq or .csv)"
            )
    return tables
