"""A suite with the records that it measured, and how its rows are told apart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.planning.suite import Suite, read_suite
from harness.report.parts import Comparison, DatasetPart, dataset_parts
from harness.report.published import SUITES
from harness.report.rows import Found, Row
from harness.usage import UsageError

GENERAL = ("parse", "order", "import", "load")  # what every engine needs before its own preparation


@dataclass
class SuitePart:
    """A suite's file and its tables."""

    suite: Suite
    parts: list[DatasetPart]

    def comparisons(self, scenario: str | None = None) -> Iterator[tuple[DatasetPart, Comparison]]:
        """Tables with their data set, of one scenario or of all."""
        for part in self.parts:
            for comparison in part.comparisons:
                if scenario in (None, comparison.scenario):
                    yield part, comparison

    def published(self, block: str, width: int) -> list[list[str]]:
        """The paper's rows of a block's table of ``width`` columns; raises UsageError for a row of another width."""
        rows = [[str(value) for value in row] for row in self.suite.paper.get(block, ())]
        for row in rows:
            if len(row) != width:
                raise UsageError(
                    f"suite {self.suite.name}: a row of paper.{block} has {len(row)} cells, its table {width} columns"
                )
        return rows


def suite_parts(
    results: Path, found: Sequence[Found], environments: Mapping[str, dict[str, Any]], folder: Path = SUITES
) -> list[SuitePart]:
    """The suites that name blocks of a page and have records, by name."""
    from omegaconf import OmegaConf

    made = []
    for path in sorted(folder.glob("*.yaml")):
        suite = read_suite(OmegaConf.to_container(OmegaConf.load(path)))
        mine = [(at, record) for at, record in found if record["config"].get("suite") == suite.name]
        if suite.report and mine:
            made.append(SuitePart(suite, dataset_parts(results, mine, environments)))
    return made


def name_of(part: DatasetPart, comparison: Comparison) -> str:
    """Data set with its size and what was done how: the first cell of a line."""
    options = comparison.rows[0].record["config"]["dataset"].get("options") or {}
    size = f" of {options['nodes']:,} nodes" if "nodes" in options else ""
    model, scenario, *form = comparison.title.split(", ")
    done = [model] if scenario == "train" else [model, scenario]
    config = comparison.rows[0].record["config"]
    fanouts, limit = config["model"].get("fanouts") or [], config["training"].get("batch_limit")
    sampled = [f"fanouts {' '.join(map(str, fanouts))}"] if fanouts else []
    limited = [f"the first {limit} of an epoch"] if limit else []
    return f"{part.name}{size}, {', '.join([*done, form[0], *limited, *form[1:-2], *sampled])}"


def option(row: Row, name: str) -> Any:
    """An option of a row's engine, ``None`` where it has none of that name."""
    return row.record["config"]["backend"].get(name)


def told_apart(row: Row) -> str:
    """A row's label with its form of inference, which a label leaves out where another part of it differs already."""
    form = option(row, "infer") if row.record["config"]["scenario"]["name"] == "infer" else None
    return row.label if form is None or "infer=" in row.label else f"{row.label} infer={form}"


def backend(row: Row) -> str:
    """Name of a row's engine."""
    return str(row.record["config"]["backend"]["name"])


def ablations(row: Row) -> tuple[str, ...]:
    """The ablations of a row, sorted."""
    return tuple(sorted(row.record.get("ablations", [])))


def at_its_best(rows: Sequence[Row]) -> Row | None:
    """Our fastest row that names no ablation."""
    return next((row for row in rows if not row.peer and row.ok and not ablations(row)), None)


def fastest(rows: Sequence[Row], name: str | None = None) -> Row | None:
    """The fastest peer, or the fastest form of one of them; rows are sorted by time."""
    return next((row for row in rows if row.peer and row.ok and name in (None, backend(row))), None)


def prepared(row: Row) -> float:
    """Seconds that an engine spends once, before its first epoch, on what is its own, all targets flattened."""
    spent = {name: value for name, value in row.prepare().items() if name not in GENERAL}
    if "flatten" in spent:
        spent["flatten"] *= unflattened(row)
    return sum(spent.values())


def unflattened(row: Row) -> float:
    """All targets over those whose GraphFeatures were made: a limited epoch needs no more."""
    stored, targets = row.middle("facts", "records"), row.middle("dataset", "counts", "train")
    return max(1.0, targets / stored) if stored and targets else 1.0


def seconds(row: Row) -> float:
    """Median seconds of the timed call of a row that has some."""
    assert row.time is not None
    return row.time.median
