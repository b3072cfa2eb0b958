"""Faults: kills, full disks, unwritable folders and sweeps at once, against real cells; counts what went wrong.

``python -m tests.cli.faults --kills 300 --disks 50 --folders 20 --pairs 20`` prints one line per kind of fault. Every
record must be whole or absent, no process and no temporary file may be left, and the next call must make the rest.
Full disks and unwritable folders need the right to mount a file system.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.store.validate import problems_in
from tests.cells import marked
from tests.cli.commandline import CommandLine

SIZE = ["model=gcn", "dataset.options.nodes=400", "training.batch_size=null", "scenario.train_to_end=false"]
CELLS = ["-m", "backend=agl,dummy", *SIZE, "measure=short", "measure.limits=false", "wait=true"]
PATIENCE = 30.0
ALLOWED = {"results", "gnn-harness.launcher.lock", f"torchinductor_{os.getuid()}"}  # torch makes the last
Fault = Callable[[CommandLine, random.Random], None]


def kill(harness: CommandLine, draw: random.Random) -> None:
    """Kill the run or one of its processes at any moment between its start and its end."""
    run = start(harness, *CELLS)
    time.sleep(draw.uniform(0.0, harness.seconds))
    processes = sorted(marked(f"TMPDIR={harness.temporary}"))
    parent = draw.random() < 0.5 or len(processes) < 2
    with suppress(ProcessLookupError):  # it may have ended by itself
        os.kill(run.pid if parent else draw.choice(processes), signal.SIGKILL)
    run.wait(timeout=10 * PATIENCE + 10 * harness.seconds)


def fill_disk(harness: CommandLine, draw: random.Random) -> None:
    """Let the disk of the records fill at a random number of bytes."""
    with small_disk(harness.home / "results", draw.randrange(4096, 49152, 4096)):
        run = start(harness, *CELLS)
        run.wait(timeout=10 * PATIENCE)
        assert run.returncode in (0, 1), f"exit code {run.returncode} of a full disk"
        check_records(harness)


def forbid_folder(harness: CommandLine, draw: random.Random) -> None:
    """Make the folder of the records or of the cache one that cannot be written."""
    folder = draw.choice([harness.home / "results", harness.cache])
    with small_disk(folder, 4096, "ro"):
        run = start(harness, *CELLS)
        _, errors = run.communicate(timeout=10 * PATIENCE)
        assert run.returncode in (1, 2), f"exit code {run.returncode} of an unwritable {folder.name}"
        assert str(folder) in errors or "Read-only" in errors, f"no word on {folder.name}: {errors[-300:]}"


def sweep_at_once(harness: CommandLine, draw: random.Random) -> None:
    """Start two equal sweeps at about the same time."""
    first = start(harness, *CELLS)
    time.sleep(draw.uniform(0.0, harness.seconds / 2))
    second = start(harness, *CELLS)
    for run in (first, second):
        _, errors = run.communicate(timeout=20 * PATIENCE)
        assert run.returncode == 0, f"exit code {run.returncode} of two sweeps at once: {errors[-300:]}"


FAULTS: dict[str, Fault] = {"kills": kill, "disks": fill_disk, "folders": forbid_folder, "pairs": sweep_at_once}


class FaultyCommandLine(CommandLine):
    """A command line that knows how long its cells take without a fault."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        begin = time.monotonic()
        self(*CELLS)
        self.seconds = time.monotonic() - begin


def start(harness: CommandLine, *arguments: str) -> subprocess.Popen[str]:
    """Start a run without waiting for it."""
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments, "retry=all"],
        cwd=harness.home,
        env=harness.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def small_disk(folder: Path, size: int, options: str = "rw") -> Iterator[None]:
    """Mount an empty file system of ``size`` bytes on a folder; raises CalledProcessError without the right to."""
    folder.mkdir(exist_ok=True)
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={size},{options}", "tmpfs", str(folder)]
    subprocess.run(mounting, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def inject(name: str, harness: FaultyCommandLine, draw: random.Random) -> None:
    """Injure one run and check what it leaves, then what the next call makes; raises AssertionError."""
    FAULTS[name](harness, draw)
    mark, until = f"TMPDIR={harness.temporary}", time.monotonic() + PATIENCE
    while marked(mark):
        assert time.monotonic() < until, f"processes {marked(mark)} are left"
        time.sleep(0.02)
    check_records(harness)
    harness(*CELLS)
    check_records(harness)
    assert {record["status"] for record in harness.newest()} == {"ok"}, "the next call did not make the rest"
    assert set(harness.left()) <= ALLOWED, f"left: {sorted(set(harness.left()) - ALLOWED)}"
    unfinished = [path.name for path in harness.home.parent.rglob("*.tmp*")]
    assert not unfinished, f"left: {unfinished}"


def check_records(harness: CommandLine) -> None:
    """Every record is whole; raises AssertionError with the first problem."""
    problems = [f"{path.name}: {problem}" for path, problem in problems_in(harness.home / "results")]
    assert not problems, problems[0]


def main() -> int:
    """Inject the faults; 1 if one of them did damage."""
    parser = argparse.ArgumentParser("python -m tests.cli.faults", description=__doc__)
    for name, fault in FAULTS.items():
        parser.add_argument(f"--{name}", type=int, default=0, help=fault.__doc__)
    parser.add_argument("--seed", type=int, default=0)
    counts = vars(parser.parse_args())
    damages = 0
    for name in FAULTS:
        draw = random.Random(f"{counts['seed']} {name}")
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            harness = FaultyCommandLine(Path(folder))
            wrong = [error for _ in range(counts[name]) if (error := damage_of(name, harness, draw))]
        damages += len(wrong)
        print(f"{name}: {counts[name]} injected, {len(wrong)} did damage", *wrong, sep="\n  ", flush=True)
    return 1 if damages else 0


def damage_of(name: str, harness: FaultyCommandLine, draw: random.Random) -> str:
    """Describe the damage that one fault did; empty for none."""
    try:
        inject(name, harness, draw)
    except (AssertionError, subprocess.TimeoutExpired) as damage:
        return str(damage)
    return ""


if __name__ == "__main__":
    sys.exit(main())
