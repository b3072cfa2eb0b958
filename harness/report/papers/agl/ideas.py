"""AGL's optimizations one by one: epochs with each ablation beside those without any."""

from statistics import geometric_mean

from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.rows import Row
from harness.report.suites.factors import RowPair, factors_of, times
from harness.report.suites.records import SuiteRecords, ablations, name_of, option, seconds

ALL, DEFAULT = "all", "default"


def ideas(records: SuiteRecords) -> list[Block]:
    """One row per comparison with a base: the speed of one, some and all ideas as a multiple of the base's."""
    measured: list[tuple[str, float, dict[str, str]]] = []
    for dataset, comparison in records.comparisons():
        ours = [row for row in comparison.rows if row.ours and row.ok and option(row, "source") in (None, "graph")]
        base = next((row for row in ours if ablations(row) == ("base",) and _unpartitioned(row) == "serial"), None)
        if base is not None:
            factors = {_idea(row): times(row, base, "{:.3g}x") for row in reversed(ours) if row is not base}
            measured.append((name_of(dataset, comparison), seconds(base), factors))
    names = {name for *_, factors in measured for name in factors}
    ordered = sorted(names, key=lambda name: (name in (ALL, DEFAULT), len(name), name))
    rows: list[list[Cell]] = [
        [title, Value(base), *[factors.get(name, NOTHING) for name in ordered]] for title, base, factors in measured
    ]
    return [Table(columns("", ("base", "s"), *ordered), rows)] if rows else []


def partition_gains(records: SuiteRecords, unpartitioned: str) -> str:
    """How many times as fast as base each model is by edge partition alone, over its numbers of layers.

    ``unpartitioned`` is how base aggregates: ``serial``, by the same kernels on one thread, or ``scattered``.
    """
    pairs: dict[str, list[RowPair]] = {}
    for _, comparison in records.comparisons("train"):
        ours = [row for row in comparison.rows if row.ours and row.ok and option(row, "source") in (None, "graph")]
        base = [row for row in ours if ablations(row) == ("base",) and _unpartitioned(row) == unpartitioned]
        partitioned = [row for row in ours if ablations(row) == ("partition",)]
        if base and partitioned:
            model = str(base[0].record["config"]["model"]["name"])
            pairs.setdefault(model, []).append(RowPair(partitioned[0], base[0]))
    return ", ".join(filter(None, (_gain(model, pairs[model]) for model in sorted(pairs)))) or NOTHING


def _gain(model: str, pairs: list[RowPair]) -> str:
    """The geometric mean without doubtful figures, which are counted; nothing where none was measured in turns."""
    factors, remark = factors_of(pairs)
    mean = [f"{geometric_mean(factors):.2f}x"] if factors else []
    figures = [*mean, *[f"({remark})"] * bool(remark)]
    return " ".join([model, *figures]) if figures else ""


def _unpartitioned(row: Row) -> str:
    return str(option(row, "unpartitioned") or "serial")


def _idea(row: Row) -> str:
    """The ablations as the title of a column; rows that name none have a pipeline, or too few threads for one."""
    if ablations(row) == ("base",):
        return f"base, {_unpartitioned(row)}"
    if named := ablations(row):
        return "+" + " +".join(named)
    return ALL if row.record.get("facts", {}).get("overlaps") else DEFAULT
