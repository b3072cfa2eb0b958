"""Entry point of the measured process, and of planned groups on a machine without Hydra, pandas or W&B.

``--child READ WRITE PARENT`` is one cell: it reads requests and writes answers, one JSON object per line.
``DIR/cells.json --out OUT`` runs the groups of a plan.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, get_type_hints, is_typeddict

from harness.launcher import allocators
from harness.launcher.failure import CellFailed, status_of
from harness.launcher.lock import Busy
from harness.launcher.messages import CellConfig, Event, PlannedCell, PlannedGroup

PR_SET_PDEATHSIG = 1
CPU_MEMORY_SHARE = 0.9
DEADLINE_MARGIN = 5.0
MOST_SECONDS = 2e6  # that a wait takes, in milliseconds as a C integer


def child(read: int, write: int, parent: int) -> None:
    """Serve one cell until the parent closes the pipe."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    # A grandchild that inherited the pipes would keep them open after this process.
    os.set_inheritable(read, False)
    os.set_inheritable(write, False)

    def tell(message: Event) -> None:
        content = (json.dumps(message) + "\n").encode()
        while content:
            content = content[os.write(write, content) :]

    with open(read, encoding="utf-8") as requests:
        try:
            _serve(requests, tell)
        except CellFailed as failed:
            with suppress(OSError):  # the disk of the log may be full
                sys.stderr.write(failed.log_tail)
            end = {"status": failed.status, "message": failed.message, "parity": failed.parity}
            tell({"event": "end"} | end)
        except Exception as error:
            with suppress(OSError):
                traceback.print_exc()
                sys.stderr.flush()
            status, message = status_of(error)
            tell({"event": "end", "status": status, "message": message})


def _serve(requests: TextIO, tell: Callable[[Event], None]) -> None:
    first = json.loads(next(requests))
    _limit_memory(first["cell"]["config"])
    if reason := allocators.missing_here(first["cell"]["config"]["launcher"]["allocator"]):
        raise CellFailed("error", reason)
    # Imported after the limit is set, which numpy and the engine must obey.
    from harness.session import Session

    _set_deadline(first["left"])
    session = Session(first["cell"], tell)
    try:
        session.start()
        backend, full_batch = session.config.backend, session.config.trains_no_mini_batches
        if reason := backend.unsupported_here(session.config.scenario.name, full_batch):
            raise CellFailed("unsupported", reason)
        if reason := backend.missing(full_batch):
            raise CellFailed("not_installed", reason)
        tell({"event": "answer"})
        for line in requests:
            request = json.loads(line)
            _set_deadline(request.pop("left"))
            tell({"event": "answer"} | getattr(session, request.pop("do"))(**request))
    except Exception:
        session.tell_modules()
        raise


def _set_deadline(left: float) -> None:
    """Tell pools of ranks their deadline: shortly before that of this process, so that they can name the late rank."""
    from backends.contract import DEADLINE

    left = min(left, MOST_SECONDS)
    os.environ[DEADLINE] = str(time.monotonic() + left - min(DEADLINE_MARGIN, left / 4))


def _limit_memory(config: CellConfig) -> None:
    """Limit the memory of a CPU cell below the machine's; each process that it starts inherits the limit."""
    if config["device"].startswith("cpu"):
        from harness.measure import memory

        gib = config["launcher"]["memory_limit_gib"]
        memory.limit_data(int(CPU_MEMORY_SHARE * memory.total() if gib is None else gib * 2**30))


def main(arguments: list[str]) -> int:
    """Run planned groups and return the exit code: 0 all ok or unsupported, 1 some failed, 2 nothing could be run."""
    parser = argparse.ArgumentParser(prog="python -m harness.cell", description="Run the groups of a plan.")
    parser.add_argument("plan", type=Path, help="cells.json that `python -m harness plan --out DIR` wrote")
    parser.add_argument("--out", type=Path, required=True, help="folder for the records")
    parser.add_argument("--no-wait", action="store_true", help="end when another run measures on this machine")
    options = parser.parse_args(arguments)
    try:
        groups = planned_groups(options.plan)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{options.plan}: {error}; write it with `python -m harness plan --out DIR --with-data`", file=sys.stderr)
        return 2
    return _run(groups, options.out, not options.no_wait)


