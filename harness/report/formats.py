"""Printed forms of times with their spread, ratios, scores, bytes and statuses."""

from collections.abc import Sequence

import numpy as np

from harness.report.content import NOTHING, Value
from harness.report.published import Published
from harness.report.rows import Row, ratio_of
from harness.store.record import Record
from harness.store.statistics import LEVEL, Summary

GLYPHS = {
    "oom": "✗ oom",
    "timeout": "✗ timeout",
    "error": "✗ error",
    "incorrect": "≠ incorrect",
    "unsupported": "∅ unsupported",
    "not_installed": "∅ not installed",
    "interrupted": "✗ interrupted",
}
TIMES = {
    "time": "median of the medians of each process. [low, high] is an interval for the true median over processes, "
    "between two values of the n processes. Its coverage is at least 95 %; where it is lower, as with five processes, "
    "it stands inside the brackets. (low … high) is the 10th to 90th percentile of the samples of a single process: a "
    "look, which says nothing about other processes",
    "first call": "the discarded call at the start of a turn, which finds caches and threads as another engine left "
    "them; — in records before protocol 3",
    "n": "fresh processes; each seed has its own",
    "⚠": "the samples have two modes, drift, many outliers or wide scatter, or were taken beside other load: the "
    "notes below the tables of the data set say so with numbers; or the parity gate was left out, or fewer than five "
    "processes stand behind a ratio; or another peer may be faster: by the interval of their ratio it may be 1.25 "
    "times as fast as the fastest one; or whole epochs stand beside extrapolated ones. Such a figure is no headline",
}
UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))
LONGEST_MESSAGE = 160
LEAST_PROCESSES = 5  # behind a figure that a front page, a suite's summary or a claim shows


def unit_of(rows: Sequence[Row]) -> tuple[str, float]:
    """Unit in which the smallest time of a table is at least one, and how many of them make a second."""
    smallest = min((row.time.median for row in rows if row.time), default=1.0)
    return next(((name, factor) for name, factor in UNITS if smallest * factor >= 1), UNITS[-1])


def timed(rows: Sequence[Row]) -> str:
    """Title of the column of times: an epoch, or one call of the scenario."""
    scenario = rows[0].record["config"]["scenario"]["name"]
    return "epoch time" if scenario == "train" else f"time of one {scenario}"


def measured(summary: Summary, factor: float = 1.0) -> str:
    """``median [low, high]`` for an interval over processes, ``median (low … high)`` for the spread inside one.

    The coverage of the interval stands inside it where it is below the usual 95 %.
    """
    scaled = summary.scaled(factor)
    if scaled.coverage is None:
        return f"{scaled.median:.3g} ({scaled.low:.3g} … {scaled.high:.3g})"
    less = f"; {100 * scaled.coverage:.3g} %" if scaled.coverage < LEVEL else ""
    return f"{scaled.median:.3g} [{scaled.low:.3g}, {scaled.high:.3g}{less}]"


def doubtful(row: Row) -> str:
    """The names of what speaks against a row's figure, to stand behind it; nothing for a good one."""
    return marked(", ".join(doubt.name for doubt in row.doubts))


def objections(row: Row) -> str:
    """What keeps a row's figure out of headlines: its doubts, too few processes; nothing for a good one."""
    return ", ".join(filter(None, [*(doubt.name for doubt in row.doubts), too_few(row.time)]))


def marked(doubts: str) -> str:
    """Doubts as they stand behind a figure; nothing where there are none."""
    return f" ⚠ {doubts}" if doubts else ""


def first_call(row: Row, factor: float) -> Value:
    """Time of a call that follows another engine's, in the unit of its table."""
    return Value(None if row.first_call is None else row.first_call * factor)


def processes(row: Row) -> str:
    """Number of processes behind a row's figure, where one is a look, and of the seeds that did not fail."""
    count = row.time.n if row.time else 0
    failed = f", {len(row.ok)} of {len(row.cells)} seeds" if len(row.ok) < len(row.cells) else ""
    return f"{count}{': a look' if count == 1 else ''}{failed}"


def ratio(row: Row) -> str:
    """Time as a multiple of the fastest peer's; ``~`` where the interval contains 1."""
    if row.ratio is None:
        return NOTHING
    if row.ratio_to == row.label:
        return "1"
    return compared(row.ratio) + (" (lower precision)" if row.lower_precision else "")


def compared(ratio: Summary) -> str:
    """A ratio of times with its interval; ``~`` where that contains 1."""
    return measured(ratio) + unclear(ratio)


def times(ratio: Summary | None) -> str:
    """How many times as fast; ``~`` where the interval contains 1, ⚠ for few processes, a dash without a ratio."""
    return NOTHING if ratio is None else f"{ratio.median:.3g}x{unclear(ratio)}{marked(too_few(ratio))}"


def too_few(summary: Summary | None) -> str:
    """How many processes stand behind a figure, where a headline takes more; nothing for enough of them."""
    if summary is None or summary.n >= LEAST_PROCESSES:
        return ""
    return f"{summary.n} of {LEAST_PROCESSES} processes"


def unclear(ratio: Summary) -> str:
    """``~`` to stand behind a figure whose ratio may be 1; nothing where the interval leaves 1 out."""
    return " ~" if ratio.low <= 1 <= ratio.high else ""


def status(row: Row) -> str:
    """Glyph, status and the first message of a row without a good record."""
    record: Record = row.record
    message = " ".join(record.get("message", "").split())
    short = message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 1]}…"
    return GLYPHS[record["status"]] + (f": {short}" if short else "")


def mean(scores: Sequence[float]) -> str:
    """Mean and sample standard deviation over seeds, as papers print them."""
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


def memory(size: float | None) -> str:
    """Bytes in binary units."""
    if size is None:
        return NOTHING
    gib = size / 2**30
    return f"{gib:.2f} GiB" if gib >= 1 else f"{size / 2**20:.3g} MiB"


def plural(count: int, noun: str) -> str:
    """A count with its noun, in the plural where there is not one."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def break_even(row: Row, other: Row, extra: float) -> str:
    """Epochs after which a row has won back ``extra`` seconds of preparation from another one in the same processes.

    ``~`` where the epochs of the two were not told apart.
    """
    ratio = ratio_of(other, row)
    if ratio is None or row.time is None:
        return NOTHING
    return epochs_until_even(extra, (ratio.median - 1) * row.time.median) + unclear(ratio)


def epochs_until_even(extra: float, saved: float) -> str:
    """After how many epochs ``extra`` seconds of preparation are won back at ``saved`` seconds an epoch."""
    if extra <= 0:
        return "at once" if saved >= 0 else f"ahead for {extra / saved:.3g}"
    return f"{extra / saved:.3g}" if saved > 0 else "never"
