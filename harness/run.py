"""A run: compose, plan, prepare the graphs, measure the groups, print the table, return the exit code."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from datasets.paths import default_cache
from harness.launcher.earlier import was_written
from harness.launcher.group import Busy, run_groups, terminate_as_interrupt
from harness.launcher.lock import machine_lock
from harness.launcher.messages import PlannedGroup
from harness.launcher.process import LauncherError
from harness.measure.sources import forget_digests
from harness.planning.compose import compose_arguments
from harness.planning.graphs import PreparedGraph, graph_keys, plain_groups, prepare_graphs
from harness.planning.identity import record_path
from harness.planning.plan import Group, Plan, find_group_records, make_plan
from harness.store.files import environment_of
from harness.store.leftovers import remove_leftovers
from harness.store.naming import label
from harness.store.record import Record, RecordError
from harness.store.writable import DISK_FULL, check_writable
from harness.usage import FAILED, OK, USAGE, UsageError, complain

BAD_STATUSES = ("oom", "timeout", "error", "incorrect", "interrupted")


def main(arguments: list[str]) -> int:
    """Run a command line and return its exit code; errors are one sentence on stderr."""
    try:
        compositions = compose_arguments(arguments)
        return run(make_plan(compositions)) if compositions else OK
    except (UsageError, Busy, RecordError) as error:
        return complain(error, USAGE)
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        remedy = "make room (python -m harness clean)" if error.errno in DISK_FULL else "mend that"
        problem = f"{error.strerror or error}{where}"
        return complain(f"{problem}: records so far are whole; {remedy}, and the same command resumes", FAILED)
    except LauncherError as error:
        return complain(f"{error}; records so far are whole, and the same command resumes", FAILED)
    except KeyboardInterrupt:
        return complain("interrupted: records so far are whole, the same command resumes", FAILED)


def run(plan: Plan) -> int:
    """Carry out a plan and return the exit code."""
    if plan.config.dry_run:
        from harness.terminal.results import print_plan

        print_plan(plan)
        return OK
    groups, failures = plan.open_groups(), list[str]()
    if groups:
        prepare_places(plan, groups)
        with reserved_machine(plan, groups):
            groups = plan.open_groups()  # another run may have finished some while this one waited
            failures = carry_out(plan, groups) if groups else []
    if not groups:
        print(f"nothing to run: all {len(plan.groups)} groups are finished in {plan.results}; retry=all repeats them")
    print_table(plan)
    return FAILED if failures else exit_code(plan.groups)


@contextmanager
def reserved_machine(plan: Plan, groups: Iterable[Group]) -> Iterator[None]:
    """Hold the machine for groups with a cell in a process of its own; raises Busy where this run must not wait.

    Preparing their graphs takes all cores, which would disturb the samples of another run. After a wait, the records of
    the plan are looked up again.
    """
    cells = [cell for group in groups for cell in group.cells if cell.status is None]
    if not any(cell.config.launcher.name == "process" for cell in cells):
        yield
        return
    holders: list[str] = []

    def tell(holder: str) -> None:
        holders.append(holder)
        print(f"waiting: {holder} is measuring on this machine", file=sys.stderr)

    with terminate_as_interrupt(), machine_lock(plan.config.wait, tell):
        if holders:
            plan.find_records()
        yield


def carry_out(plan: Plan, groups: Sequence[Group]) -> list[str]:
    """Prepare the graphs of groups, measure them, and return a sentence for each failure that no record tells."""
    prepared, failures = prepare_graphs(groups, default_cache())
    ready = [group for group in groups if all(key in prepared for key in graph_keys(group))]
    for failure in failures:
        complain(failure, FAILED)
    if not ready:
        raise UsageError("nothing to run: no group has its graph")
    measured = measure(plan, ready, prepared)
    plan.find_records()
    return failures + not_counted(measured, plan.groups) + not_written(measured)


def not_counted(measured: Sequence[dict[str, Any]], groups: Iterable[Group]) -> list[str]:
    """Say which of the new records are no records of their group: those of code or data that are not today's."""
    counted = {record.get("run") for group in groups for _, record in group.stored()}
    # An earlier run of a group counts where this one is not whole, as a failure was not written.
    counted |= {record["run"] for record in measured if not was_written(record)}
    lost = [record for record in measured if record["run"] not in counted]
    if not lost:
        return []
    what = f"{len(lost)} new records do not count, as they are not of the code and data that lie here now"
    messages = sorted({record["message"] for record in lost if record.get("message")})
    sentence = f"{what}: {'; '.join(messages) or 'it changed meanwhile, measure again'}"
    complain(sentence, FAILED)
    return [sentence]


def not_written(measured: Iterable[dict[str, Any]]) -> list[str]:
    """Name the failures that left the good records of earlier runs in their place."""
    failed = [record for record in measured if record["status"] in BAD_STATUSES and not was_written(record)]
    sentences = [f"{_name(record)} ended as {record['status']}: {record['message']}" for record in failed]
    for sentence in sentences:
        complain(sentence, FAILED)
    return sentences


def _name(record: dict[str, Any]) -> str:
    config = record["config"]
    engine = label(cast(Record, record))
    return f"{config['dataset']['name']} {config['model']['name']} {engine} seed {config['seed']}"


def measure(plan: Plan, groups: Sequence[Group], prepared: dict[str, PreparedGraph]) -> list[dict[str, Any]]:
    """Run groups on the machine that the caller holds, show their progress, track and return their records."""
    from harness.terminal.progress import RunProgress
    from harness.track.deferred import DeferredTracker

    cells = sum(len(group.cells) for group in groups)
    with RunProgress(cells) as progress, DeferredTracker(plan.config.tracker) as tracker:

        def on_event(event: dict[str, Any]) -> None:
            progress(event)
            tracker(event)

        return run_groups(
            plain_groups(groups, plan.machine, prepared),
            plan.results,
            on_event=on_event,
            locked=True,
            still_open=partial(is_still_open, plan),
        )


def is_still_open(plan: Plan, planned: PlannedGroup) -> bool:
    """Whether a group is to be run after this run waited for another one."""
    group = next(group for group in plan.groups if group.id == planned["id"])
    forget_digests()
    group.records = find_group_records(group, plan.results, plan.machine, plan.left_out)
    return group.state(plan.config.retry)[0]


def prepare_places(plan: Plan, groups: Sequence[Group]) -> None:
    """Raise UsageError unless all that groups will write can be written; remove what killed runs left there."""
    cells = [(group.id, cell) for group in groups for cell in group.cells]
    records = [record_path(cell.config, cell.hash, plan.machine, group) for group, cell in cells]
    check_writable(plan.results, records, [cell.config.scenario.saved_state for _, cell in cells])
    remove_leftovers(plan.results, records)


def print_table(plan: Plan) -> None:
    """Print the table of all groups of a plan, measured now or before."""
    from harness.terminal.results import print_results

    hashes = {record["environment"] for group in plan.groups for _, record in group.stored()}
    print_results(plan.groups, {name: environment_of(plan.results, name) for name in sorted(hashes)})


def exit_code(groups: Iterable[Group]) -> int:
    """Return 0 if all is ok or unsupported, 1 if a cell failed or the one backend asked for is not installed."""
    statuses = {record["status"] for group in groups for _, record in group.stored()}
    backends = {cell.config.backend.name for group in groups for cell in group.cells}
    if statuses & set(BAD_STATUSES) or ("not_installed" in statuses and len(backends) == 1):
        return FAILED
    return OK
