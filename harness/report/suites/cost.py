"""Block of costs by size: seconds per unit of work, a law fitted on them, and what it says of the published graph.

A stage's work is counted in units (targets flattened, targets trained, edges inferred over). On a graph of V nodes a
unit takes ``s(V)`` seconds. Beyond the largest measured ``V_m`` it grows with the logarithm of the size, as what caches
and page tables miss does: ``s(V) = s(V_m) + max(b, 0) ln(V / V_m)`` with ``b`` the least-squares slope of ``s`` over
``ln V``. Fixed costs make ``b`` negative; a larger graph spreads them, and then they are gone. ``T = U s(V)``.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.report import tables
from harness.report.rows import Row
from harness.report.suites.part import SuitePart, backend, option

NODES = 6.23e9  # of the published graph (AGL, section 4.1.1), as are the works
WORK = {
    "flatten": ("targets", 1.4e8),
    "train": ("targets trained, 7 epochs", 7 * 1.2e8),
    "infer": ("edges", 3.38e11),
}


@dataclass(frozen=True)
class Point:
    """One size: nodes, units of work in the timed call, its seconds, threads' share and peak bytes."""

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
    key: str
    points: list[Point]


def extrapolated(points: Sequence[Point], nodes: float) -> float:
    """Seconds per unit on a graph of ``nodes`` nodes, by the law above; one point has slope 0."""
    last = points[-1]
    sizes, each = np.log([point.nodes for point in points]), np.array([point.each for point in points])
    spread = sizes - sizes.mean()
    slope = float((spread * each).sum() / (spread**2).sum()) if len(points) > 1 else 0.0
    return float(last.each + max(slope, 0.0) * np.log(nodes / last.nodes))


def error(points: Sequence[Point]) -> float | None:
    """The law fitted on all but the largest graph, over what was measured there, minus 1."""
    if len(points) < 2:
        return None
    return extrapolated(points[:-1], points[-1].nodes) / points[-1].each - 1.0


def series(held: SuitePart) -> list[Series]:
    """The stages and engines that were measured on several sizes of one kind of graph, stage by stage."""
    found: dict[str, Series] = {}
    for stage in WORK:
        for _, comparison in held.comparisons(stage):
            for row in comparison.rows:
                point = _point(row, stage)
                if point is not None:
                    key = _key(row, stage)
                    found.setdefault(key, Series(stage, _name(row), key, [])).points.append(point)
    for item in found.values():
        item.points.sort(key=lambda point: point.nodes)
    return list(found.values())


def _point(row: Row, stage: str) -> Point | None:
    counts = row.record.get("dataset", {}).get("counts", {})
    if row.time is None or "nodes" not in counts:
        return None
    if stage == "flatten":
        units = row.middle("facts", "records")
        # its facts are those of the batches that were flattened, so that a part is not scaled to the whole
        spent = row.time.median / float(row.record.get("extrapolated") or 1.0)
    else:
        units, spent = float(counts["edges" if stage == "infer" else "train"]), row.time.median
    return (
        Point(float(counts["nodes"]), units, spent, row.busy() or 1.0, row.middle("memory", "peak")) if units else None
    )


def _key(row: Row, stage: str) -> str:
    """Everything that two points of a series share: all but the number of nodes."""
    config = row.record["config"]
    options = {name: value for name, value in (config["dataset"].get("options") or {}).items() if name != "nodes"}
    shared: list[Any] = [stage, config["dataset"]["name"], options, config["model"], config["backend"]]
    shared += [config["training"], config.get("launcher", {}).get("allocator"), row.record.get("ablations", [])]
    return json.dumps([*shared, config["device"], config["threads"], config.get("measure")], sort_keys=True)


