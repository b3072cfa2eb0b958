"""Tables of one comparison: its rows with times, ratios, limits and scores; its phases; a summary over tables."""

from collections import Counter
from collections.abc import Iterable, Sequence

from harness.report import bounds, formats
from harness.report.content import NOTHING, Cell, Table, Value, columns
from harness.report.published import Published
from harness.report.rows import Row
from harness.store.statistics import geometric_mean

PHASES = ("load", "vectorize", "forward", "backward", "step", "comm")


def results(rows: Sequence[Row], published: Published | None) -> Table:
    """The main table: time, ratio, limit, hit rate, score beside the published one, time to accuracy, memory."""
    unit, factor = formats.unit_of(rows)
    score = next((row.metric for row in rows if row.metric != "score"), "score")
    timed_score = any(row.time_to_accuracy() is not None for row in rows)
    heads = columns(
        "engine",
        (formats.timed(rows), unit),
        *("n", "ratio to fastest peer", "of the limit", "xNR", "hit rate", f"test {score}", "published"),
        *[f"time to {score}"] * timed_score,
        "peak memory",
        ("first call", unit),
    )
    return Table(heads, [_result(row, factor, published, timed_score) for row in rows])


def _result(row: Row, factor: float, published: Published | None, timed_score: bool) -> list[Cell]:
    if row.time is None:
        return [row.label, formats.status(row), f"0 of {len(row.cells)}", *[NOTHING] * (8 + timed_score)]
    scores = row.values("metrics", "test")
    return [
        f"{row.label}{' ★' if row.fastest_peer else ''}",
        formats.measured(row.time, factor) + (" ≈" if row.extrapolated else "") + formats.doubtful(row),
        formats.processes(row),
        formats.ratio(row),
        bounds.share(row, "limit"),
        Value(row.median("limits", "xnr")),
        Value(row.median("cache", "hit_rate"), "{:.1%}"),
        formats.mean(scores),
        formats.beside(scores, published),
        *[Value(row.time_to_accuracy(), "{:.3g} s")] * timed_score,
        _memories(row),
        formats.first_call(row, factor),
    ]


def _memories(row: Row) -> str:
    needed, resident = row.working_set(), row.median("memory", "resident")
    if resident is None:  # records from before 2026-11-21 lack it
        resident = row.median("memory", "resident_after_prepare")
    if resident is None:
        return formats.memory(needed)
    return f"{formats.memory(needed)} + {formats.memory(resident - (row.median('memory', 'retained') or 0))}"


def phases(rows: Sequence[Row]) -> Table:
    """Where the time goes: the phases of the timed call, CPU seconds per second, and the preparation."""
    unit, factor = formats.unit_of(rows)
    good = [row for row in rows if row.ok]
    known = {name for row in good for name in row.phases()} - {"rest"}
    names = [*sorted(known, key=lambda name: (PHASES.index(name) if name in PHASES else len(PHASES), name)), "rest"]
    heads = columns(
        "engine", *[(name, unit) for name in names], "CPU s per s", ("prepared once", "s"), ("first call of all", "s")
    )
    lines: list[list[Cell]] = []
    for row in good:
        seconds, once = row.phases(), row.prepare()
        parts = ", ".join(f"{name} {value:.3g}" for name, value in once.items())
        total = f"{sum(once.values()):.3g} ({parts})" if once else NOTHING
        cells = [Value(seconds[name] * factor if name in seconds else None) for name in names]
        lines.append([row.label, *cells, Value(row.busy(), "{:.2f}"), total, Value(row.first_call_of_all())])
    return Table(heads, lines)


def parts(rows: Sequence[Row]) -> Table:
    """What the seconds of an epoch are for, and its calls of torch, a row per engine; in the unit of the rows."""
    unit, factor = formats.unit_of(rows)
    good = [row for row in rows if row.parts()]
    names = list(dict.fromkeys(name for row in good for name in row.parts()))
    lines: list[list[Cell]] = [
        [row.label, *[Value(row.parts().get(name, 0.0) * factor) for name in names], Value(row.torch_calls(), "{:.0f}")]
        for row in good
    ]
    return Table(columns("engine", *[(name, unit) for name in names], "calls of torch"), lines)


def summary(tables: Iterable[Sequence[Row]]) -> Table:
    """Geometric mean of each engine's ratio to the fastest peer over the tables that give it a good one, ours first.

    A ratio is good where neither side is in doubt and enough processes stand behind it; the others are counted.
    """
    by_engine: dict[tuple[bool, str], list[float]] = {}
    others: Counter[tuple[bool, str, str]] = Counter()
    for rows in tables:
        doubtful = {row.label for row in rows if row.doubts}
        for row in rows:
            ratios = by_engine.setdefault((not row.native, row.label), [])
            if row.ratio is None:
                others[(not row.native, row.label, "missing")] += 1
            elif doubtful & {row.label, row.ratio_to} or formats.too_few(row.ratio):
                others[(not row.native, row.label, "doubtful")] += 1
            else:
                ratios.append(row.ratio.median)
    lines: list[list[Cell]] = []
    for key, ratios in sorted(by_engine.items()):
        ends = (geometric_mean(ratios), min(ratios), max(ratios)) if ratios else (None, None, None)
        left_out = [str(others[(*key, reason)]) for reason in ("doubtful", "missing")]
        lines.append([key[1], *[Value(value) for value in ends], str(len(ratios)), *left_out])
    heads = ("engine", "geometric mean of ratios", "lowest", "highest", "tables", "in doubt", "without a ratio")
    return Table(columns(*heads), lines)
