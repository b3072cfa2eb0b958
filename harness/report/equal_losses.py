"""An epoch's ratio split into what the loss contributes and what is left at equal losses."""

from collections.abc import Iterable, Sequence
from typing import Any

from harness.report import formats
from harness.report.comparisons import DatasetComparisons
from harness.report.content import Cell, Table, columns
from harness.report.rows import Row
from harness.report.speedups import Speedup, short_title, speedups, strictness, times_as_fast
from harness.store.naming import flatten

HEADS = ("", "ours", "fastest peer", "times as fast", "both with torch's loss", "both with our loss", "from the loss")
READING = (
    "Ours compute the loss together with its gradient; the peers take torch's. Rows of ours with torch's loss and of "
    "the peer with ours, measured in turns with the others, say what an epoch's ratio owes to it: the last column is "
    "our epoch with torch's loss divided by our epoch. Of several suites that timed the same epoch, one counts that "
    "measured such rows. — means not measured."
)


def equal_losses(datasets: Iterable[DatasetComparisons]) -> Table:
    """One row per full-batch epoch of ours beside the fastest peer: the ratio, at equal losses, and the loss's part."""
    return Table(columns(*HEADS), [_row(speedup) for speedup in speedups(datasets, key=_by_lent_losses)])


def _by_lent_losses(speedup: Speedup) -> tuple[Any, ...]:
    """The most engines with the other one's loss first, then the strictest."""
    missing = [with_lent_loss(row, speedup.comparison.rows) is None for row in (speedup.ours, speedup.peer)]
    return sum(missing), *strictness(speedup)


def _row(speedup: Speedup) -> list[Cell]:
    ours, peer = speedup.ours, speedup.peer
    name = f"{speedup.dataset.name}: {short_title(speedup.comparison)}"
    labels = [ours.label + formats.doubtful(ours) + speedup.contest, peer.label + formats.doubtful(peer)]
    rows = speedup.comparison.rows
    slower, faster = with_lent_loss(ours, rows), with_lent_loss(peer, rows)
    total: list[Cell] = [name, *labels, formats.times(times_as_fast(ours, peer))]
    return [*total, _factor(slower, peer, slower), _factor(ours, faster, faster), _factor(ours, slower, slower)]


def _factor(row: Row | None, other: Row | None, lent: Row | None) -> str:
    """How many times as fast a row is as another, and what speaks against the one with the ``lent`` loss."""
    if row is None or other is None or lent is None:
        return formats.times(None)
    return formats.times(times_as_fast(row, other)) + formats.doubtful(lent)


def with_lent_loss(row: Row, rows: Sequence[Row]) -> Row | None:
    """The row of the same engine in the same form with the other loss, ``None`` where it was not measured."""
    same = (other for other in rows if other.ok and not other.own_loss and _form(other) == _form(row))
    return next(same, None)


def _form(row: Row) -> dict[str, str]:
    """The settings of a row without its loss and those that change nothing that is timed."""
    config = {key: row.record["config"].get(key) for key in ("backend", "order", "launcher", "training")}
    flat = flatten({key: value for key, value in config.items() if value})
    return {key: str(value) for key, value in flat.items() if key != "backend.loss"}
