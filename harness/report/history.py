"""Headlines by commit and date: how many times as fast ours is as the fastest peer, in every record there is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets.hashes import digest
from harness.report.comparisons import comparison_title, divides_nodes, executed_measure, workload
from harness.report.rows import Row, rows
from harness.report.scopes import Scope, scope_of
from harness.report.speedups import contest, fastest_of_ours, why_no_headline
from harness.store.naming import dataset_name, distinctions, flatten
from harness.store.record import Record, StoredRecord
from harness.store.statistics import Summary

Environments = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Measured:
    """A headline as one version measured it in one scope; ``commit`` is empty where no record names it.

    ``versions`` are, by the folder of a record with its seed, digests of the code and packages that it ran.
    ``ranked`` are those cells that are ours and the peer. ``doubts`` say why the factor is no headline, ``contest``
    what of that concerns the comparison alone.
    """

    written: str
    commit: str
    scope: Scope
    factor: Summary
    ours: Row
    peer: Row
    versions: Mapping[str, frozenset[str]]
    ranked: frozenset[str]
    doubts: str
    contest: str

    @property
    def date(self) -> str:
        """The day of the newest record; empty where it does not say."""
        return self.written[:10]


@dataclass(frozen=True)
class Headline:
    """What was timed, by name, and all measurements of it by date."""

    dataset: str
    title: str
    points: list[Measured]


def version_of(record: Record, environments: Environments) -> str:
    """The commit of a record, else its day."""
    return commit_of(record, environments) or date_of(record)


def headlines(
    results: Path,
    records: Iterable[StoredRecord],
    environments: Environments,
    version: Callable[[Record, Environments], str] = version_of,
) -> list[Headline]:
    """Every timed call of equal results of which ours and a peer were measured in turns, by data set and title.

    Records of one ``version`` make one point.
    """
    tables: dict[str, list[StoredRecord]] = {}
    for path, record in records:
        if divides_nodes(record["config"]):  # their seconds alone rank nothing
            continue
        tables.setdefault(digest(workload(record["config"])), []).append((path, record))
    pairs = ((table, _points(results, table, environments, version)) for table in tables.values())
    measured = [(table, points) for table, points in pairs if points]
    configs = [table[0][1]["config"] for table, _ in measured]
    names = [f"{dataset_name(config['dataset'])}: {comparison_title(config)}" for config in configs]
    words = distinctions(names, [flatten(workload(config)) for config in configs])
    built = [
        Headline(dataset_name(config["dataset"]), ", ".join([comparison_title(config), *added]), points)
        for config, added, (_, points) in zip(configs, words, measured, strict=True)
    ]
    return sorted(built, key=lambda headline: (headline.dataset, headline.title))


def _points(
    results: Path,
    table: Sequence[StoredRecord],
    environments: Environments,
    version: Callable[[Record, Environments], str],
) -> list[Measured]:
    measured: dict[tuple[Any, ...], list[StoredRecord]] = {}
    for path, record in table:
        config = record["config"]
        passes = digest([executed_measure(config), config["scenario"].get("train_to_end")])
        key = scope_of(results, path, record), version(record, environments), passes
        measured.setdefault(key, []).append((path, record))
    points = (_point(scope, cells, environments) for (scope, _, _), cells in measured.items())
    known = [point for point in points if point is not None]
    return sorted(known, key=lambda point: (point.written, point.scope, point.commit))


def _point(scope: Scope, cells: Sequence[StoredRecord], environments: Environments) -> Measured | None:
    table = rows(cells, environments)
    ours = fastest_of_ours(table)
    peer = next((row for row in table if ours is not None and row.label == ours.ratio_to), None)
    if ours is None or peer is None or ours.ratio is None:
        return None
    factor = ours.ratio.inverse()
    compared = [record for row in (ours, peer) for record in row.ok]
    newest = max(compared, key=_written)
    versions: dict[str, frozenset[str]] = {}
    for stored in (stored for row in table for stored in row.cells):
        checked = environments.get(stored[1]["environment"], {}).get("checked")
        versions[_cell(stored)] = versions.get(_cell(stored), frozenset()) | {digest(checked)}
    ranked = frozenset(_cell(stored) for row in (ours, peer) for stored in row.cells)
    origin = _written(newest), commit_of(newest, environments), scope
    doubts = why_no_headline(ours, peer, table), contest(ours, peer, table)
    return Measured(*origin, factor, ours, peer, versions, ranked, *doubts)


def _cell(stored: StoredRecord) -> str:
    """A record's folder with its seed: the same for every run of one engine with the same options."""
    path, record = stored
    return f"{path.parent}/{record['config']['seed']}"


def commit_of(record: Record, environments: Environments) -> str:
    """The commit that a record or its environment names, 9 digits, with ``+`` for uncommitted changes; else empty."""
    commit: Any = record.get("commit") or environments.get(record["environment"], {}).get("commit") or {}
    if isinstance(commit, str):
        return commit[:9]
    return f"{commit['revision'][:9]}{'+' if commit.get('dirty') else ''}" if commit.get("revision") else ""


def date_of(record: Record) -> str:
    """The day on which a record was written; empty where it does not say."""
    return _written(record)[:10]


def _written(record: Record) -> str:
    return str(record.get("written") or "")
