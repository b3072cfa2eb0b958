"""The whole job by size of the graph: measured, and by a law on graphs that no machine here holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from datasets.hashes import digest
from harness.report import formats
from harness.report.content import NOTHING, Block, Cell, Paragraph, Table, Value, columns
from harness.report.growth import LARGEST_MISS, Point, different_names, error, extrapolated, settings_of
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, call_seconds, stated_nodes

POINTS = ("engine", "nodes", "edges", ("job", "s"), ("of an edge", "µs"), "memory", ("of a node", "bytes"), "structure")
LAWS = ("engine", "sizes", "error on the largest", "graph", "hours", "memory", "files")
FLOAT = 4  # bytes of a feature of the measured graphs


@dataclass(frozen=True)
class Size:
    """One size of the graph: its seconds by edge, bytes of memory by node, bytes of structure in files by edge."""

    point: Point
    memory: float | None
    structure: float


@dataclass(frozen=True)
class EngineSizes:
    """One engine's sizes, all with the same settings."""

    label: str
    sizes: list[Size]


def growth(records: SuiteRecords) -> list[Block]:
    """Measured sizes of each engine, then the graphs of the suite's constants by the law."""
    rows = [row for _, comparison in records.comparisons("dispatch") for row in comparison.rows]
    series = _series(rows)
    measured = [_measured(one.label, size) for one in series for size in one.sizes]
    failed: list[list[Cell]] = [
        [row.label, _nodes(row), NOTHING, formats.status(row), *[NOTHING] * 4] for row in rows if not row.ok
    ]
    if not measured + failed:
        return []
    laws = [law for one in series for law in _laws(one, records)]
    remark = Paragraph(f"Hours by the law, where it misses the largest size by at most {LARGEST_MISS:.0%}:")
    return [Table(columns(*POINTS), measured + failed), remark, Table(columns(*LAWS), laws)]


def _series(rows: Sequence[Row]) -> list[EngineSizes]:
    """Sizes of each engine and its settings, the smallest first."""
    by_settings: dict[str, list[tuple[Row, Size]]] = {}
    for row in rows:
        size = _size(row)
        if size is not None:
            by_settings.setdefault(digest(settings_of(row.record["config"])), []).append((row, size))
    firsts = [measured[0][0] for measured in by_settings.values()]
    names = different_names([row.label for row in firsts], [settings_of(row.record["config"]) for row in firsts])
    sizes = [sorted((size for _, size in own), key=lambda size: size.point.nodes) for own in by_settings.values()]
    return [EngineSizes(name, own) for name, own in zip(names, sizes, strict=True)]


def _size(row: Row) -> Size | None:
    counts, files = row.record.get("dataset", {}).get("counts", {}), row.median("facts", "partition", "bytes")
    if row.time is None or not row.timed or files is None or not counts.get("edges"):
        return None
    nodes, edges = float(counts["nodes"]), float(counts["edges"])
    memory = row.working_set()
    point = Point(nodes, edges, call_seconds(row), row.busy() or 1.0, memory, formats.objections(row))
    structure = (files - nodes * counts.get("features", 0) * FLOAT) / edges
    return Size(point, None if memory is None else memory / nodes, structure)


def _nodes(row: Row) -> str:
    nodes = stated_nodes(row)
    return NOTHING if nodes is None else f"{nodes:,}"


def _measured(label: str, size: Size) -> list[Cell]:
    point = size.point
    return [
        label,
        f"{point.nodes:,.0f}",
        f"{point.units:,.0f}",
        f"{point.seconds:.2f}{formats.marked(point.doubts)}",
        Value(point.each * 1e6, "{:.3f}"),
        formats.memory(point.peak),
        Value(size.memory, "{:,.0f}"),
        Value(size.structure, "{:,.1f}"),
    ]


def _laws(series: EngineSizes, records: SuiteRecords) -> Iterator[list[Cell]]:
    """One row per graph of the constants; without hours where the law does not hold."""
    points, last = [size.point for size in series.sizes], series.sizes[-1]
    missed = error(points)
    holds = missed is not None and abs(missed) <= LARGEST_MISS
    for name, graph in records.constant("graphs").items():
        nodes, edges = float(graph["nodes"]), float(graph["edges"])
        hours = extrapolated(points, nodes) * edges / 3600 if holds else None
        # Jobs without a bound hold edges too: the larger of both ratios.
        factor = max(nodes / last.point.nodes, edges / last.point.units)
        files = last.structure * edges + float(graph["feature_bytes"])
        yield [
            series.label + formats.marked(", ".join(dict.fromkeys(point.doubts for point in points if point.doubts))),
            str(len(points)),
            Value(missed, "{:+.0%}"),
            name,
            Value(hours, "{:,.3g}"),
            formats.memory(None if last.point.peak is None else last.point.peak * factor),
            formats.memory(files),
        ]
