"""A checkout of the harness: its interpreter, its plan of cells, one run of them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from signal import SIGINT
from statistics import median
from typing import Any

from harness.launcher.process import Guard, end_tree
from harness.usage import USAGE, UsageError

# Run in the checkout: which files its packages come from, and whether its kernels are there; an outdated build raises.
PROBE = """
import importlib, json, sys, harness, backends
module = importlib.import_module("backends.kernels.extension")
json.dump([harness.__file__, backends.__file__, module.extension is not None], sys.stdout)
"""
BUILD = "run `make setup` there, or `pip install -e .` in an environment of your own"
PATIENCE = 20.0
Plan = dict[str, Any]


@dataclass(frozen=True)
class CellOutcome:
    """What one run says about one cell: its status, median seconds where it is ok, its checked environment.

    ``extrapolated`` seconds are those of a part, scaled to a whole epoch.
    """

    status: str
    seconds: float | None
    checked: dict[str, Any]
    extrapolated: bool = False


class Checkout:
    """A folder with a harness; raises UsageError where there is none."""

    def __init__(self, folder: Path) -> None:
        self.root = folder.resolve()
        if not (self.root / "harness" / "cell.py").is_file() or not (self.root / "conf" / "config.yaml").is_file():
            missing = "it has no harness/cell.py and conf/config.yaml"
            raise UsageError(f"{folder} is no checkout of gnn-harness ({missing}): give a clone or a git worktree")
        own = self.root / ".venv" / "bin" / "python"
        self.python = str(own) if own.exists() else sys.executable

    @cached_property
    def environment(self) -> dict[str, str]:
        """Environment variables in which the packages are this checkout's; relative folders are the caller's."""
        parts = [Path(part).absolute() for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
        others = [str(path) for path in parts if not (path / "harness" / "cell.py").is_file()]
        values = {"PYTHONPATH": os.pathsep.join([str(self.root), *others])}
        for name in ("HARNESS_DATA", "HARNESS_CACHE"):
            if folders := [part for part in os.environ.get(name, "").split(os.pathsep) if part]:
                values[name] = os.pathsep.join(str(Path(part).expanduser().absolute()) for part in folders)
        return os.environ | values

    def check(self) -> None:
        """Raise UsageError unless the interpreter runs this checkout's code with kernels built from its sources."""
        command = [self.python, "-c", PROBE]
        done = subprocess.run(command, cwd=self.root, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UsageError(f"{self.root} cannot be measured with {self.python}: {_last_line(done.stderr)}")
        *files, built = json.loads(done.stdout.splitlines()[-1])
        for file in files:
            if not Path(file).resolve().is_relative_to(self.root):
                raise UsageError(f"{self.python} imports {file} instead of the code in {self.root}: {BUILD}")
        if not built:
            raise UsageError(f"the kernels of {self.root} are not built for {self.python}: {BUILD}")

    def plan(self, overrides: Sequence[str], out: Path, guard: Guard) -> Plan:
        """Let the checkout compose the overrides and prepare their graphs below ``out``; raises UsageError."""
        command = [self.python, "-m", "harness", "plan", "--out", str(out), "--with-data", *overrides]
        # A plan that is interrupted leaves its temporary files in a folder that is deleted.
        environment = self.environment | {"TMPDIR": str(out)}
        with _started(command, self.root, environment, guard) as process:
            assert process.stderr is not None
            errors = process.stderr.read()
            code = process.wait()
        path = out / "cells.json"
        if code or not path.is_file():
            message = _last_line(errors).removeprefix("error: ") or "the overrides measure nothing"
            raise UsageError(f"{self.root}: {message}")
        values: Plan = json.loads(path.read_text())
        path.unlink()
        return values

    def run(self, plan: Path, out: Path, guard: Guard, wait: bool, on_line: Callable[[str], None]) -> list[CellOutcome]:
        """Measure the cells of a plan in fresh processes and return what they say, in the order of the plan.

        The run holds the machine's lock itself; lines of its stderr go to ``on_line``. Raises UsageError when it ends
        without a record of each cell.
        """
        command = [self.python, "-m", "harness.cell", str(plan), "--out", str(out), *([] if wait else ["--no-wait"])]
        lines = []
        with _started(command, self.root, self.environment, guard) as process:
            assert process.stderr is not None
            for line in process.stderr:
                lines.append(line.strip())
                on_line(lines[-1])
            code = process.wait()
        records = [_record(out, cell) for group in json.loads(plan.read_text())["groups"] for cell in group["cells"]]
        if code == USAGE or None in records:
            raise UsageError(f"{self.root}: {lines[-1] if lines else f'the run ended with {code}'}")
        return [_outcome(record, out) for record in records if record is not None]


@contextmanager
def _started(
    command: list[str], root: Path, environment: dict[str, str], guard: Guard
) -> Iterator[subprocess.Popen[str]]:
    """Start a plan or a run in a session of its own, which ends with this context and with this process."""
    process = subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    guard.tell("watch", process.pid)
    try:
        yield process
    finally:
        if process.poll() is None:
            # A run ends its own cells when it is interrupted.
            process.send_signal(SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
        end_tree(process.pid)
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
        guard.tell("forget", process.pid)


def _record(out: Path, cell: dict[str, Any]) -> dict[str, Any] | None:
    """Read the record of a planned cell; of another version's schema only few keys are read."""
    pattern = cell["path"].replace("{machine}", "*").replace("{environment}", "*")
    path = next((path for path in out.glob(pattern) if not path.name.endswith(".side.json")), None)
    if path is None:
        return None
    record: dict[str, Any] = json.loads(path.read_text())
    side = path.with_name(f"{path.name.removesuffix('.json')}.side.json")
    return record | (json.loads(side.read_text()) if side.is_file() else {})


def _outcome(record: dict[str, Any], out: Path) -> CellOutcome:
    environment = json.loads((out / "environments" / f"{record['environment']}.json").read_text())
    checked = {key: value for key, value in environment.get("checked", {}).items() if key != "sources"}
    if record["status"] != "ok":
        words = f"{record['status']} ({record['message']})" if record.get("message") else record["status"]
        return CellOutcome(words, None, checked)
    seconds = median(record["epochs"]["seconds"]) * record.get("extrapolated", 1.0)
    return CellOutcome("ok", seconds, checked, "extrapolated" in record)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
