"""Verdicts on cells, and their table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.compare.factor import SLOWER, Factor
from harness.report.content import NOTHING, Cell, Table, Value, columns
from harness.store.naming import flatten

NOT_COMPARABLE, FAILS_NOW, WORKS_NOW = "not comparable", "fails now", "works now"
TIMED_OTHERWISE = "whole epochs on one side, a part of them on the other: set training.batch_limit for both"
NOT_OF_THE_CODE = ("interrupted", "not_installed")


@dataclass
class Verdict:
    """The outcome for one cell: median seconds of both, and the factor between them."""

    cell: str
    a: float | None
    b: float | None
    factor: Factor | None
    verdict: str
    reason: str = ""

    @property
    def regression(self) -> bool:
        """Whether B is worse."""
        return self.verdict in (SLOWER, FAILS_NOW)


def verdict_by_status(cell: str, a: float | None, b: float | None, statuses: tuple[str, str]) -> Verdict:
    """Judge a cell of which one side has no time: it is worse if it was ok before and fails now.

    ``statuses`` begin with the status. One that says nothing about the code makes no verdict.
    """
    if any(status.split()[0] in NOT_OF_THE_CODE for status in statuses):
        verdict = NOT_COMPARABLE
    else:
        verdict = FAILS_NOW if a is not None else WORKS_NOW if b is not None else NOT_COMPARABLE
    return Verdict(cell, a, b, None, verdict, f"{statuses[0]}, then {statuses[1]}")


def verdict_table(verdicts: Sequence[Verdict], n: str) -> Table:
    """One row per cell: both medians in seconds, the factor with its interval, what ``n`` counts, the verdict."""
    return Table(columns("cell", ("A", "s"), ("B", "s"), "B / A", n, "verdict"), [_row(one) for one in verdicts])


def _row(verdict: Verdict) -> list[Cell]:
    factor = str(verdict.factor) if verdict.factor else NOTHING
    n = str(verdict.factor.n) if verdict.factor else NOTHING
    words = verdict.verdict + (f": {verdict.reason}" if verdict.reason else "")
    return [verdict.cell, Value(verdict.a), Value(verdict.b), factor, n, words]


def differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """Name the values of two environments that must be equal and are not."""
    first, second = flatten(a), flatten(b)
    keys = [key for key in sorted({*first, *second}) if first.get(key) != second.get(key)]
    return "; ".join(f"{key} {first.get(key)} against {second.get(key)}" for key in keys)
