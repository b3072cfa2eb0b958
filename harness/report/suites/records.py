"""A suite with its records, and functions over its rows: names, engines, seconds, rates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.planning.suite import Suite
from harness.report.comparisons import Comparison, DatasetComparisons, dataset_comparisons
from harness.report.content import Block, Section, Table
from harness.report.published import suites
from harness.report.rows import Row
from harness.report.scopes import Scope, by_scope, newest_protocol
from harness.store.naming import distinctions
from harness.store.record import StoredRecord
from harness.store.samples import by_process
from harness.store.statistics import summarize
from harness.usage import UsageError

GENERAL = ("parse", "order", "import", "load")  # phases of preparation that are not the engine's own


@dataclass
class SuiteRecords:
    """A suite's file and the comparisons of its records, all of one machine and one protocol.

    ``elsewhere`` are the comparisons of other records of its data sets, of the same machine and protocol.
    """

    suite: Suite
    scope: Scope
    datasets: list[DatasetComparisons]
    elsewhere: list[DatasetComparisons] = field(default_factory=list)

    def comparisons(self, scenario: str | None = None) -> Iterator[tuple[DatasetComparisons, Comparison]]:
        """Comparisons with their data set, of one scenario or of all."""
        for dataset in self.datasets:
            for comparison in dataset.comparisons:
                if scenario in (None, comparison.scenario):
                    yield dataset, comparison

    def comparisons_elsewhere(self, scenario: str) -> Iterator[Comparison]:
        """Comparisons of a scenario that other suites and runs measured on these data sets and machines."""
        for dataset in self.elsewhere:
            yield from (one for one in dataset.comparisons if one.scenario == scenario)

    def published(self, section: str, width: int) -> list[list[str]]:
        """The paper's rows of a section's table of ``width`` columns; raises UsageError for a row of another width."""
        rows = [[str(value) for value in row] for row in self.suite.paper.get(section, ())]
        for row in rows:
            if len(row) != width:
                raise UsageError(
                    f"suite {self.suite.name}: a row of paper.{section} has {len(row)} cells, its table {width} columns"
                )
        return rows

    def constant(self, name: str) -> Any:
        """A constant of the paper from the suite's file; raises UsageError where it lacks that."""
        if name not in self.suite.constants:
            path = f"conf/suite/{self.suite.name}.yaml"
            raise UsageError(f"suite {self.suite.name} has no constants.{name}: add it to {path}")
        return self.suite.constants[name]

    def tables(self, scenario: str | None, table: Callable[[Comparison], Table]) -> list[Block]:
        """A section with its table for each comparison of a scenario, without those whose table has no rows."""
        built = [(name_of(dataset, one), table(one)) for dataset, one in self.comparisons(scenario)]
        return [Section(name, [content]) for name, content in built if content.rows]


def suite_records(
    results: Path,
    records: Sequence[StoredRecord],
    environments: Mapping[str, dict[str, Any]],
    others: Sequence[DatasetComparisons],
) -> list[SuiteRecords]:
    """The suites that name sections of a page and have records: by name, the newest protocol, each machine apart.

    ``others`` compares all records.
    """
    with_records = []
    for suite in suites():
        measured = [(path, record) for path, record in records if record["config"].get("suite") == suite.name]
        if suite.report and measured:
            newest = newest_protocol(measured)
            measured = [(path, record) for path, record in measured if record["protocol"] == newest]
            scopes = by_scope(dataset_comparisons(results, measured, environments))
            with_records += [
                SuiteRecords(suite, scope, _named_apart(datasets), _elsewhere(suite, datasets, others))
                for scope, datasets in scopes.items()
            ]
    return with_records


def _elsewhere(
    suite: Suite, datasets: Sequence[DatasetComparisons], others: Sequence[DatasetComparisons]
) -> list[DatasetComparisons]:
    """The comparisons of a suite's data sets and scope, without the rows that are its own."""
    places = {(dataset.name, dataset.scope) for dataset in datasets}
    return [
        replace(dataset, comparisons=[rest for one in dataset.comparisons if (rest := _without(one, suite.name))])
        for dataset in others
        if (dataset.name, dataset.scope) in places
    ]


def _without(comparison: Comparison, suite: str) -> Comparison | None:
    rows = [row for row in comparison.rows if row.record["config"].get("suite") != suite]
    return replace(comparison, rows=rows) if rows else None


