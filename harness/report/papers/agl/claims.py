"""Claims of the cost pages: hours of a stage on the published graph, and memory; or why there is no claim."""

from harness.report import formats
from harness.report.content import NOTHING
from harness.report.growth import error
from harness.report.papers.agl.cost import PublishedGraph, Series, peers_elsewhere, published_graph, series
from harness.report.suites.records import SuiteRecords


def hours_of(records: SuiteRecords, stage: str, ours: bool) -> str:
    """Extrapolated CPU hours of a stage for a claim: of our cheapest form, or of the peers' cheapest in any suite."""
    graph = published_graph(records)
    measured = series(records) if ours else [*series(records), *peers_elsewhere(records)]
    curves = [curve for curve in measured if curve.stage == stage and curve.ours == ours]
    if not curves:
        return NOTHING
    at_width = [curve for curve in curves if curve.features == graph.features]
    if not at_width:
        return f"no claim: not measured with the published {graph.features} features"
    # Of ours a law counts more than a single size; a peer's fastest form counts, be it a lower bound.
    claimable = [curve for curve in at_width if curve.is_claim] if ours else []
    return _claim(min(claimable or at_width, key=lambda curve: _expected_hours(curve, graph)), graph)


def _expected_hours(curve: Series, graph: PublishedGraph) -> float:
    """CPU hours by a series' law, or at the rate of its largest size where it has none."""
    last = curve.points[-1]
    return (graph.hours(curve) if curve.is_claim else graph.hours_at(last.each, curve.stage)) * last.busy


def _claim(curve: Series, graph: PublishedGraph) -> str:
    """Hours of a series and its doubts, or why there is no claim; a peer's single size gives a lower bound."""
    missed, last = error(curve.points), curve.points[-1]
    if curve.is_claim:
        return f"{graph.hours(curve) * last.busy:,.3g} CPU hours, extrapolated ({curve.name}){curve.doubts}"
    if missed is not None:
        return f"no claim: the law misses the largest size of {curve.name} by {missed:+.0%}"
    if curve.ours:
        return f"no claim: {curve.name} was measured on one size"
    hours = graph.hours_at(last.each, curve.stage) * last.busy
    return f"at least {hours:,.3g} CPU hours ({curve.name}, one size){curve.doubts}"


def largest_memory(records: SuiteRecords, stage: str) -> str:
    """Highest peak of a process tree of ours in a stage, on the largest graph of the published width."""
    features = published_graph(records).features
    curves = [curve for curve in series(records) if curve.stage == stage and curve.ours]
    points = [point for curve in curves if curve.features == features for point in curve.points if point.peak]
    if curves and not points:
        return f"no claim: not measured with the published {features} features"
    most = max(points, key=lambda point: (point.nodes, point.peak), default=None)
    if most is None:
        return NOTHING
    return f"{formats.memory(most.peak)} on {most.nodes:,.0f} nodes{formats.marked(most.doubts)}"
