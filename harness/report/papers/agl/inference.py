"""Inference of all nodes: time, CPU and memory of GraphInfer, beside the module that it replaced and the peers."""

from collections.abc import Callable, Sequence
from statistics import median

from harness.report import formats
from harness.report.content import NOTHING, Block, Cell, Section, Table, Value, columns
from harness.report.rows import Row, ratio_of
from harness.report.suites.factors import RowPair, range_of, times
from harness.report.suites.records import (
    SuiteRecords,
    fastest_peer,
    label_with_form,
    name_of,
    option,
    preparation_seconds,
)

HEADS = (
    *("engine", ("once before", "s"), ("first call, cold", "s"), ("later calls, warm", "s"), "CPU s", "peak memory"),
    *("times (a)", "times (b)", "memory / (a)", "CPU / (a)"),
)


def inference(records: SuiteRecords) -> list[Block]:
    """One table per comparison; (a) infers from neighbourhoods, (b) is the fastest peer in its fastest form."""
    published = records.published("inference", len(HEADS))
    sections: list[Block] = []
    for dataset, comparison in records.comparisons("infer"):
        old, peer = replaced(comparison.rows), best_peer(comparison.rows)
        rows = [_row(row, old, peer) for row in comparison.rows]
        sections.append(Section(name_of(dataset, comparison), [Table(columns(*HEADS), [*rows, *published])]))
    return sections


def replaced(rows: Sequence[Row]) -> Row | None:
    """(a): inference from neighbourhoods, which GraphInfer replaced; from GraphFeatures where those were measured."""
    forms = [row for row in rows if option(row, "infer") == "neighbourhood" and row.ok]
    return next((row for row in forms if option(row, "source") == "graphfeature"), forms[0] if forms else None)


def best_peer(rows: Sequence[Row]) -> Row | None:
    """(b): the fastest peer, layer by layer over blocks or over the whole graph at once."""
    return fastest_peer(rows)


def graphinfer(rows: Sequence[Row]) -> Row | None:
    """Our fastest row of GraphInfer's rounds."""
    return next((row for row in rows if row.ours and option(row, "infer") == "graphinfer" and row.ok), None)


def cpu(row: Row) -> float | None:
    """CPU seconds of a call."""
    medians = [median(record["epochs"]["cpu_seconds"]) for record in row.ok if record["epochs"]["cpu_seconds"]]
    return median(medians) if medians else None


def peak(row: Row) -> float | None:
    """Highest memory of the process tree in bytes."""
    return row.median("memory", "peak")


def _row(row: Row, old: Row | None, peer: Row | None) -> list[Cell]:
    if row.time is None:
        return [label_with_form(row), formats.status(row), *[NOTHING] * (len(HEADS) - 2)]
    first = [record["warmup"][0] for record in row.ok if record.get("warmup")]
    mark = " (a)" if row is old else " (b)" if row is peer else ""
    return [
        label_with_form(row) + mark,
        Value(preparation_seconds(row)),
        Value(median(first) if first else None),
        formats.measured(row.time),
        Value(cpu(row)),
        formats.memory(peak(row)),
        *[times(row, other) for other in (old, peer)],
        *[Value(share(row, old, quantity), "{:.2f}") for quantity in (peak, cpu)],
    ]


def share(row: Row, other: Row | None, quantity: Callable[[Row], float | None]) -> float | None:
    """A quantity of a row as a share of another row's; CPU seconds only of rows that were measured in turns."""
    if other is None or (quantity is cpu and ratio_of(row, other) is None):
        return None
    value, reference = quantity(row), quantity(other)
    return value / reference if value is not None and reference else None


def time_against(records: SuiteRecords, beside: Callable[[Sequence[Row]], Row | None]) -> str:
    """GraphInfer's time divided by that of the row that ``beside`` picks, lowest and highest over the tables."""
    pairs = []
    for _, one in records.comparisons("infer"):
        other = beside(one.rows)
        pairs.append(RowPair(graphinfer(one.rows), other, one.rows if other and other.peer else ()))
    return range_of(pairs, "{:.2g}", factor=ratio_of)


def against(
    records: SuiteRecords, beside: Callable[[Sequence[Row]], Row | None], quantity: Callable[[Row], float | None]
) -> str:
    """GraphInfer's quantity divided by that of ``beside``'s row, lowest and highest; doubtful figures are counted."""
    pairs = [(graphinfer(one.rows), beside(one.rows)) for _, one in records.comparisons("infer")]
    shares = [
        (value, bool(formats.objections(row) or formats.objections(other)))
        for row, other in pairs
        if row and other and (value := share(row, other, quantity)) is not None
    ]
    good = sorted(value for value, in_doubt in shares if not in_doubt)
    ends = " to ".join(dict.fromkeys(f"{value:.2g}" for value in good[:1] + good[-1:]))
    left_out = f"{len(shares) - len(good)} left out as doubtful (⚠)" if len(good) < len(shares) else ""
    return ", ".join(filter(None, [ends, left_out])) or NOTHING
