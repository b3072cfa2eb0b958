"""What an assignment does to training: rows and bytes between ranks, epochs, break-even with a random one."""

from collections.abc import Sequence
from typing import Any

from harness.report import formats
from harness.report.comparisons import Comparison
from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.rows import Row, ratio_of
from harness.report.suites.records import SuiteRecords, option

MIB = 1 << 20
RANKS = (
    *("assignment", "ranks", "rows predicted", "rows received", ("received", "MiB"), "imbalance"),
    *(("ordering", "s"), ("epoch", "ms"), "random / epoch", "break-even"),
)
NETWORKS = ("assignment", "ranks", "network", ("modelled epoch", "ms"), ("waiting", "ms"), "to random", "break-even")
GBIT = 1.25e8  # bytes per second of 1 Gbit/s


def effect(records: SuiteRecords) -> list[Block]:
    """One table per comparison: what real ranks receive, and their epochs where every rank has a core."""
    return records.tables("train", _ranks)


def networks(records: SuiteRecords) -> list[Block]:
    """One table per comparison: modelled epochs over networks."""
    return records.tables("train", _networks)


def assignment_of(row: Row) -> str:
    """The engine that assigned the nodes, with its options, in words; or the order."""
    order = row.record["config"].get("order", {"name": "none"})
    options = order.get("options", {})
    if order["name"] != "parts":
        return str(order["name"])
    return " ".join([str(options.get("engine")), *map(str, (options.get("options") or {}).values())])


def _ranks(comparison: Comparison) -> Table:
    rows = [row for row in comparison.rows if row.ok and "ranks" in row.record.get("facts", {})]
    failed = [row for row in comparison.rows if not row.ok]
    table: list[list[Cell]] = [_counted(row, _random(rows, row)) for row in rows]
    table += [[assignment_of(row), formats.status(row), *[NOTHING] * (len(RANKS) - 2)] for row in failed]
    return Table(columns(*RANKS), sorted(table, key=lambda cells: str(cells[1])))


def _counted(row: Row, random: Row | None) -> list[Cell]:
    facts: dict[str, Any] = row.record["facts"]["ranks"]
    return [
        assignment_of(row),
        str(option(row, "ranks")),
        Value(row.record["dataset"].get("structure", {}).get("rows_of_other_parts"), "{:,.0f}"),
        Value(sum(facts["received_rows"]), "{:,.0f}"),
        Value(sum(traffic["rows"] for traffic in facts["traffic"]) / MIB, "{:.2f}"),
        Value(facts["imbalance"], "{:.3f}"),
        Value(_ordering(row)),
        *_epochs(row, random),
    ]


def _epochs(row: Row, random: Row | None) -> list[Cell]:
    """An epoch, the random assignment's as a multiple of it in the same processes, and break-even."""
    if not row.timed or row.time is None:
        return [NOTHING] * 3
    epoch = formats.measured(row.time, 1e3) + formats.doubtful(row)
    ratio = None if random is None or random is row else ratio_of(random, row)
    if random is None or ratio is None:
        return [epoch, NOTHING, NOTHING]
    return [epoch, formats.compared(ratio), formats.break_even(row, random, _ordering(row) - _ordering(random))]


def _networks(comparison: Comparison) -> Table:
    rows = [row for row in comparison.rows if row.ok and "seconds" in _model(row)]
    rows.sort(key=lambda row: (_model(row)["ranks"], option(row, "link") or []))
    return Table(columns(*NETWORKS), [_modelled(row, _random(rows, row)) for row in rows])


def _model(row: Row) -> dict[str, Any]:
    """The modelled epoch of a row; without seconds where there is none, or where memory did not hold the model."""
    models: list[dict[str, Any]] = row.record.get("facts", {}).get("replay") or [{}]
    return models[0]


def _modelled(row: Row, random: Row | None) -> list[Cell]:
    modelled, link = _model(row), option(row, "link")
    of_random = None if random is None else _model(random)["seconds"]
    return [
        assignment_of(row),
        str(modelled["ranks"]),
        f"{link[0] / GBIT:g} Gbit/s" if link else "no network",
        Value(modelled["seconds"] * 1e3),
        Value(modelled["exposed"] * 1e3),
        Value(None if of_random is None else of_random / modelled["seconds"], "{:.2f}x"),
        NOTHING if of_random is None else _even(row, random, of_random - modelled["seconds"]),
    ]


def _random(rows: Sequence[Row], row: Row) -> Row | None:
    """The row of the random assignment with the same engine options."""
    same = [one for one in rows if one.record["config"]["backend"] == row.record["config"]["backend"]]
    return next((one for one in same if assignment_of(one).endswith("random")), None)


def _ordering(row: Row) -> float:
    """Seconds of assigning and renumbering."""
    return float(row.prepare().get("order", 0.0))


def _even(row: Row, random: Row | None, saved: float) -> str:
    """Epochs until the seconds beyond those of the random assignment are won back."""
    if random is None or random is row:
        return NOTHING
    return formats.epochs_until_even(_ordering(row) - _ordering(random), saved)
