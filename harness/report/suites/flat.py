"""Blocks of GraphFlat and sampling: GraphFeatures per second beside the disk's rate, edges per second beside peers."""

from collections.abc import Sequence

from harness.report import tables
from harness.report.rows import Row
from harness.report.suites.inference import cpu
from harness.report.suites.part import SuitePart, name_of, option

PAPER = 11.0  # GraphFeatures per second and worker (AGL, section 4.3: 1.4e8 targets in 3.7 h by about 1,000 workers)
SHARE = 0.6  # of the sequential write rate that shards are held against
FLAT = (
    "sink",
    "GraphFeatures/s",
    "per core",
    "times the paper's 11",
    "bytes of one, features in each",
    "features once a shard",
    "copies of a node",
    "written [MB/s]",
    "the disk takes [MB/s]",
    "synced [MB/s]",
    "share of what it takes",
    "60 % of that, per core",
)
SAMPLED = ("epoch [ms]", "targets/s", "edges/s", "times the fastest peer's edges/s", "its targets/s")
SAMPLED_TOO = ("edges of a target", "nodes of a target", "CPU s per s")


def called(row: Row) -> float:
    """Median seconds of the timed call as it ran, not scaled to all targets."""
    assert row.time is not None
    return row.time.median / float(row.record.get("extrapolated") or 1.0)


def rate(row: Row, what: str) -> float | None:
    """What is counted among a row's facts, per second of its calls."""
    count = row.middle("facts", what)
    return None if count is None or row.time is None else count / called(row)


def per_core(row: Row) -> float | None:
    """GraphFeatures per second and thread."""
    flattened = rate(row, "records")
    return None if flattened is None else flattened / float(row.record["config"]["threads"])


def graphfeatures(held: SuitePart) -> str:
    """One table per comparison of scenario ``flatten``."""
    texts = []
    for part, comparison in held.comparisons("flatten"):
        lines = [_flattened(row) for row in comparison.rows]
        lines += held.published("graphfeatures", len(FLAT) + 1)
        texts.append(f"### {name_of(part, comparison)}\n\n{tables.markdown(['engine', *FLAT], lines)}")
    return "\n\n".join(texts)


def _flattened(row: Row) -> list[str]:
    count = row.middle("facts", "records")
    if row.time is None or not count:
        return [row.label, tables.status(row), *[tables.NOTHING] * (len(FLAT) - 1)]
    alone = per_core(row)
    sizes = [row.middle("facts", f"{form}_bytes") for form in ("embedded", "shared")]
    told = [f"{count / called(row):,.0f}", tables.number(alone, "{:,.0f}")]
    told += [tables.number(alone / PAPER if alone else None, "{:,.0f}")]
    told += [tables.number(size / count if size else None, "{:,.0f}") for size in sizes]
    return [row.label, str(option(row, "sink")), *told, *_disk(row, count)]


def _disk(row: Row, count: float) -> list[str]:
    copies = tables.number(row.middle("facts", "duplication"), "{:.1f}")
    size, taken = row.middle("facts", "file_bytes"), row.middle("facts", "write_rate")
    if not size or taken is None:
        return [copies, *[tables.NOTHING] * 5]
    written, cores = size / called(row), float(row.record["config"]["threads"])
    rates = [written, taken, row.middle("facts", "synced_write_rate")]
    told = [tables.number(value / 1e6 if value else None, "{:,.0f}") for value in rates]
    return [copies, *told, f"{written / taken:.0%}", f"{SHARE * taken * count / size / cores:,.0f}"]


def best_rates(held: SuitePart) -> str:
    """The fastest row without a sink and the fastest on a disk, per second and core."""
    rows = [row for _, comparison in held.comparisons("flatten") for row in comparison.rows if row.ok]
    found: dict[str, float] = {}
    for row in rows:
        if option(row, "features") == "embedded" and (value := per_core(row)):
            sink = str(option(row, "sink"))
            found[sink] = max(value, found.get(sink, 0.0))
    said = [
        f"{found[sink]:,.0f} {name}" for sink, name in (("none", "into nothing"), ("disk", "to disk")) if sink in found
    ]
    return ", ".join(said) or tables.NOTHING


def sampling(held: SuitePart) -> str:
    """One table per comparison of scenario ``sample``."""
    texts = []
    for part, comparison in held.comparisons("sample"):
        lines = [_sampled(row, rival(row, comparison.rows)) for row in comparison.rows]
        table = tables.markdown(["engine", *SAMPLED, *SAMPLED_TOO], lines)
        texts.append(f"### {name_of(part, comparison)}\n\n{table}")
    return "\n\n".join(texts)


def rival(row: Row, rows: Sequence[Row]) -> Row | None:
    """The fastest peer of the same groups: ratios exist only inside a group."""
    return next((other for other in rows if other.ok and other.label == row.ratio_to), None)


def _sampled(row: Row, other: Row | None) -> list[str]:
    targets = row.middle("facts", "targets")
    if row.time is None or not targets:
        return [row.label, tables.status(row), *[tables.NOTHING] * (len(SAMPLED) + len(SAMPLED_TOO) - 1)]
    told = [f"{called(row) * 1e3:.3g}", *[tables.number(rate(row, of), "{:,.0f}") for of in ("targets", "edges")]]
    told += [tables.number(times(row, other, of), "{:.2f}") for of in ("edges", "targets")]
    held = [row.middle("facts", of) for of in ("edges", "nodes")]
    spent = cpu(row)
    told += [tables.number(count / targets if count else None, "{:.1f}") for count in held]
    return [row.label, *told, tables.number(spent / called(row) if spent else None, "{:.2f}")]


def times(row: Row, other: Row | None, of: str) -> float | None:
    """How many times as many per second as a rival's."""
    mine, others = rate(row, of), rate(other, of) if other else None
    return mine / others if mine and others else None


def sampling_range(held: SuitePart) -> str:
    """Edges per second of our fastest row over those of the fastest peer, from least to most over the tables."""
    pairs = [(_ours(comparison.rows), comparison.rows) for _, comparison in held.comparisons("sample")]
    found = sorted(value for row, rows in pairs if row and (value := times(row, rival(row, rows), "edges")))
    return " to ".join(dict.fromkeys(f"{value:.2f}" for value in (found[0], found[-1]))) if found else tables.NOTHING


def _ours(rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if not row.peer and row.ok), None)
