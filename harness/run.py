"""A run: compose, plan, prepare the graphs, measure the groups, print the table, say by the exit code how it went."""

import errno
import pickle
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from datasets.files import digest
from datasets.paths import default_cache
from datasets.prepare import Phases, prepare_graph
from harness.launcher.group import Busy, run_groups
from harness.planning.cells import Cell
from harness.planning.compose import compose_arguments
from harness.planning.plan import Group, Plan, make_plan
from harness.store.files import environment_of
from harness.store.record import RecordError
from harness.usage import UsageError

OK, FAILED, USAGE = 0, 1, 2
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
OF_THE_DISK = (*DISK_FULL, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO)
BAD = ("oom", "timeout", "error", "incorrect", "interrupted")
DATA_ERRORS = (ValueError, KeyError, RuntimeError, ImportError, pickle.UnpicklingError, OSError)
Prepared = tuple[Path, Phases]


def main(arguments: list[str]) -> int:
    """Run a command line and return its exit code; errors are one sentence on stderr."""
    try:
        jobs = compose_arguments(arguments)
        return run(make_plan(jobs)) if jobs else OK
    except (UsageError, Busy, RecordError) as error:
        return complain(error, USAGE)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        what = "make room" if error.errno in DISK_FULL else "mend that"
        said = f"{error.strerror or error}{where}"
        return complain(f"{said}: records so far are whole; {what}, and the same command resumes", FAILED)
    except KeyboardInterrupt:
        return complain("interrupted: records so far are whole, the same command resumes", FAILED)


def complain(error: object, code: int) -> int:
    """Print an error and return the exit code."""
    print(f"error: {error}", file=sys.stderr)
    return code


def run(plan: Plan) -> int:
    """Carry out a plan and return the exit code."""
    if plan.config.dry_run:
        from harness.terminal.results import print_plan

        print_plan(plan)
        return OK
    check_writable(plan.results)
    todo = plan.open_groups()
    failures: list[str] = []
    if todo:
        prepared, failures = prepare_all(todo, default_cache())
        ready = [group for group in todo if all(key in prepared for key in graph_keys(group))]
        for failure in failures:
            complain(failure, FAILED)
        if not ready:
            raise UsageError("nothing to run: no group has its graph")
        measure(plan, ready, prepared)
        plan.find_records()
    else:
        print(f"nothing to run: all {len(plan.groups)} groups are finished in {plan.results}; retry=all repeats them")
    show(plan)
    return FAILED if failures else exit_code(plan.groups)


def measure(plan: Plan, groups: Sequence[Group], prepared: dict[str, Prepared]) -> None:
    """Run groups, show their progress, and hand their records to the tracker."""
    from harness.terminal.progress import RunProgress
    from harness.track.deferred import Sink

    plain = [plain_group(group, plan.machine, prepared) for group in groups]
    with RunProgress(sum(len(group.cells) for group in groups)) as progress, Sink(plan.config.tracker) as sink:

        def on_event(event: dict[str, Any]) -> None:
            progress(event)
            sink(event)

        run_groups(plain, plan.results, on_event=on_event, wait=plan.config.wait)


def plain_group(group: Group, machine: str, prepared: dict[str, Prepared]) -> dict[str, Any]:
    """Return the JSON form of a group that the executor reads; a graph that is not prepared is left out."""
    cells = []
    for cell in group.cells:
        folder, phases = prepared.get(graph_key(cell), (None, {})) if cell.status is None else (None, {})
        cells.append(cell.plain(machine, group.id, None if folder is None else str(folder), phases))
    return {"id": group.id, "key": group.key, "cells": cells}


def graph_key(cell: Cell) -> str:
    """Name the prepared graph that a cell needs."""
    return digest([asdict(cell.config.dataset), asdict(cell.config.order)])


def graph_keys(group: Group) -> list[str]:
    """Name the prepared graphs of the cells of a group that will be started."""
    return [graph_key(cell) for cell in group.cells if cell.status is None]


def prepare_all(groups: Iterable[Group], cache: Path) -> tuple[dict[str, Prepared], list[str]]:
    """Prepare each graph once; also return one sentence per graph that could not be had.

    A full disk or a cache that cannot be written ends the run: raises OSError.
    """
    prepared: dict[str, Prepared] = {}
    failures: dict[str, str] = {}
    for cell in (cell for group in groups for cell in group.cells if cell.status is None):
        key = graph_key(cell)
        if key in prepared or key in failures:
            continue
        try:
            prepared[key] = prepare_graph(cell.config.dataset, cell.config.order, cache)
        except DATA_ERRORS as error:
            if isinstance(error, OSError) and error.errno in OF_THE_DISK:
                raise
            failures[key] = str(error.args[0] if isinstance(error, KeyError) else error)
    return prepared, list(failures.values())


def check_writable(results: Path) -> None:
    """Raise UsageError unless files can be written below the results folder."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=results):
            pass
    except OSError as error:
        if error.errno in DISK_FULL:
            raise
        raise UsageError(f"results={results} is not writable ({error.strerror}): give another folder") from error


def show(plan: Plan) -> None:
    """Print the table of all groups of a plan, measured now or before."""
    from harness.terminal.results import print_results

    hashes = {record["environment"] for group in plan.groups for _, record in group.found()}
    print_results(plan.groups, {name: environment_of(plan.results, name) for name in sorted(hashes)})


def exit_code(groups: Iterable[Group]) -> int:
    """Return 0 if all is ok or unsupported, 1 if a cell failed or the one backend asked for is not installed."""
    statuses = {record["status"] for group in groups for _, record in group.found()}
    backends = {cell.config.backend.name for group in groups for cell in group.cells}
    if statuses & set(BAD) or ("not_installed" in statuses and len(backends) == 1):
        return FAILED
    return OK
