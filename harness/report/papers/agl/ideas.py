"""AGL's optimizations one by one: epochs with each ablation beside those without any."""

from harness.report.content import Block, Cell, Table, Value, columns
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, ablations, name_of, option, seconds

ALL, DEFAULT = "all", "default"


def ideas(records: SuiteRecords) -> list[Block]:
    """One row per comparison with a base: the speed of one, some and all ideas as a multiple of the base's."""
    measured: list[tuple[str, float, dict[str, float]]] = []
    for dataset, comparison in records.comparisons():
        ours = [row for row in comparison.rows if row.ours and row.ok and option(row, "source") in (None, "graph")]
        base = next((row for row in ours if ablations(row) == ("base",)), None)
        if base is not None:
            factors = {_idea(row): seconds(base) / seconds(row) for row in reversed(ours) if row is not base}
            measured.append((name_of(dataset, comparison), seconds(base), factors))
    names = {name for *_, factors in measured for name in factors}
    ordered = sorted(names, key=lambda name: (name in (ALL, DEFAULT), len(name), name))
    rows: list[list[Cell]] = [
        [title, Value(base), *[Value(factors.get(name), "{:.3g}x") for name in ordered]]
        for title, base, factors in measured
    ]
    return [Table(columns("", ("base", "s"), *ordered), rows)] if rows else []


def _idea(row: Row) -> str:
    """The ablations as the title of a column; rows that name none have a pipeline, or too few threads for one."""
    if named := ablations(row):
        return "+" + " +".join(named)
    return ALL if row.record.get("facts", {}).get("overlaps") else DEFAULT
