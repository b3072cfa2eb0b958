"""Pools of real gloo ranks: started once, used by many objects, and ended with a reason when one rank fails."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from backends.contract import DEADLINE
from backends.memory_errors import FROM_OUTSIDE
from backends.parallel.deadline import PATIENCE
from backends.parallel.ranks import RankEnded, RankFailed, close_pools, in_all_ranks, shared_pool
from harness.launcher.failure import status_of
from tests.backends.parallel.rank_objects import BLOCK
from tests.cells import eventually, mark_processes, marked

ADDER = "tests.backends.parallel.rank_objects:Adder"
ARRAYS = [np.full(1 << 16, rank + 1.0) for rank in range(2)]


def adders():
    return shared_pool(2).build(ADDER, list(enumerate(ARRAYS)))


def test_ranks_add_up_and_are_used_again_with_their_share_of_threads_and_mapped_arrays():
    first = adders()
    assert first.each("total", [(), ()]) == [3.0 * (1 << 16)] * 2
    second = adders()
    second.pool.build(ADDER, [(rank, np.zeros(1)) for rank in range(2)]).close()
    processes = first.each("process", [(), ()])
    assert processes == second.each("process", [(), ()])
    assert len({process for process, _, _ in processes}) == 2
    assert [threads_and_mapped for _, *threads_and_mapped in processes] == [
        [max(1, torch.get_num_threads() // 2), True]
    ] * 2
    first.close()
    with pytest.raises(RankFailed, match="KeyError"):
        first.each("total", [(), ()])


def test_the_memory_pass_covers_all_ranks():
    close_pools()  # of other tests, whose ranks would answer too
    objects = adders()
    objects.each("grow", [(), ()])
    assert len(in_all_ranks("harness.measure.memory:trim")) == 2
    in_all_ranks("harness.measure.memory:mark")
    objects.each("grow", [(), ()])
    growths = in_all_ranks("harness.measure.memory:growth")
    for growth, expected in zip(growths, (BLOCK, 2 * BLOCK), strict=True):
        assert 0.8 * expected < growth < 1.5 * expected
    objects.close()


def test_groups_of_ranks_wait_as_long_as_all_of_them_do(monkeypatch):
    shared_pool(2).close()
    monkeypatch.setenv(DEADLINE, str(time.monotonic() + 100.0))
    objects = adders()
    for of_all, *of_groups in objects.each("timeouts", [(), ()]):
        assert of_groups == [of_all] * 2
        assert of_all != PATIENCE.total_seconds()  # which is what a group has that is told nothing
    objects.pool.close()


@pytest.mark.parametrize("counted", ["oom_kill 8", "pgfault 7"], ids=["counted", "not counted"])
def test_a_rank_that_the_kernel_may_have_killed_ran_out_of_memory(monkeypatch, tmp_path, counted):
    kernel = tmp_path / "vmstat"
    kernel.write_text(counted.replace("8", "7"))
    monkeypatch.setattr("backends.memory_errors.VMSTAT", kernel)
    shared_pool(2).close()  # the next one reads this count
    objects = adders()
    kernel.write_text(counted)
    with pytest.raises(
        RankEnded, match="by SIGKILL, with which the kernel ends a process when memory runs out"
    ) as ended:
        objects.each("total_unless", [(0, "killed")] * 2)
    assert ended.value.status == "oom"


@pytest.mark.parametrize(
    ("failure", "rank", "status", "words"),
    [
        ("refuse", 0, "error", "rank 0 of 2 failed in 'total_unless': ValueError: no such thing"),
        ("crash", 1, "error", "rank 1 of 2 ended in 'total_unless' by SIGSEGV"),
        ("killed", 0, "error", f"rank 0 of 2 ended in 'total_unless' by SIGKILL {FROM_OUTSIDE}"),
        ("killed_amid_answer", 0, "error", "rank 0 of 2 ended in 'total_unless' by SIGKILL from outside"),
        ("allocate", 1, "oom", "rank 1 of 2 failed in 'total_unless': .*llocate"),
        ("hang", 1, "timeout", "rank 1 of 2 did not answer 'total_unless' before the deadline, at .* in hang"),
    ],
)
def test_a_rank_that_fails_ends_the_call_with_a_status_and_its_number(
    monkeypatch, tmp_path, failure, rank, status, words
):
    (tmp_path / "vmstat").write_text("oom_kill 7")
    monkeypatch.setattr("backends.memory_errors.VMSTAT", tmp_path / "vmstat")
    shared_pool(2).close()  # the next one reads this count
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if failure == "allocate":
        shared_pool(2).close()
        resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, before[1]))
    try:
        objects = adders()
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
    processes = [process for process, _, _ in objects.each("process", [(), ()])]
    if status == "timeout":
        monkeypatch.setenv(DEADLINE, str(time.monotonic() + 2.0))
    with pytest.raises(RankFailed, match=words) as caught:
        objects.each("total_unless", [(rank, failure)] * 2)
    assert caught.value.rank == rank
    assert status_of(caught.value) == (status, str(caught.value).splitlines()[0])
    assert isinstance(caught.value, RankEnded) == (failure in ("crash", "killed", "killed_amid_answer"))
    assert not [process for process in processes if Path(f"/proc/{process}").exists()]
    with pytest.raises(RankFailed, match="prepare again") as later:
        objects.each("total", [(), ()])
    assert later.value.status == status
    objects.close()


def test_a_rank_that_waits_for_messages_is_not_taken_for_the_late_one(monkeypatch):
    objects = adders()
    monkeypatch.setenv(DEADLINE, str(time.monotonic() + 2.0))
    with pytest.raises(
        RankFailed, match=r"rank 1 of 2 did not answer 'total_later' before the deadline, at .* in hang"
    ):
        objects.each("total_later", [(1,)] * 2)


def test_a_rank_that_was_stopped_is_late_with_more_than_its_pipe_holds(monkeypatch):
    objects = adders()
    stopped = objects.each("process", [(), ()])[1][0]
    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setenv(DEADLINE, str(time.monotonic() + 1.0))
    with pytest.raises(RankFailed, match="rank 1 of 2 did not answer 'total' before the deadline") as caught:
        objects.each("total", [(bytes(1 << 24),)] * 2)
    assert caught.value.status == "timeout" and not Path(f"/proc/{stopped}").exists()


PROGRAM = """
import os, signal
from tests.backends.parallel.test_ranks import adders
print(adders().each("total", [(), ()]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_process_and_no_file_is_left_when_the_owner_is_killed(tmp_path: Path):
    with mark_processes("ranks") as mark:
        program = [sys.executable, "-c", PROGRAM]
        ended = subprocess.run(program, env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        eventually(lambda: not marked(mark), "the end of the ranks")
    left = [path.name for path in tmp_path.iterdir() if not path.name.startswith("gnn-harness-tests-")]
    assert left == []


def test_processes_that_cannot_start_are_an_error(monkeypatch):
    shared_pool(1).close()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RankEnded, match="rank 0 of 1 ended in 'start' with exit code 1"):
        shared_pool(1)


def test_ranks_that_cannot_meet_say_why(monkeypatch):
    shared_pool(2).close()
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "no-such-device")
    with pytest.raises(RankFailed, match=r"rank . of 2 failed in 'start': .*no-such-device"):
        shared_pool(2)
