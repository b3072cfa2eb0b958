"""Speed-up by number of workers: measured up to the cores of this machine, beyond them by the engine's model."""

from collections.abc import Iterator, Sequence
from typing import Any

from backends.registry import load_object, usable_class
from harness.report import formats
from harness.report.content import NOTHING, Block, Cell, Section, Table, Value, columns
from harness.report.rows import Row
from harness.report.speedups import times_as_fast
from harness.report.suites.factors import times
from harness.report.suites.records import SuiteRecords, backend, name_of, option, workers_of

HEADS = (
    *("strategy", "workers", ("epoch", "s"), "speed-up", "", "the model's error there"),
    *("computing beside others", "exchanging beside others", "error with both"),
)


def speedup(records: SuiteRecords) -> list[Block]:
    """One table per comparison: measured rows with the model's error at each, then the model's rows."""
    sections: list[Block] = []
    for dataset, comparison in records.comparisons("train"):
        rows = [*_without_model(comparison.rows), *(_row(row) for row in predicted(records, comparison.rows))]
        if rows:
            table = Table(columns(*HEADS), [*rows, *records.published("speedup", len(HEADS))])
            sections.append(Section(name_of(dataset, comparison), [table]))
    return sections


def predicted(records: SuiteRecords, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Rows of the model that an engine's config names under ``predictions``, for each engine that has one.

    The model is computed without a network and with each network that the suite assumes.
    """
    for name in dict.fromkeys(backend(row) for row in rows):
        kind = usable_class(name)
        model = None if kind is None else kind.predictions.get("speedup")
        usable = [row.record for row in _beside_one(rows, name)]
        if model is not None and usable:
            size = usable[0]["config"]["training"].get("batch_size")
            steps = records.constant("targets") // size if size else None
            yield from load_object(model)(usable, steps, records.suite.assumed.get("networks", []))


def _beside_one(rows: Sequence[Row], name: str) -> list[Row]:
    """An engine's rows with servers, the fastest last: one worker of each strategy, and several in turns with it.

    A whole epoch and a part of one are not compared. Of several rows of as many workers the model takes the last.
    """
    of_engine = [row for row in rows if backend(row) == name and row.ok and row.record["facts"].get("servers")]
    alone = _alone(of_engine)
    known = [(row, alone.get(_rules(row))) for row in reversed(of_engine)]
    beside = [(row, one) for row, one in known if one is not None and (row is one or times_as_fast(row, one))]
    return [row for row, one in beside if not row.timed_otherwise(one)]


def _alone(rows: Sequence[Row]) -> dict[tuple[Any, ...], Row]:
    """The fastest row of one worker by strategy, as rows are sorted by time; crowded cores measure no speed."""
    timed = (row for row in reversed(rows) if workers_of(row) == 1 and not row.oversubscribed)
    return {_rules(row): row for row in timed}


def _rules(row: Row) -> tuple[Any, ...]:
    """The strategy of a row, and the staleness of one that is bounded."""
    strategy = option(row, "strategy")
    return (strategy, option(row, "staleness")) if strategy == "bounded" else (strategy,)


def _without_model(rows: Sequence[Row]) -> Iterator[list[Cell]]:
    """Rows of strategies without servers, which the model does not cover."""
    serverless = [row for row in rows if row.ok and workers_of(row) and not row.record["facts"].get("servers")]
    alone = _alone(serverless)
    for row in sorted(serverless, key=lambda row: (str(option(row, "strategy")), workers_of(row))):
        if not row.oversubscribed:
            time, factor = Value(row.time.median if row.time else None), times(row, alone.get(_rules(row)))
            yield [str(option(row, "strategy")), str(workers_of(row)), time, factor, "measured", *[NOTHING] * 4]


def _row(row: dict[str, Any]) -> list[Cell]:
    return [
        row["strategy"],
        str(row["workers"]),
        Value(row["seconds"]),
        Value(row["speedup"]),
        f"model, {row['network']}" if row["kind"] == "model" else row["kind"],
        Value(row.get("model_error"), "{:+.1%}"),
        *[Value(row.get(name), "{:.2f}x") for name in ("compute_shared", "exchange_shared")],
        Value(row.get("shared_error"), "{:+.1%}"),
    ]


def by_comparison(records: SuiteRecords) -> tuple[list[tuple[str, list[dict[str, Any]]]], tuple[int, float]]:
    """The model's rows of each comparison that has some, and the paper's workers and speed-up."""
    named = [
        (name_of(dataset, one), list(predicted(records, one.rows))) for dataset, one in records.comparisons("train")
    ]
    paper = records.constant("published_speedup")
    return [(name, rows) for name, rows in named if rows], (paper["workers"], paper["speedup"])


def _of_all(records: SuiteRecords) -> list[dict[str, Any]]:
    return [row for _, comparison in records.comparisons("train") for row in predicted(records, comparison.rows)]


def most_measured(records: SuiteRecords) -> str:
    """The largest measured speed-up beyond doubt and its number of workers; doubtful rows are counted."""
    tables = [comparison.rows for _, comparison in records.comparisons("train")]
    good = [[row for row in rows if not row.doubts and not formats.too_few(row.time)] for rows in tables]
    rows = [row for own in good for row in predicted(records, own) if row["kind"] == "measured"]
    best = max(rows, key=lambda row: float(row["speedup"]), default=None)
    doubtful = sum(map(len, tables)) - sum(map(len, good))
    figures = [f"{best['speedup']:.3g} with {best['workers']} workers"] if best else []
    return ", ".join([*figures, *[f"{doubtful} left out as doubtful (⚠)"] * bool(doubtful)]) or NOTHING


def modelled(records: SuiteRecords) -> str:
    """The model's speed-up of the most workers, by strategy and assumed network."""
    rows = [row for row in _of_all(records) if row["kind"] == "model"]
    most = max((row["workers"] for row in rows), default=0)
    by_strategy: dict[str, list[str]] = {}
    for row in rows:
        if row["workers"] == most:
            text = f"{row['speedup']:.3g} ({row['network']}, slope {row['slope']:.2f})"
            by_strategy.setdefault(row["strategy"], []).append(text)
    texts = "; ".join(f"{strategy} {', '.join(dict.fromkeys(factors))}" for strategy, factors in by_strategy.items())
    return f"model, {most} workers: {texts}" if texts else NOTHING
