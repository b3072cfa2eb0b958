"""Types of the registry's entries: a section of a suite's page, and a measure beside a claim of the paper."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.report.content import NOTHING, Block, Table, Text
from harness.report.suites.records import SuiteRecords

if TYPE_CHECKING:
    import matplotlib.figure


@dataclass(frozen=True)
class SuiteFigure:
    """A figure of a section: its data, taken from a suite's records, and the function that draws them."""

    data: Callable[[SuiteRecords], Any]
    draw: "Callable[[Any], matplotlib.figure.Figure]"


@dataclass(frozen=True)
class SuiteSection:
    """A section of a suite's page, left out where its content is empty.

    ``reading`` says how to read its tables, ``terms`` what names in them mean.
    """

    title: str
    reading: Text
    content: Callable[[SuiteRecords], Sequence[Block]]
    figure: SuiteFigure | None = None
    terms: Mapping[str, Text] = field(default_factory=dict)


def no_measure(suite: SuiteRecords) -> str:
    """Return a dash, for a claim without a number of ours."""
    return NOTHING


@dataclass(frozen=True)
class Measure:
    """What is measured here beside a claim of the paper, and the same against the fairest baseline."""

    measured: Callable[[SuiteRecords], str] = no_measure
    fair: Callable[[SuiteRecords], str] = no_measure


def unless_empty(table: Table) -> list[Block]:
    """The table as content, nothing where it has no rows."""
    return [table] if table.rows else []
