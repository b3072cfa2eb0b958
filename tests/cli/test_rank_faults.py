"""A rank of a real cell is killed, hangs or runs out of memory, or the disk of its slices is full: one record each."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backends.memory_errors import kills
from tests.cells import eventually, marked
from tests.cli.commandline import CommandLine
from tests.cli.faults import ALLOWED, check_records, small_disk, start

RANKS = ["backend=blocksparse", "backend.ranks=2", "model=gcn", "model.hidden=64", "training.batch_size=null"]
LONG = ["dataset.options.nodes=2000", "training.epochs=100000", "scenario.train_to_end=true", "measure.limits=false"]
DEADLINE = 30


@pytest.fixture
def harness(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@contextmanager
def training(harness: CommandLine, *options: str, delay: float = 0.0, code: int = 1) -> Iterator[list[int]]:
    """A cell that trains for long; yields its ranks' process ids, then waits for its end and checks what is left.

    The ``delay`` before is in units of the time until there were ranks, which a busy machine prolongs as well.
    """
    begun, run = time.monotonic(), start(harness, *RANKS, *LONG, "measure=short", "wait=true", *options)
    try:
        eventually(lambda: len(ranks_of(harness)) == 2, "two ranks")
        time.sleep(delay * (time.monotonic() - begun))
        yield ranks_of(harness)
        run.communicate(timeout=4 * DEADLINE)
    finally:
        run.kill()
    check_left(harness, run, code)


def ranks_of(harness: CommandLine) -> list[int]:
    processes = []
    for process in sorted(marked(f"TMPDIR={harness.temporary}")):
        try:
            words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        except OSError:  # it has just ended
            continue
        if b"backends.parallel.rank" in words:
            processes.append(process)
    return processes


def check_left(harness: CommandLine, run: "subprocess.Popen[str]", code: int = 1) -> None:
    """One whole record; no process, no file besides."""
    assert run.returncode == code, run.returncode
    eventually(lambda: not marked(f"TMPDIR={harness.temporary}"), "the end of all processes")
    check_records(harness)
    assert len(harness.records()) == 1
    assert set(harness.left()) <= ALLOWED


def test_a_killed_rank_is_a_record_with_its_signal(harness: CommandLine) -> None:
    with training(harness) as ranks:
        os.kill(ranks[0], signal.SIGKILL)
    (record,) = harness.records()
    assert record["status"] == ("oom" if kills() is None else "error")
    assert "rank 0 of 2 ended in " in record["message"] and "by SIGKILL" in record["message"]


def test_a_rank_that_is_killed_after_the_samples_costs_the_score_alone(harness: CommandLine) -> None:
    with training(harness, delay=4.0, code=0) as ranks:
        os.kill(ranks[1], signal.SIGKILL)
    (record,) = harness.records()
    assert record["status"] == "ok" and "metrics" not in record
    assert "in the pass for accuracy: rank 1 of 2 ended in" in record["facts"]["status"]


def test_a_rank_that_hangs_is_a_timeout_that_names_it(harness: CommandLine) -> None:
    before = time.monotonic()
    with training(harness, f"measure.deadline_seconds={DEADLINE}") as ranks:
        os.kill(ranks[1], signal.SIGSTOP)
    (record,) = harness.records()
    assert record["status"] == "timeout"
    assert "rank 1 of 2 did not answer" in record["message"]
    assert time.monotonic() - before < 2 * DEADLINE


def test_ranks_out_of_memory_are_a_record(harness: CommandLine) -> None:
    run = start(
        harness, *RANKS, *LONG, "measure=short", "wait=true", "model.hidden=400000", "launcher.memory_limit_gib=4"
    )
    run.communicate(timeout=4 * DEADLINE)
    check_left(harness, run)
    (record,) = harness.records()
    assert record["status"] == "oom" and "rank" in record["message"], record["message"]


@pytest.mark.needs_root
def test_a_disk_that_is_full_of_slices_is_a_record(harness: CommandLine) -> None:
    with small_disk(harness.temporary, 1 << 20):
        run = start(harness, *RANKS, *LONG, "measure=short", "wait=true", "dataset.options.nodes=20000")
        _, errors = run.communicate(timeout=4 * DEADLINE)
    assert run.returncode == 1, errors
    check_records(harness)
    (record,) = harness.records()
    assert record["status"] == "error"
    assert "No space left" in record["message"]
