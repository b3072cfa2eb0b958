"""Markdown tables of one comparison: what a reader sees of each row, and nothing that was not measured."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from harness.report.published import Published
from harness.report.rows import Row
from harness.store.record import Record
from harness.store.statistics import Summary, geometric_mean

NOTHING = "—"
GLYPHS = {
    "oom": "✗ oom",
    "timeout": "✗ timeout",
    "error": "✗ error",
    "incorrect": "≠ incorrect",
    "unsupported": "∅ unsupported",
    "not_installed": "∅ not installed",
    "interrupted": "✗ interrupted",
}
PHASES = ("load", "vectorize", "forward", "backward", "step", "comm")
UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))


def results(rows: Sequence[Row], published: Published | None) -> str:
    """The main table: time, ratio, limit, hit rate, score beside the published one, time to accuracy, memory."""
    unit, factor = unit_of(rows)
    score = next((row.record["metrics"]["name"] for row in rows if row.record.get("metrics")), "score")
    head = ["engine", f"{timed(rows)} [{unit}]", "n", "ratio to fastest peer", "of the limit", "xNR", "hit rate"]
    timed_score = any(row.time_to_accuracy() is not None for row in rows)
    head += [f"test {score}", "published", *[f"time to {score}"] * timed_score, "peak memory"]
    return markdown(head, [_result(row, factor, published, timed_score) for row in rows])


def _result(row: Row, factor: float, published: Published | None, timed_score: bool) -> list[str]:
    if row.time is None:
        return [row.label, status(row), f"0 of {len(row.cells)}", *[NOTHING] * (7 + timed_score)]
    n = str(len(row.ok)) if len(row.ok) == len(row.cells) else f"{len(row.ok)} of {len(row.cells)}"
    star = " ★" if row.fastest_peer else ""
    marks = " ≈" if row.record.get("extrapolated") else ""
    scores = row.values("metrics", "test")
    return [
        f"{row.label}{star}",
        measured(row.time, factor) + marks,
        n,
        ratio(row),
        number(row.middle("limits", "fraction_of_limit"), "{:.0%}"),
        number(row.middle("limits", "xnr"), "{:.3g}"),
        number(row.middle("cache", "hit_rate"), "{:.1%}"),
        mean(scores),
        beside(scores, published),
        *[number(row.time_to_accuracy(), "{:.3g} s")] * timed_score,
        _memories(row),
    ]


def _memories(row: Row) -> str:
    above, resident = row.middle("memory", "peak_minus_resident"), row.middle("memory", "resident")
    if resident is None:  # records of before 2026-11-21 count from there
        resident = row.middle("memory", "resident_after_prepare")
    return memory(above) if resident is None else f"{memory(above)} + {memory(resident)}"


def phases(rows: Sequence[Row]) -> str:
    """Where the time goes: the phases of the timed call, CPU seconds per second, and what is done once before."""
    unit, factor = unit_of(rows)
    good = [row for row in rows if row.ok]
    found = {name for row in good for name in row.phases()} - {"rest"}
    names = [*sorted(found, key=lambda name: (PHASES.index(name) if name in PHASES else len(PHASES), name)), "rest"]
    head = ["engine", *[f"{name} [{unit}]" for name in names], "CPU s per s", "prepared once [s]"]
    lines = []
    for row in good:
        spent, once = row.phases(), row.prepare()
        parts = ", ".join(f"{name} {value:.3g}" for name, value in once.items())
        total = f"{sum(once.values()):.3g} ({parts})" if once else NOTHING
        cells = [number(None if name not in spent else spent[name] * factor, "{:.3g}") for name in names]
        lines.append([row.label, *cells, number(row.busy(), "{:.2f}"), total])
    return markdown(head, lines)


def summary(tables: Iterable[Sequence[Row]]) -> str:
    """Geometric mean of each engine's ratio to the fastest peer over the tables that give it one, our engines first."""
    held: dict[tuple[bool, str], list[float]] = {}
    missing: dict[tuple[bool, str], int] = {}
    for row in (row for rows in tables for row in rows):
        key = (row.peer, row.label)
        held.setdefault(key, []).extend([row.ratio.median] if row.ratio else [])
        missing[key] = missing.get(key, 0) + (row.ratio is None)
    head = ["engine", "geometric mean of ratios", "lowest", "highest", "tables", "tables without a ratio"]
    lines = []
    for key, ratios in sorted(held.items()):
        ends = (geometric_mean(ratios), min(ratios), max(ratios)) if ratios else (None, None, None)
        lines.append([key[1], *[number(value, "{:.3g}") for value in ends], str(len(ratios)), str(missing[key])])
    return markdown(head, lines)


def unit_of(rows: Sequence[Row]) -> tuple[str, float]:
    """Unit in which the smallest time of a table is at least one, and its number per second."""
    smallest = min((row.time.median for row in rows if row.time), default=1.0)
    return next(((name, factor) for name, factor in UNITS if smallest * factor >= 1), UNITS[-1])


def timed(rows: Sequence[Row]) -> str:
    """What the timed call of a table is called."""
    scenario = rows[0].record["config"]["scenario"]["name"]
    return "epoch time" if scenario == "train" else f"time of one {scenario}"


def measured(summary: Summary, factor: float = 1.0) -> str:
    """``median [low, high]`` for an interval over processes, ``median (low … high)`` for the spread inside them."""
    held = summary.scaled(factor)
    ends = ("[", ", ", "]") if held.kind == "interval" else ("(", " … ", ")")
    return f"{held.median:.3g} {ends[0]}{held.low:.3g}{ends[1]}{held.high:.3g}{ends[2]}"


def ratio(row: Row) -> str:
    """Time as a multiple of the fastest peer's; ``~`` where the interval holds 1."""
    if row.ratio is None:
        return NOTHING
    if row.ratio_to == row.label:
        return "1"
    unclear = " ~" if row.ratio.low <= 1 <= row.ratio.high else ""
    return measured(row.ratio) + unclear + (" (lower precision)" if row.lower_precision else "")


def status(row: Row) -> str:
    """Glyph, status and the first message of a row without a good record."""
    record: Record = row.record
    message = " ".join(record.get("message", "").split())
    short = message if len(message) <= 160 else f"{message[:159]}…"
    return GLYPHS[record["status"]] + (f": {short}" if short else "")


def mean(scores: Sequence[float]) -> str:
    """Mean and sample standard deviation over seeds, which is what papers print."""
    if not scores:
        return NOTHING
    spread = f" ± {np.std(scores, ddof=1):.3f}" if len(scores) > 1 else ""
    return f"{np.mean(scores):.3f}{spread}"


def beside(scores: Sequence[float], published: Published | None) -> str:
    """The published score and how far the measured mean is from it."""
    if published is None:
        return NOTHING
    distance = f" ({np.mean(scores) - published.value:+.3f})" if scores else ""
    return f"{published.value:.3f}{distance}"


def memory(held: float | None) -> str:
    """Bytes in binary units."""
    if held is None:
        return NOTHING
    gib = held / 2**30
    return f"{gib:.2f} GiB" if gib >= 1 else f"{held / 2**20:.3g} MiB"


def number(value: float | None, form: str) -> str:
    """A number, or a dash where there is none; never a zero for something that was not measured."""
    return NOTHING if value is None else form.format(value)


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table; all columns but the first align right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(escape(cell) for cell in line) + " |" for line in (head, rule, *lines))


def escape(text: Any) -> str:
    """Keep a cell in its column and its line."""
    return " ".join(str(text).replace("|", "\\|").replace("<", "&lt;").split())
