"""Costs by size: seconds per unit of work, a law fitted on them, and its extrapolation to the published graph.

A stage's work is counted in units: targets flattened, targets trained, edges inferred over.

A claim takes the fastest form at the published width: ours of this suite, a peer's of any suite. A law that misses its
largest size by more than ``LARGEST_MISS`` is no claim.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from datasets.hashes import digest
from harness.report import formats
from harness.report.content import NOTHING, Block, Cell, Paragraph, Table, Value, columns
from harness.report.growth import LARGEST_MISS, Point, different_names, error, extrapolated, settings_of
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, backend, option, stated_nodes

POINTS = ("stage", "engine", "nodes", "units of work", "seconds", "µs per unit", "CPU s per s", "peak memory")
BATCHED = ("layerwise", "neighbourhood")  # forms of inference that go batch by batch
LAWS = (
    *("stage", "engine", "sizes", "error on the largest", "unit of work", "units", "machine hours", "CPU hours"),
    "CPU hours if a unit stays as dear",
)


@dataclass(frozen=True)
class Series:
    """One engine's points in one stage, smallest graph first; ``settings`` are all that they share.

    ``workload`` is the part of it that engines which do the same work have in common; ``features`` the input's width.
    """

    stage: str
    name: str
    ours: bool
    settings: Mapping[str, Any]
    points: list[Point]
    workload: str = ""
    features: int | None = None

    @property
    def is_claim(self) -> bool:
        """Whether the law may be extrapolated: it has several sizes and does not miss the largest by too much."""
        missed = error(self.points)
        return missed is not None and abs(missed) <= LARGEST_MISS

    @property
    def doubts(self) -> str:
        """What speaks against the points, to stand behind a figure that is made of them; nothing for good ones."""
        return formats.marked(
            "; ".join(f"{point.doubts} at {point.nodes:,.0f} nodes" for point in self.points if point.doubts)
        )


@dataclass(frozen=True)
class PublishedGraph:
    """The paper's graph: its nodes, the width of its features, and by stage the unit of work with its number."""

    nodes: float
    features: int
    work: Mapping[str, Mapping[str, Any]]

    def hours(self, curve: Series) -> float:
        """Machine hours of a series' stage by the law."""
        return self.hours_at(extrapolated(curve.points, self.nodes), curve.stage)

    def hours_at(self, each: float, stage: str) -> float:
        """Machine hours of a stage when a unit takes ``each`` seconds."""
        return float(each * self.work[stage]["units"] / 3600)


def published_graph(records: SuiteRecords) -> PublishedGraph:
    """The constants of the suite's file."""
    return PublishedGraph(float(records.constant("nodes")), records.constant("features"), records.constant("work"))


def series(records: SuiteRecords) -> list[Series]:
    """The stages and engines that were measured on several sizes of one kind of graph, stage by stage."""
    return _series(_rows(records))


def peers_elsewhere(records: SuiteRecords) -> list[Series]:
    """The peers' series of other suites that do the same work as one of this suite."""
    stages, known = published_graph(records).work, {curve.workload for curve in series(records)}
    rows = [(stage, row) for stage in stages for one in records.comparisons_elsewhere(stage) for row in one.rows]
    return [curve for curve in _series(rows, in_other_suites=True) if curve.workload in known and not curve.ours]


def _series(rows: Iterable[tuple[str, Row]], in_other_suites: bool = False) -> list[Series]:
    by_key: dict[str, Series] = {}
    for stage, row in rows:
        point = _point(row, stage)
        if point is not None and (row.ours or row.peer):
            settings, width = settings_of(row.record["config"]), row.record["dataset"]["counts"].get("features")
            name = _name(row, stage)
            if in_other_suites:
                name += f" (suite {row.record['config'].get('suite') or 'none'})"
            curve = Series(stage, name, row.ours, settings, [], _workload(row, stage), width)
            by_key.setdefault(digest(settings), curve).points.append(point)
    for curve in by_key.values():
        curve.points.sort(key=lambda point: point.nodes)
    curves = list(by_key.values())
    names = different_names([curve.name for curve in curves], [curve.settings for curve in curves])
    return [replace(curve, name=name) for curve, name in zip(curves, names, strict=True)]


def _rows(records: SuiteRecords) -> list[tuple[str, Row]]:
    stages = published_graph(records).work
    return [(stage, row) for stage in stages for _, comparison in records.comparisons(stage) for row in comparison.rows]


