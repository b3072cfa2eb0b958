"""Costs by size: seconds per unit of work, a law fitted on them, and its extrapolation to the published graph.

A stage's work is counted in units (targets flattened, targets trained, edges inferred over). On a graph of V nodes a
unit takes ``s(V)`` seconds. Beyond the largest measured ``V_m`` it grows with the logarithm of the size, as cache and
page-table misses do: ``s(V) = s(V_m) + max(b, 0) ln(V / V_m)`` with ``b`` the least-squares slope of ``s`` over
``ln V``. Fixed costs make ``b`` negative; a larger graph spreads them until they vanish. ``T = U s(V)``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.report import formats
from harness.report.content import NOTHING, Block, Cell, Paragraph, Table, Value, columns
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, backend, option

POINTS = ("stage", "engine", "nodes", "units of work", "seconds", "µs per unit", "CPU s per s", "peak memory")
LAWS = (
    *("stage", "engine", "sizes", "error on the largest", "unit of work", "units", "machine hours", "CPU hours"),
    "CPU hours if a unit stays as dear",
)


@dataclass(frozen=True)
class Point:
    """One size: nodes, units of work in the timed call, its seconds, CPU seconds per second and peak bytes."""

    nodes: float
    units: float
    seconds: float
    busy: float
    peak: float | None

    @property
    def each(self) -> float:
        """Seconds per unit."""
        return self.seconds / self.units


@dataclass(frozen=True)
class Series:
    """One engine's points in one stage, smallest graph first; ``key`` is all that they share."""

    stage: str
    name: str
    ours: bool
    key: str
    points: list[Point]


@dataclass(frozen=True)
class PublishedGraph:
    """The paper's graph: its nodes, and by stage the unit of work with its number."""

    nodes: float
    work: Mapping[str, Mapping[str, Any]]

    def hours(self, curve: Series) -> float:
        """Machine hours of a series' stage by the law."""
        return self.hours_at(extrapolated(curve.points, self.nodes), curve.stage)

    def hours_at(self, each: float, stage: str) -> float:
        """Machine hours of a stage when a unit takes ``each`` seconds."""
        return float(each * self.work[stage]["units"] / 3600)


def extrapolated(points: Sequence[Point], nodes: float) -> float:
    """Seconds per unit on a graph of ``nodes`` nodes, by the law above; one point has slope 0."""
    last = points[-1]
    sizes, each = np.log([point.nodes for point in points]), np.array([point.each for point in points])
    spread = sizes - sizes.mean()
    slope = float((spread * each).sum() / (spread**2).sum()) if len(points) > 1 else 0.0
    return float(last.each + max(slope, 0.0) * np.log(nodes / last.nodes))


def error(points: Sequence[Point]) -> float | None:
    """Relative error on the largest graph of the law fitted on all smaller ones; ``None`` for a single size."""
    if len(points) < 2:
        return None
    return extrapolated(points[:-1], points[-1].nodes) / points[-1].each - 1.0


def published_graph(records: SuiteRecords) -> PublishedGraph:
    """The constants of the suite's file."""
    return PublishedGraph(float(records.constant("nodes")), records.constant("work"))


def series(records: SuiteRecords) -> list[Series]:
    """The stages and engines that were measured on several sizes of one kind of graph, stage by stage."""
    by_key: dict[str, Series] = {}
    for stage, row in _rows(records):
        point = _point(row, stage)
        if point is not None:
            key = _key(row, stage)
            by_key.setdefault(key, Series(stage, _name(row, stage), not row.peer, key, [])).points.append(point)
    for curve in by_key.values():
        curve.points.sort(key=lambda point: point.nodes)
    return list(by_key.values())


def _rows(records: SuiteRecords) -> list[tuple[str, Row]]:
    stages = published_graph(records).work
    return [(stage, row) for stage in stages for _, comparison in records.comparisons(stage) for row in comparison.rows]


def _point(row: Row, stage: str) -> Point | None:
    counts = row.record.get("dataset", {}).get("counts", {})
    if row.time is None or "nodes" not in counts:
        return None
    if stage == "flatten":
        units = row.median("facts", "records")
        # the facts count the flattened batches only, so the seconds must not be scaled to a whole epoch
        seconds = row.time.median / float(row.record.get("extrapolated") or 1.0)
    else:
        units, seconds = float(counts["edges" if stage == "infer" else "train"]), row.time.median
    if not units:
        return None
    return Point(float(counts["nodes"]), units, seconds, row.busy() or 1.0, row.median("memory", "peak"))