def _named_apart(datasets: Sequence[DatasetComparisons]) -> list[DatasetComparisons]:
    """Give comparisons that would have the same name the settings that tell them apart."""
    named = [(dataset, one) for dataset in datasets for one in dataset.comparisons]
    words = iter(distinctions([name_of(dataset, one) for dataset, one in named], [one.settings for _, one in named]))
    return [
        replace(dataset, comparisons=[replace(one, distinction=tuple(next(words))) for one in dataset.comparisons])
        for dataset in datasets
    ]


def name_of(dataset: DatasetComparisons, comparison: Comparison) -> str:
    """Data set with its size, model, scenario and batches: the first cell of a row."""
    nodes = stated_nodes(comparison.rows[0])
    size = "" if nodes is None else f" of {nodes:,} nodes"
    model, scenario, *form = comparison.title.split(", ")
    task = [model] if scenario == "train" else [model, scenario]
    config = comparison.rows[0].record["config"]
    fanouts, limit = config["model"].get("fanouts") or [], config["training"].get("batch_limit")
    sampled = [f"fanouts {' '.join(map(str, fanouts))}"] if fanouts else []
    limited = [f"the first {limit} of an epoch"] if limit else []
    return (
        f"{dataset.name}{size}, {', '.join([*task, form[0], *limited, *form[1:-2], *sampled, *comparison.distinction])}"
    )


def stated_nodes(row: Row) -> int | None:
    """Nodes that the options of a generated data set ask for; None for others, of which ``nodes`` may be a file."""
    nodes = (row.record["config"]["dataset"].get("options") or {}).get("nodes")
    return nodes if isinstance(nodes, int) else None


def workers_of(row: Row) -> int:
    """Training workers of a row's engine, 0 where it states none."""
    workers = option(row, "workers")
    return workers if isinstance(workers, int) else 0


def option(row: Row, name: str) -> Any:
    """An option of a row's engine, ``None`` where the engine has no option of that name."""
    return row.record["config"]["backend"].get(name)


def label_with_form(row: Row) -> str:
    """A row's label with its form of inference, which a label leaves out where another part of it differs already."""
    form = option(row, "infer") if row.record["config"]["scenario"]["name"] == "infer" else None
    return row.label if form is None or "infer=" in row.label else f"{row.label} infer={form}"


def backend(row: Row) -> str:
    """Name of a row's backend."""
    return str(row.record["config"]["backend"]["name"])


def ablations(row: Row) -> tuple[str, ...]:
    """The ablations of a row, sorted."""
    return tuple(sorted(row.record.get("ablations", [])))


def at_its_best(rows: Sequence[Row]) -> Row | None:
    """Our fastest row that names no ablation."""
    return next((row for row in rows if row.ours and row.ok and not ablations(row)), None)


def measured_peers(rows: Sequence[Row], name: str | None = None) -> list[Row]:
    """The peers, or the forms of one of them, the fastest first; rows are sorted by time."""
    return [row for row in rows if row.peer and row.ok and name in (None, backend(row))]


def fastest_peer(rows: Sequence[Row]) -> Row | None:
    """The fastest of the peers in the form that is its best."""
    return next(iter(measured_peers(rows)), None)


def preparation_seconds(row: Row) -> float:
    """Seconds of an engine's own preparation, done once; flattening is scaled to all targets."""
    phases = {name: seconds for name, seconds in row.prepare().items() if name not in GENERAL}
    if "flatten" in phases:
        phases["flatten"] *= scale_to_all_targets(row)
    return sum(phases.values())


def scale_to_all_targets(row: Row) -> float:
    """All targets divided by the flattened ones: a limited epoch flattens only the targets of its batches."""
    stored, targets = row.median("facts", "records"), row.median("dataset", "counts", "train")
    return max(1.0, targets / stored) if stored and targets else 1.0


def seconds(row: Row) -> float:
    """Median seconds of the timed call of a row with samples."""
    assert row.time is not None
    return row.time.median


def call_seconds(row: Row) -> float:
    """Median seconds of the timed call as it ran, not scaled to all targets."""
    samples = [own for record in row.ok for own in by_process(record, record["epochs"]["seconds"]).values()]
    return summarize(samples).median


def rate(row: Row, count: str) -> float | None:
    """A count among a row's facts per second of its calls."""
    total = row.median("facts", count)
    return None if total is None or row.time is None else total / call_seconds(row)