def _point(row: Row, stage: str) -> Point | None:
    counts = row.record.get("dataset", {}).get("counts", {})
    if row.time is None or not row.timed or "nodes" not in counts:
        return None
    if stage == "flatten":
        units = row.median("facts", "records")
        # the facts count the flattened batches only, so the seconds must not be scaled to a whole epoch
        seconds = row.time.median / float(row.record.get("extrapolated") or 1.0)
    else:
        work = counts.get("edges" if stage == "infer" else "train")
        units, seconds = None if work is None else float(work), row.time.median
    if not units:
        return None
    busy, peak = row.busy() or 1.0, row.median("memory", "peak")
    return Point(float(counts["nodes"]), units, seconds, busy, peak, formats.objections(row))


def _workload(row: Row, stage: str) -> str:
    """All that engines have in common that do the same work on the same device: data set without its nodes, model.

    The size of a batch is a part of the work of training alone.
    """
    config = row.record["config"]
    options = {name: value for name, value in (config["dataset"].get("options") or {}).items() if name != "nodes"}
    place = [config["device"], config["threads"], row.dtype]
    batch = config["training"].get("batch_size") if stage == "train" else None
    return json.dumps([stage, config["dataset"]["name"], options, config["model"], place, batch], sort_keys=True)


def _name(row: Row, stage: str) -> str:
    model = row.record["config"]["model"]
    options = row.record["config"]["dataset"].get("options") or {}
    source = "from shards" if option(row, "source") == "graphfeature" else ""
    sampled = f"fanouts {' '.join(map(str, model['fanouts']))}" if model.get("fanouts") else "all neighbours"
    width = f"{options['features']} features" if "features" in options else ""
    engine, loader = backend(row), f"{option(row, 'workers')} loader workers" if option(row, "workers") else ""
    if stage == "infer":
        engine, loader = f"{engine} {option(row, 'infer') or ''}".strip(), ""
        size = row.record["config"]["training"].get("batch_size")
        sampled += f", batches of {size:,}" if option(row, "infer") in BATCHED and size else ""
    return ", ".join([engine, *[text for text in (source, sampled, width, loader) if text]])


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
    with_peers = [*curves, *peers_elsewhere(records)]
    laws: list[Sequence[Cell]] = [_law(curve, graph) for curve in with_peers]
    laws += records.published("cost", len(LAWS))
    remark = Paragraph(f"On {graph.nodes:.3g} nodes, extrapolated:")
    tables: list[Block] = [Table(columns(*POINTS), measured + _failed(records)), remark, Table(columns(*LAWS), laws)]
    return [*tables, *_left_out(with_peers)]


def _left_out(curves: Sequence[Series]) -> list[Block]:
    """A sentence with the series whose law misses their largest size."""
    missed = {f"{curve.stage}, {curve.name}": error(curve.points) for curve in curves if not curve.is_claim}
    names = [f"{name} ({value:+.0%})" for name, value in missed.items() if value is not None]
    if not names:
        return []
    text = f"Not extrapolated, because the law misses the largest size by more than {LARGEST_MISS:.0%}: "
    return [Paragraph(f"{text}{'; '.join(names)}.")]


def _failed(records: SuiteRecords) -> list[list[Cell]]:
    """A row for each cell without a time: its status stands where its seconds would."""
    return [
        [stage, _name(row, stage), _configured_nodes(row), NOTHING, formats.status(row), *[NOTHING] * 3]
        for stage, row in _rows(records)
        if not row.ok
    ]


def _configured_nodes(row: Row) -> str:
    """Nodes of the graph by the cell's options: a failed cell may not have counted them."""
    nodes = stated_nodes(row)
    return NOTHING if nodes is None else f"{nodes:,}"


def _numbers(point: Point) -> list[Cell]:
    seconds = f"{Value(point.seconds)}{formats.marked(point.doubts)}"
    return [seconds, Value(point.each * 1e6), Value(point.busy, "{:.2f}"), formats.memory(point.peak)]


def _law(curve: Series, graph: PublishedGraph) -> list[Cell]:
    work, last = graph.work[curve.stage], curve.points[-1]
    hours, flat = graph.hours(curve), graph.hours_at(last.each, curve.stage)
    claimed = (hours, hours * last.busy) if curve.is_claim else (None, None)
    numbers = [Value(value, "{:,.3g}") for value in (*claimed, flat * last.busy)]
    missed = Value(error(curve.points), "{:+.0%}")
    name = f"{curve.name}{curve.doubts}"
    return [curve.stage, name, str(len(curve.points)), missed, work["unit"], f"{work['units']:.3g}", *numbers]


def panels(records: SuiteRecords) -> dict[str, list[Series]]:
    """The series of each stage by the title of its panel."""
    curves = series(records)
    stages = {stage: work["unit"] for stage, work in published_graph(records).work.items()}
    return {
        f"{stage}: µs per unit of work ({unit.split(',')[0]})": [curve for curve in curves if curve.stage == stage]
        for stage, unit in stages.items()
        if any(curve.stage == stage for curve in curves)
    }
