"""Block of the speed-up by number of workers: what was measured, and beyond it the engine's own model, named so."""

from collections.abc import Iterator
from typing import Any

from backends.registry import MODULES, config_class, load_object
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
        lines = [*_measured_only(comparison.rows), *(_line(row) for row in predicted(comparison.rows))]
        if lines:
            lines += held.published("speedup", len(HEAD))
            texts.append(f"### {name_of(part, comparison)}\n\n{tables.markdown(list(HEAD), lines)}")
    return "\n\n".join(texts)


def predicted(rows: list[Row]) -> Iterator[dict[str, Any]]:
    """Rows of the model that an engine's config names under ``predictions``, for each engine that has one."""
    for name in dict.fromkeys(backend(row) for row in rows if backend(row) in MODULES):
        model = config_class(name).predictions.get("speedup")
        records = [row.record for row in rows if backend(row) == name and row.ok and row.record["facts"].get("servers")]
        alone = {option(row, "strategy") for row in rows if row.ok and option(row, "workers") == 1}
        usable = [record for record in records if record["config"]["backend"]["strategy"] in alone]
        if model is not None and usable:
            size = usable[0]["config"]["training"].get("batch_size")
            yield from load_object(model)(usable, TARGETS // size if size else None)


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
        row["kind"],
        tables.number(row.get("model_error"), "{:+.1%}"),
        *[tables.number(row.get(name), "{:.2f}x") for name in ("compute_shared", "exchange_shared")],
        tables.number(row.get("shared_error"), "{:+.1%}"),
    ]


def _of(held: SuitePart) -> list[dict[str, Any]]:
    return [row for _, comparison in held.comparisons("train") for row in predicted(comparison.rows)]


def most_measured(held: SuitePart) -> str:
    """The largest measured speed-up and its number of workers."""
    rows = [row for row in _of(held) if row["kind"] == "measured"]
    best = max(rows, key=lambda row: float(row["speedup"]), default=None)
    return f"{best['speedup']:.3g} with {best['workers']} workers" if best else tables.NOTHING


def modelled(held: SuitePart) -> str:
    """What the model says of the most workers, by strategy, with its slope."""
    rows = [row for row in _of(held) if row["kind"] == "model"]
    most = max((row["workers"] for row in rows), default=0)
    said = [
        f"{row['strategy']} {row['speedup']:.3g}, slope {row['slope']:.2f}" for row in rows if row["workers"] == most
    ]
    return f"model, {most} workers: {'; '.join(dict.fromkeys(said))}" if said else tables.NOTHING