def _key(row: Row, stage: str) -> str:
    """The settings that all points of a series share: all but the number of nodes."""
    config = row.record["config"]
    options = {name: value for name, value in (config["dataset"].get("options") or {}).items() if name != "nodes"}
    shared: list[Any] = [stage, config["dataset"]["name"], options, config["model"], config["backend"]]
    shared += [config["training"], config.get("launcher", {}).get("allocator"), row.record.get("ablations", [])]
    return json.dumps([*shared, config["device"], config["threads"], config.get("measure")], sort_keys=True)


def _name(row: Row, stage: str) -> str:
    model = row.record["config"]["model"]
    options = row.record["config"]["dataset"].get("options") or {}
    source = "from shards" if option(row, "source") == "graphfeature" else ""
    sampled = f"fanouts {' '.join(map(str, model['fanouts']))}" if model.get("fanouts") else "all neighbours"
    width = f"{options['features']} features" if "features" in options else ""
    engine = f"{backend(row)} {option(row, 'infer') or ''}".strip() if stage == "infer" else backend(row)
    return ", ".join([engine, *[text for text in (source, sampled, width) if text]])


def cost(records: SuiteRecords) -> list[Block]:
    """Measured points of each series and failed cells; the law, its error on the largest size, the published graph."""
    curves, graph = series(records), published_graph(records)
    measured: list[list[Cell]] = [
        [curve.stage, curve.name, f"{point.nodes:,.0f}", f"{point.units:,.0f}", *_numbers(point)]
        for curve in curves
        for point in curve.points
    ]
    if not measured:
        return []
    laws: list[Sequence[Cell]] = [*[_law(curve, graph) for curve in curves], *records.published("cost", len(LAWS))]
    remark = Paragraph(f"On {graph.nodes:.3g} nodes, extrapolated:")
    return [Table(columns(*POINTS), measured + _failed(records)), remark, Table(columns(*LAWS), laws)]


def _failed(records: SuiteRecords) -> list[list[Cell]]:
    """A row for each cell without a time: its status stands where its seconds would."""
    return [
        [stage, _name(row, stage), _configured_nodes(row), NOTHING, formats.status(row), *[NOTHING] * 3]
        for stage, row in _rows(records)
        if not row.ok
    ]


def _configured_nodes(row: Row) -> str:
    """Nodes of the graph by the cell's options: a failed cell may not have counted them."""
    nodes = (row.record["config"]["dataset"].get("options") or {}).get("nodes")
    return NOTHING if nodes is None else f"{nodes:,}"


def _numbers(point: Point) -> list[Cell]:
    times = [Value(point.seconds), Value(point.each * 1e6), Value(point.busy, "{:.2f}")]
    return [*times, formats.memory(point.peak)]


def _law(curve: Series, graph: PublishedGraph) -> list[Cell]:
    work, last = graph.work[curve.stage], curve.points[-1]
    hours, flat = graph.hours(curve), graph.hours_at(last.each, curve.stage)
    numbers = [Value(value, "{:,.3g}") for value in (hours, hours * last.busy, flat * last.busy)]
    missed = Value(error(curve.points), "{:+.0%}")
    return [curve.stage, curve.name, str(len(curve.points)), missed, work["unit"], f"{work['units']:.3g}", *numbers]


def hours_of(records: SuiteRecords, stage: str, ours: bool) -> str:
    """Extrapolated CPU hours of a stage, of our cheapest series or of the peers' cheapest, as the claims show them."""
    graph = published_graph(records)
    curves = [curve for curve in series(records) if curve.stage == stage and curve.ours == ours]
    hours, name = min(
        ((graph.hours(curve) * curve.points[-1].busy, curve.name) for curve in curves), default=(None, "")
    )
    return NOTHING if hours is None else f"{hours:,.3g} CPU hours, extrapolated ({name})"


def largest_memory(records: SuiteRecords, stage: str) -> str:
    """Highest peak of a process tree of ours on the largest graph in a stage, of any series."""
    points = [point for curve in series(records) if curve.stage == stage and curve.ours for point in curve.points]
    most = max((point for point in points if point.peak), key=lambda point: (point.nodes, point.peak), default=None)
    return NOTHING if most is None else f"{formats.memory(most.peak)} on {most.nodes:,.0f} nodes"


def panels(records: SuiteRecords) -> dict[str, list[Series]]:
    """The series of each stage by the title of its panel."""
    curves = series(records)
    stages = {stage: work["unit"] for stage, work in published_graph(records).work.items()}
    return {
        f"{stage}: µs per unit of work ({unit.split(',')[0]})": [curve for curve in curves if curve.stage == stage]
        for stage, unit in stages.items()
        if any(curve.stage == stage for curve in curves)
    }
