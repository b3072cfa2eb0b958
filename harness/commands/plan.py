"""``python -m harness plan --out DIR [--with-data] OVERRIDES``: writes groups to be run on another machine."""

import argparse
import json
import shutil
import sys
from pathlib import Path

from datasets.files import atomic_folder, write_atomic
from datasets.paths import default_cache
from harness.planning.compose import compose_arguments
from harness.planning.graphs import PreparedGraph, plain_groups, prepare_graphs
from harness.planning.plan import Plan, make_plan
from harness.store.record import RecordError
from harness.usage import FAILED, OK, USAGE, UsageError, complain

# A placeholder in the paths of records, filled in on the machine that runs the groups.
MACHINE = "{machine}"


def main(arguments: list[str]) -> int:
    """Write ``DIR/cells.json`` and, with data, the graphs it needs beside it."""
    parser = argparse.ArgumentParser(prog="python -m harness plan", description="Write groups for another machine.")
    parser.add_argument("--out", type=Path, required=True, help="folder for cells.json and the graphs")
    parser.add_argument("--with-data", action="store_true", help="prepare the graphs here and copy them along")
    options, overrides = parser.parse_known_args(arguments)
    try:
        compositions = compose_arguments(overrides)
        return write(make_plan(compositions), options.out, options.with_data) if compositions else OK
    except (UsageError, RecordError) as error:
        return complain(error, USAGE)
    except OSError as error:
        return complain(error, FAILED)


def write(plan: Plan, out: Path, with_data: bool) -> int:
    """Write all groups of a plan, also those that are finished on this machine.

    What is not installed here may be there: cells that lack it are started, and answer for themselves.
    """
    for cell in (cell for group in plan.groups for cell in group.cells if cell.may_run_elsewhere):
        cell.status, cell.message = None, ""
    prepared: dict[str, PreparedGraph] = {}
    if with_data:
        prepared, failures = prepare_graphs(plan.groups, default_cache())
        if failures:
            return complain("; ".join(failures), FAILED)
        prepared = {key: (copy_graph(folder, out), phases) for key, (folder, phases) in prepared.items()}
    out.mkdir(parents=True, exist_ok=True)
    groups = plain_groups(plan.groups, MACHINE, prepared)
    write_atomic({out / "cells.json": json.dumps({"groups": groups}, indent=1)})
    cells = sum(len(group.cells) for group in plan.groups)
    print(f"{cells} cells in {len(groups)} groups: python -m harness.cell {out / 'cells.json'} --out OUT")
    if not with_data:
        print("The plan holds no graphs, so harness.cell cannot run it: add --with-data to run it.", file=sys.stderr)
    return OK


def copy_graph(folder: Path, out: Path) -> Path:
    """Copy a prepared graph below ``out`` unless it is there; return its path relative to ``out``."""
    relative = Path("graphs", folder.parent.name[:12], folder.name)
    if not (out / relative).is_dir():
        with atomic_folder(out / relative) as temporary:
            shutil.copytree(folder, temporary, dirs_exist_ok=True)
    return relative
