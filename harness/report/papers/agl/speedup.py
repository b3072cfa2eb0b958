"""Speed-up by number of workers: measured up to the cores of this machine, beyond them by the engine's model."""

from collections.abc import Iterator
from typing import Any

from backends.registry import load_object, usable_class
from harness.report.content import NOTHING, Block, Cell, Section, Table, Value, columns
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, backend, name_of, option

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


def predicted(records: SuiteRecords, rows: list[Row]) -> Iterator[dict[str, Any]]:
    """Rows of the model that an engine's config names under ``predictions``, for each engine that has one.

    The model is computed without a network and with each network that the suite assumes.
    """
    for name in dict.fromkeys(backend(row) for row in rows):
        kind = usable_class(name)
        model = None if kind is None else kind.predictions.get("speedup")
        of_engine = [row for row in rows if backend(row) == name and row.ok]
        measured = [row.record for row in of_engine if row.record["facts"].get("servers")]
        alone = {option(row, "strategy") for row in rows if row.ok and option(row, "workers") == 1}
        usable = [record for record in measured if record["config"]["backend"]["strategy"] in alone]
        if model is not None and usable:
            size = usable[0]["config"]["training"].get("batch_size")
            steps = records.constant("targets") // size if size else None
            yield from load_object(model)(usable, steps, records.suite.assumed.get("networks", []))


def _without_model(rows: list[Row]) -> Iterator[list[Cell]]:
    """Rows of strategies without servers, which the model does not cover."""
    serverless = [row for row in rows if row.ok and option(row, "workers") and not row.record["facts"].get("servers")]
    # the fastest of several stays, as rows are sorted by time
    alone = {option(row, "strategy"): row for row in reversed(serverless) if option(row, "workers") == 1}
    for row in sorted(serverless, key=lambda row: (str(option(row, "strategy")), int(option(row, "workers")))):
        one, time = alone.get(option(row, "strategy")), row.time
        factor = one.time.median / time.median if one is not None and one.time and time else None
        numbers = [Value(time.median if time else None), Value(factor)]
        yield [str(option(row, "strategy")), str(option(row, "workers")), *numbers, "measured", *[NOTHING] * 4]


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
    """The largest measured speed-up and its number of workers."""
    rows = [row for row in _of_all(records) if row["kind"] == "measured"]
    best = max(rows, key=lambda row: float(row["speedup"]), default=None)
    return f"{best['speedup']:.3g} with {best['workers']} workers" if best else NOTHING


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