def _name(row: Row) -> str:
    model = row.record["config"]["model"]
    options = row.record["config"]["dataset"].get("options") or {}
    source = "from shards" if option(row, "source") == "graphfeature" else ""
    sampled = f"fanouts {' '.join(map(str, model['fanouts']))}" if model.get("fanouts") else "all neighbours"
    wide = f"{options['features']} features" if "features" in options else ""
    parts = [f"{backend(row)} {option(row, 'infer') or ''}".strip() if _stage(row) == "infer" else backend(row)]
    return ", ".join([*parts, *[text for text in (source, sampled, wide) if text]])


def _stage(row: Row) -> str:
    return str(row.record["config"]["scenario"]["name"])


def cost(held: SuitePart) -> str:
    """Measured points of each series, and what ended badly; the law, its error on the largest, the published graph."""
    items = series(held)
    measured = [
        [item.stage, item.name, f"{point.nodes:,.0f}", f"{point.units:,.0f}", *_numbers(point)]
        for item in items
        for point in item.points
    ]
    if not measured:
        return ""
    head = ["stage", "engine", "nodes", "units of work", "seconds", "µs per unit", "CPU s per s", "peak memory"]
    told = ["stage", "engine", "sizes", "error on the largest", "unit of work", "units", "machine hours", "CPU hours"]
    told.append("CPU hours if a unit stays as dear")
    law = [*[_law(item) for item in items], *held.published("cost", len(told))]
    said = tables.markdown(told, law)
    return f"{tables.markdown(head, measured + _failed(held))}\n\nOn {NODES:.3g} nodes, extrapolated:\n\n{said}"


def _failed(held: SuitePart) -> list[list[str]]:
    """A row for each cell without a time: its status stands where its seconds would."""
    rows = [(stage, row) for stage in WORK for _, comparison in held.comparisons(stage) for row in comparison.rows]
    return [
        [stage, _name(row), _asked(row), tables.NOTHING, tables.status(row), *[tables.NOTHING] * 3]
        for stage, row in rows
        if not row.ok
    ]


def _asked(row: Row) -> str:
    """Nodes of the graph that a cell was to run on, as its options say: one that ended badly may not have counted."""
    nodes = (row.record["config"]["dataset"].get("options") or {}).get("nodes")
    return tables.NOTHING if nodes is None else f"{nodes:,}"


def _numbers(point: Point) -> list[str]:
    spent = [f"{point.seconds:.3g}", f"{point.each * 1e6:.3g}", f"{point.busy:.2f}"]
    return [*spent, tables.memory(point.peak)]


def _law(item: Series) -> list[str]:
    unit, work = WORK[item.stage]
    last = item.points[-1]
    hours = extrapolated(item.points, NODES) * work / 3600
    flat = last.each * work / 3600
    missed = tables.number(error(item.points), "{:+.0%}")
    numbers = [f"{hours:,.3g}", f"{hours * last.busy:,.3g}", f"{flat * last.busy:,.3g}"]
    return [item.stage, item.name, str(len(item.points)), missed, unit, f"{work:.3g}", *numbers]


def hours_of(held: SuitePart, stage: str, ours: bool) -> str:
    """Extrapolated CPU hours of a stage, of our cheapest series or of the peers' cheapest, as the claims show them."""
    mine = [item for item in series(held) if item.stage == stage and _own(item) == ours]
    best = min(mine, key=lambda item: _hours(item), default=None)
    if best is None:
        return tables.NOTHING
    return f"{_hours(best):,.3g} CPU hours, extrapolated ({best.name})"


def largest_memory(held: SuitePart, stage: str) -> str:
    """Highest peak of a process tree of ours on the largest graph in a stage, of any series."""
    points = [point for item in series(held) if item.stage == stage and _own(item) for point in item.points]
    most = max((point for point in points if point.peak), key=lambda point: (point.nodes, point.peak), default=None)
    return tables.NOTHING if most is None else f"{tables.memory(most.peak)} on {most.nodes:,.0f} nodes"


def _own(item: Series) -> bool:
    return item.name.split()[0].strip(",") == "agl"


def _hours(item: Series) -> float:
    return extrapolated(item.points, NODES) * WORK[item.stage][1] / 3600 * item.points[-1].busy
