"""Two engines compared inside the groups in which both were measured."""

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from harness.compare.between_folders import change_of_pairs, judge_together
from harness.compare.factor import Factor
from harness.compare.verdict import NOT_COMPARABLE, TIMED_OTHERWISE, Verdict
from harness.report.comparisons import dataset_comparisons, divides_nodes, of_scenarios
from harness.report.rows import Row
from harness.report.scopes import Scope
from harness.store.files import environment_of, rooted_records
from harness.store.left_out import LeftOut
from harness.store.record import RecordError
from harness.store.statistics import ratios_of_pairs

MORE_PROCESSES = "measure again with a larger measure.processes"
NAMES = "python -m harness report writes them with all names"
ALIKE = 3  # names that an error suggests for one that it does not know
Judgement = tuple[Factor | None, str, str]


def compare_engines(results: Path, a: str, b: str, threshold: float, left_out: LeftOut | None = None) -> list[Verdict]:
    """Compare two engines, named as the tables name them, wherever they were measured in the same group.

    Of several protocols the newest counts under which a table holds both. Raises RecordError where no table does, with
    the names that are most like theirs.
    """
    root, records = rooted_records(results, left_out)
    environments = {record["environment"]: environment_of(root, record["environment"]) for _, record in records}
    tables: list[tuple[Scope, str, Row, Row]] = []
    names: set[str] = set()
    for dataset in of_scenarios(dataset_comparisons(root, records, environments), lambda scenario: True):
        for comparison in dataset.comparisons:
            by_label = {row.label: row for row in comparison.rows}
            names |= set(by_label)
            if a in by_label and b in by_label:
                tables.append((dataset.scope, f"{dataset.name}: {comparison.title}", by_label[a], by_label[b]))
    if not tables:
        raise RecordError(_why_no_table(results, a, b, names))
    newest = max(scope.protocol for scope, *_ in tables)
    return _verdicts([table for table in tables if table[0].protocol == newest], threshold)


def _why_no_table(results: Path, a: str, b: str, names: Collection[str]) -> str:
    """Say which of two names is not an engine's; of hundreds of names, the few that are like it."""
    if not names:
        return f"{results} holds no records, so that there is no engine {a!r} or {b!r}: give two folders"
    remedy = f"give two folders, or two engines of one table: {NAMES}"
    unknown = [name for name in (a, b) if name not in names]
    if not unknown:
        return f"no table holds both {a!r} and {b!r}: {remedy}"
    alike = dict.fromkeys(like for name in unknown for like in get_close_matches(name, names, n=ALIKE, cutoff=0.4))
    guesses = f"; those like it are {', '.join(map(repr, alike))}" if alike else ""
    return f"no table holds {' or '.join(map(repr, unknown))}: {remedy}{guesses}"


def _verdicts(tables: Sequence[tuple[Scope, str, Row, Row]], threshold: float) -> list[Verdict]:
    """Judge all tables together; those in which nothing was measured in pairs are not comparable."""
    pairs = [_ratios(a, b) for *_, a, b in tables]
    several_machines = len({scope.machine for scope, *_ in tables}) > 1
    changes = [change_of_pairs(ratios) for ratios in pairs if ratios]
    judgements: Iterator[Judgement] = iter(judge_together(changes, threshold, MORE_PROCESSES))
    verdicts = []
    for (scope, name, a, b), ratios in zip(tables, pairs, strict=True):
        factor, verdict, reason = next(judgements) if ratios else (None, NOT_COMPARABLE, _why_no_pair(a, b))
        cell = f"{name}, on {scope.machine}" if several_machines else name
        verdicts.append(Verdict(cell, *_medians(a, b), factor, verdict, reason))
    return verdicts


def _ratios(a: Row, b: Row) -> list[float]:
    """Ratios B / A of the processes of one pass; none where seconds are no speed, or rank nothing."""
    is_no_speed = any(row.oversubscribed or row.inline or row.simulated for row in (a, b))
    if is_no_speed or divides_nodes(a.record["config"]) or a.timed_otherwise(b):
        return []
    return ratios_of_pairs(b.paired_samples(), a.paired_samples())


def _medians(a: Row, b: Row) -> tuple[float | None, float | None]:
    return a.time.median if a.time else None, b.time.median if b.time else None


def _why_no_pair(a: Row, b: Row) -> str:
    if a.time is None or b.time is None:
        return f"{a.label} {a.record['status']}, {b.label} {b.record['status']}"
    if divides_nodes(a.record["config"]):
        return "assignments of different quality, which seconds alone do not rank: see the suites of distpart"
    if crowded := [row.label for row in (a, b) if row.oversubscribed]:
        return f"more threads or workers than cores, or ranks than cores or threads, no speed: {', '.join(crowded)}"
    if inline := [row.label for row in (a, b) if row.inline]:
        return f"measured inside of the parent process (launcher=inline), no speed: {', '.join(inline)}"
    if simulated := [row.label for row in (a, b) if row.simulated]:
        return f"seconds of a simulated clock, no speed: {', '.join(simulated)}"
    if a.timed_otherwise(b):
        return TIMED_OTHERWISE
    if alone := [row.label for row in (a, b) if row.alone]:
        return f"measured alone, for lack of memory beside the others: {', '.join(alone)}"
    return "no group holds both: measure them in one sweep"