def planned_groups(plan: Path) -> list[PlannedGroup]:
    """Read groups from a plan; folders of graphs are taken relative to it.

    Raises ValueError for a plan without any graph and for a key that is not there, OSError, KeyError or TypeError for
    what is no plan.
    """
    values = json.loads(plan.read_text(encoding="utf-8"))
    groups: list[PlannedGroup] = values["groups"] if isinstance(values, dict) else values
    for number, group in enumerate(groups):
        _check_keys(group, PlannedGroup, f"groups[{number}]")
        for place, cell in enumerate(group["cells"]):
            _check_keys(cell, PlannedCell, f"groups[{number}].cells[{place}]")
            if cell["graph"]:
                cell["graph"] = str(plan.parent.resolve() / cell["graph"])
    to_run = [cell for group in groups for cell in group["cells"] if cell["status"] is None]
    if to_run and not any(cell["graph"] for cell in to_run):
        raise ValueError("it holds no graphs")
    return groups


def _check_keys(values: Any, kind: Any, place: str) -> None:
    """Raise ValueError for the first key of a typed dictionary that a plan lacks, in the sections below it as well."""
    if not isinstance(values, dict):
        raise ValueError(f"{place} is no object")
    for key, hint in get_type_hints(kind).items():
        if key in kind.__required_keys__ and key not in values:
            raise ValueError(f"{place}.{key} is missing, as in a damaged plan or one of another version")
        if is_typeddict(hint):
            _check_keys(values[key], hint, f"{place}.{key}")


def _run(groups: list[PlannedGroup], out: Path, wait: bool) -> int:
    # Not imported above: a measured process needs no msgspec.
    from backends.registry import usable_class
    from harness.launcher.group import run_groups
    from harness.launcher.process import LauncherError
    from harness.store.files import machine_slug
    from harness.store.leftovers import remove_leftovers
    from harness.store.record import RecordError
    from harness.store.writable import check_writable
    from harness.usage import UsageError

    machine, cells = machine_slug(), [cell for group in groups for cell in group["cells"]]
    if unknown := sorted({name for cell in cells if not usable_class(name := cell["config"]["backend"]["name"])}):
        print(
            f"no backend {', '.join(unknown)} is installed here: install its package, or plan without it",
            file=sys.stderr,
        )
        return 2
    records = [cell["path"].replace("{machine}", machine) for cell in cells]
    scenarios = [cell["config"]["scenario"] for cell in cells]
    states = [one["save_state"] for one in scenarios if one["name"] == "train" and one["train_to_end"]]
    try:
        check_writable(out, records, states)
        remove_leftovers(out, records)
        written = run_groups(groups, out, on_event=_print_event, wait=wait)
    except (Busy, UsageError) as error:
        print(error, file=sys.stderr)
        return 2
    except (OSError, RecordError) as error:
        print(f"a record could not be written ({error}); those written before are whole", file=sys.stderr)
        return 1
    except LauncherError as error:
        print(f"{error}; records so far are whole, and the same command measures again", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: records so far are whole, the same command measures again", file=sys.stderr)
        return 1
    return 0 if all(record["status"] in ("ok", "unsupported") for record in written) else 1


def _print_event(event: Event) -> None:
    if event["event"] == "waiting":
        print(f"waiting for {event['for']}", file=sys.stderr)
    elif event["event"] == "done":
        message = event["record"].get("message", "")
        print(
            f"{event['cell'] + 1}/{event['of']} {event['status']} {event['path']} {message}".rstrip(), file=sys.stderr
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*map(int, sys.argv[2:5]))
    else:
        from harness.terminal.streams import readers_may_leave

        with readers_may_leave():
            sys.exit(main(sys.argv[1:]))
