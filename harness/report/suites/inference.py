"""Block of inference: wall, CPU and memory, beside the module that GraphInfer replaced and the peers."""

from collections.abc import Callable, Sequence
from statistics import median

from harness.report import tables
from harness.report.rows import Row
from harness.report.suites.part import SuitePart, backend, fastest, name_of, option, prepared, seconds, told_apart

HEAD = (
    "once before [s]",
    "first call, cold [s]",
    "later calls, warm [s]",
    "CPU s",
    "peak memory",
    "times (a)",
    "times (b)",
    "memory / (a)",
    "CPU / (a)",
)


def inference(held: SuitePart) -> str:
    """One table per comparison; (a) infers from neighbourhoods, (b) is the fastest peer in its fastest form."""
    texts = []
    for part, comparison in held.comparisons("infer"):
        old, rival = replaced(comparison.rows), best_peer(comparison.rows)
        lines = [_line(row, old, rival) for row in comparison.rows]
        lines += held.published("inference", len(HEAD) + 1)
        table = tables.markdown(["engine", *HEAD], lines)
        texts.append(f"### {name_of(part, comparison)}\n\n{table}")
    return "\n\n".join(texts)


def replaced(rows: Sequence[Row]) -> Row | None:
    """(a): inference from GraphFeatures, which GraphInfer replaced."""
    return next((row for row in rows if option(row, "infer") == "neighbourhood" and row.ok), None)


def best_peer(rows: Sequence[Row]) -> Row | None:
    """(b): the fastest peer: all make each embedding once, of batches of blocks or of the whole graph at once."""
    return fastest(rows)


def rounds(rows: Sequence[Row]) -> Row | None:
    """GraphInfer."""
    return next(
        (row for row in rows if backend(row) == "agl" and option(row, "infer") == "graphinfer" and row.ok), None
    )


def cpu(row: Row) -> float | None:
    """CPU seconds of a call."""
    held = [median(record["epochs"]["cpu_seconds"]) for record in row.ok if record["epochs"]["cpu_seconds"]]
    return median(held) if held else None


def _line(row: Row, old: Row | None, rival: Row | None) -> list[str]:
    if row.time is None:
        return [told_apart(row), tables.status(row), *[tables.NOTHING] * (len(HEAD) - 1)]
    first = [record["warmup"][0] for record in row.ok if record.get("warmup")]
    mark = " (a)" if row is old else " (b)" if row is rival else ""
    return [
        told_apart(row) + mark,
        tables.number(prepared(row), "{:.3g}"),
        tables.number(median(first) if first else None, "{:.3g}"),
        tables.measured(row.time),
        tables.number(cpu(row), "{:.3g}"),
        tables.memory(row.middle("memory", "peak")),
        *[tables.number(seconds(other) / row.time.median if other else None, "{:.3g}") for other in (old, rival)],
        *[tables.number(share(row, old, of), "{:.2f}") for of in (peak, cpu)],
    ]


def peak(row: Row) -> float | None:
    """Bytes of the process tree at most."""
    return row.middle("memory", "peak")


def share(row: Row, other: Row | None, of: Callable[[Row], float | None]) -> float | None:
    """A quantity of a row as a share of another row's."""
    mine, others = of(row), of(other) if other else None
    return mine / others if mine is not None and others else None


def against(held: SuitePart, rival: Callable[[Sequence[Row]], Row | None], of: Callable[[Row], float | None]) -> str:
    """What GraphInfer takes as a share of what a rival takes, from least to most over the tables."""
    pairs = [(rounds(comparison.rows), rival(comparison.rows)) for _, comparison in held.comparisons("infer")]
    shares = sorted(value for row, other in pairs if row and (value := share(row, other, of)) is not None)
    return " to ".join(dict.fromkeys(f"{value:.2g}" for value in (shares[0], shares[-1]))) if shares else tables.NOTHING
