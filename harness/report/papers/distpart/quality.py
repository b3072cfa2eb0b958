"""Seconds, memory and quality of every engine's assignment: per graph and number of parts, and over all of them."""

from collections.abc import Callable, Iterator, Sequence
from statistics import geometric_mean

from harness.report import formats
from harness.report.comparisons import Comparison
from harness.report.content import NOTHING, Block, Cell, Section, Table, Value, columns
from harness.report.rows import Row
from harness.report.speedups import times_as_fast
from harness.report.suites.factors import RowPair, factors_of, times
from harness.report.suites.records import SuiteRecords, backend, call_seconds, option

HEADS = (
    "engine",
    ("call", "ms"),
    "to METIS",
    ("cut", "%"),
    "cut to METIS",
    "rows of others",
    "replication",
    "worst",
    "balance",
    "asked",
    "memory",
    "memory to METIS",
)
TOTALS = ("engine", "tables", "seconds", "slowest", "{}", "worst", "memory", "most", "above the bound")
Ratio = Callable[[Row, Row], float | None]


def assignments(records: SuiteRecords) -> list[Block]:
    """One table per comparison of scenario ``partition``."""
    return records.tables("partition", _table)


def _table(comparison: Comparison) -> Table:
    metis = _metis_of(comparison)
    return Table(columns(*HEADS), [_row(row, metis) for row in comparison.rows])


def _metis_of(comparison: Comparison) -> Row | None:
    """METIS, k-way; DGL's own where several loads are balanced, which METIS's Python package does not offer."""
    rows = [row for row in comparison.rows if row.ok and row.time is not None]
    tools = [row for row in rows if backend(row) == "partitioners" and option(row, "tool") == "metis"]
    return next(iter(tools), next((row for row in rows if backend(row) == "dgl"), None))


def _row(row: Row, metis: Row | None) -> list[Cell]:
    share = _quality(row, "cut_share")
    if row.time is None:
        return [row.label, formats.status(row), *[NOTHING] * (len(HEADS) - 2)]
    if share is None:
        return [row.label, Value(call_seconds(row) * 1e3), *[NOTHING] * (len(HEADS) - 2)]

    def to_metis(ratio: Ratio) -> Value:
        return Value(None if metis is None else ratio(row, metis), "{:.2f}")

    return [
        row.label,
        Value(call_seconds(row) * 1e3),
        times(metis, row, "{:.2f}"),
        Value(100 * share, "{:.2f}"),
        to_metis(_cut),
        Value(_quality(row, "volume"), "{:,.0f}"),
        Value(_quality(row, "replication"), "{:.2f}"),
        Value(_quality(row, "worst_replication"), "{:.2f}"),
        Value(_balance(row), "{:.3f}"),
        Value(_quality(row, "bound"), "{:.3f}"),
        formats.memory(row.working_set()),
        to_metis(_taken),
    ]


def totals(records: SuiteRecords) -> list[Block]:
    """One table for each task, over all graphs and numbers of parts: what an engine needs as a multiple of METIS."""
    tasks: dict[tuple[str, tuple[str, ...]], list[Comparison]] = {}
    for _, comparison in records.comparisons("partition"):
        division = comparison.settings
        task = str(division["scenario.objective"]), tuple(division["scenario.balance"])
        tasks.setdefault(task, []).append(comparison)
    return [
        Section(f"{objective}, {' and '.join(balance)} balanced", [_total(objective, comparisons)])
        for (objective, balance), comparisons in sorted(tasks.items())
    ]


def _total(objective: str, comparisons: Sequence[Comparison]) -> Table:
    pairs: dict[str, list[tuple[Row, Row]]] = {}
    for comparison in comparisons:
        if (metis := _metis_of(comparison)) is not None:
            for engine, row in _fastest_of_each(comparison, metis).items():
                pairs.setdefault(engine, []).append((row, metis))
    lowered: Ratio = _volume if objective == "volume" else _cut
    heads = [head.format(objective) for head in TOTALS]
    return Table(columns(*heads), [_total_row(engine, own, lowered) for engine, own in sorted(pairs.items())])


def _fastest_of_each(comparison: Comparison, metis: Row) -> dict[str, Row]:
    """The fastest row of each engine in a table, if there are any, of those measured in turns with METIS."""
    rows = [row for row in comparison.rows if row.ok and row.time is not None and row is not metis]  # sorted by time
    in_turns = [row for row in rows if times_as_fast(metis, row) is not None]
    return {_engine(row): row for row in reversed(rows)} | {_engine(row): row for row in reversed(in_turns)}


def _total_row(engine: str, pairs: Sequence[tuple[Row, Row]], lowered: Ratio) -> list[Cell]:
    above = sum((_balance(row) or 0) > (_quality(row, "bound") or 0) + 0.001 for row, _ in pairs)
    figures = (figure for ratio in (lowered, _taken) for figure in _mean_and_most(pairs, ratio))
    numbers = (Value(figure, "{:.2f}") for figure in figures)
    return [engine, str(len(pairs)), *_seconds(pairs), *numbers, f"{above} of {len(pairs)}"]


def _seconds(pairs: Sequence[tuple[Row, Row]]) -> list[Cell]:
    """Mean and most of the seconds as a multiple of METIS's, without doubtful figures, which are counted."""
    ratios, remark = factors_of(RowPair(metis, row) for row, metis in pairs)
    mean = f"{geometric_mean(ratios):.2f}" if ratios else NOTHING
    return [f"{mean}, {remark}" if remark else mean, Value(max(ratios, default=None), "{:.2f}")]


def _mean_and_most(pairs: Sequence[tuple[Row, Row]], ratio: Ratio) -> Iterator[float | None]:
    ratios = [value for row, metis in pairs if (value := ratio(row, metis))]
    yield geometric_mean(ratios) if ratios else None
    yield max(ratios, default=None)


def _engine(row: Row) -> str:
    """The engine with what assigns, whatever else a row's label says in its table."""
    what = option(row, "method") or option(row, "tool") or option(row, "part_method")
    return f"{backend(row)} {what}" if what else backend(row)


def _cut(row: Row, metis: Row) -> float | None:
    return _share(_quality(row, "cut"), _quality(metis, "cut"))


def _volume(row: Row, metis: Row) -> float | None:
    return _share(_quality(row, "volume"), _quality(metis, "volume"))


def _taken(row: Row, metis: Row) -> float | None:
    return row.memory_beside(metis)


def _share(value: float | None, of: float | None) -> float | None:
    return value / of if value is not None and of else None


def _balance(row: Row) -> float | None:
    return max(
        (value for record in row.ok for value in record["facts"].get("partition", {}).get("balance", ())), default=None
    )


def _quality(row: Row, name: str) -> float | None:
    return row.median("facts", "partition", name)
