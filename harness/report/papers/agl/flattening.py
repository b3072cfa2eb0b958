"""GraphFeatures per second of GraphFlat, beside the paper's rate and the disk's."""

from harness.report import formats
from harness.report.content import NOTHING, Block, Cell, Section, Table, Value, columns
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, call_seconds, name_of, option, rate


def graphfeatures(records: SuiteRecords) -> list[Block]:
    """One table per comparison of scenario ``flatten``, with the paper's row."""
    paper, share = records.constant("graphfeatures_per_worker"), records.constant("share_of_disk")
    heads = columns(
        *("engine", "sink", "GraphFeatures/s", "per core", f"times the paper's {paper:g}"),
        *("bytes of one, features in each", "features once a shard", "copies of a node", ("written", "MB/s")),
        *(("the disk takes", "MB/s"), ("synced", "MB/s"), "share of what it takes"),
        *(f"{100 * share:g} % of that, per core", "n"),
    )
    published = records.published("graphfeatures", len(heads))
    sections: list[Block] = []
    for dataset, comparison in records.comparisons("flatten"):
        rows = [_row(row, paper, share, len(heads)) for row in comparison.rows]
        sections.append(Section(name_of(dataset, comparison), [Table(heads, [*rows, *published])]))
    return sections


def _row(row: Row, paper: float, share: float, width: int) -> list[Cell]:
    count = row.median("facts", "records")
    if row.time is None or not count:
        return [row.label, formats.status(row), *[NOTHING] * (width - 2)]
    core = per_core(row)
    sizes = [row.median("facts", f"{form}_bytes") for form in ("embedded", "shared")]
    numbers = [count / call_seconds(row), core, core / paper if core else None]
    numbers += [size / count if size else None for size in sizes]
    return [
        row.label + formats.doubtful(row),
        str(option(row, "sink")),
        *[Value(number, "{:,.0f}") for number in numbers],
        *_disk(row, count, share),
        formats.processes(row),
    ]


def per_core(row: Row) -> float | None:
    """GraphFeatures per second and thread."""
    flattened = rate(row, "records")
    return None if flattened is None else flattened / float(row.record["config"]["threads"])


def _disk(row: Row, count: float, share: float) -> list[Cell]:
    copies = Value(row.median("facts", "duplication"), "{:.1f}")
    size, disk = row.median("facts", "file_bytes"), row.median("facts", "write_rate")
    if not size or disk is None:
        return [copies, *[NOTHING] * 5]
    written, cores = size / call_seconds(row), float(row.record["config"]["threads"])
    rates = [written, disk, row.median("facts", "synced_write_rate")]
    limit = share * disk * count / size / cores
    numbers = [Value(value / 1e6 if value else None, "{:,.0f}") for value in rates]
    return [copies, *numbers, Value(written / disk, "{:.0%}"), Value(limit, "{:,.0f}")]


def best_rates(records: SuiteRecords) -> str:
    """The fastest row without a sink and the fastest on a disk, per second and core, without looks and doubts."""
    best: dict[str, float] = {}
    rows = [row for _, comparison in records.comparisons("flatten") for row in comparison.rows if row.ok and row.timed]
    for row in (row for row in rows if not formats.objections(row)):
        if option(row, "features") == "embedded" and (value := per_core(row)):
            sink = str(option(row, "sink"))
            best[sink] = max(value, best.get(sink, 0.0))
    names = {"none": "into nothing", "disk": "to disk"}
    return ", ".join(f"{best[sink]:,.0f} {name}" for sink, name in names.items() if sink in best) or NOTHING
