"""Block of the speed-up by number of workers: what was measured, and beyond it the engine's own model, named so."""

from collections.abc import Iterator
from typing import Any

from backends.registry import load_object, usable_class
from harness.report import tables
from harness.report.rows import Row
from harness.report.suites.part import SuitePart, backend, name_of, option

HEAD = (
    "strategy",
    "workers",
    "epoch [s]",
    "speed-up",
    "",
    "the model's error there",
    "computing beside others",
    "exchanging beside others",
    "error with both",
)
TARGETS = 120_000_000  # of an epoch on the published graph (AGL, section 4.1.1): what the model's rows are for


def speedup(held: SuitePart) -> str:
    """One table per comparison: measured rows with the model's error at each, then the model's rows."""
    texts = []
    for part, comparison in held.comparisons("train"):
        lines = [*_measured_only(comparison.rows), *(_line(row) for row in predicted(held, comparison.rows))]
        if lines:
            lines += held.published("speedup", len(HEAD))
            texts.append(f"### {name_of(part, comparison)}\n\n{tables.markdown(list(HEAD), lines)}")
    return "\n\n".join(texts)


def predicted(held: SuitePart, rows: list[Row]) -> Iterator[dict[str, Any]]:
    """Rows of the model that an engine's config names under ``predictions``, for each engine that has one.

    It stands without a network and with each of those that the suite assumes.
    """
    for name in dict.fromkeys(backend(row) for row in rows):
        kind = usable_class(name)
        model = None if kind is None else kind.predictions.get("speedup")
        records = [row.record for row in rows if backend(row) == name and row.ok and row.record["facts"].get("servers")]
        alone = {option(row, "strategy") for row in rows if row.ok and option(row, "workers") == 1}
        usable = [record for record in records if record["config"]["backend"]["strategy"] in alone]
        if model is not None and usable:
            size = usable[0]["config"]["training"].get("batch_size")
            networks = held.suite.assumed.get("networks", [])
            yield from load_object(model)(usable, TARGETS // size if size else None, networks)


def _measured_only(rows: list[Row]) -> Iterator[list[str]]:
    """Rows of strategies without servers, which no model is for."""
    own = [row for row in rows if row.ok and option(row, "workers") and not row.record["facts"].get("servers")]
    alone = {option(row, "strategy"): row for row in own if option(row, "workers") == 1}
    for row in sorted(own, key=lambda row: (str(option(row, "strategy")), int(option(row, "workers")))):
        one, time = alone.get(option(row, "strategy")), row.time
        gained = one.time.median / time.median if one is not None and one.time and time else None
        spent = tables.number(time.median if time else None, "{:.3g}")
        more = [spent, tables.number(gained, "{:.3g}"), "measured", *[tables.NOTHING] * 4]
        yield [str(option(row, "strategy")), str(option(row, "workers")), *more]


def _line(row: dict[str, Any]) -> list[str]:
    return [
        row["strategy"],
        str(row["workers"]),
        f"{row['seconds']:.3g}",
        f"{row['speedup']:.3g}",
        f"model, {row['network']}" if row["kind"] == "model" else row["kind"],
        tables.number(row.get("model_error"), "{:+.1%}"),
        *[tables.number(row.get(name), "{:.2f}x") for name in ("compute_shared", "exchange_shared")],
        tables.number(row.get("shared_error"), "{:+.1%}"),
    ]


def _of(held: SuitePart) -> list[dict[str, Any]]:
    return [row for _, comparison in held.comparisons("train") for row in predicted(held, comparison.rows)]


def most_measured(held: SuitePart) -> str:
    """The largest measured speed-up and its number of workers."""
    rows = [row for row in _of(held) if row["kind"] == "measured"]
    best = max(rows, key=lambda row: float(row["speedup"]), default=None)
    return f"{best['speedup']:.3g} with {best['workers']} workers" if best else tables.NOTHING


def modelled(held: SuitePart) -> str:
    """What the model says of the most workers, by strategy and assumed network."""
    rows = [row for row in _of(held) if row["kind"] == "model"]
    most = max((row["workers"] for row in rows), default=0)
    by_strategy: dict[str, list[str]] = {}
    for row in rows:
        if row["workers"] == most:
            said = f"{row['speedup']:.3g} ({row['network']}, slope {row['slope']:.2f})"
            by_strategy.setdefault(row["strategy"], []).append(said)
    told = "; ".join(f"{strategy} {', '.join(dict.fromkeys(said))}" for strategy, said in by_strategy.items())
    return f"model, {most} workers: {told}" if told else tables.NOTHING
