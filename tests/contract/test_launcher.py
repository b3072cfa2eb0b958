"""The process launcher with real processes: every failure has its record, and no process is left."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.launcher import group as group_module
from harness.launcher import interference
from harness.launcher.failure import CellFailed
from harness.launcher.group import Busy, run_groups
from harness.launcher.process import Child
from harness.launcher.remote import RemoteCell, child_environment
from harness.measure.sources import is_current
from harness.store.files import environment_of
from tests.cells import cell, eventually, group, mark_processes, marked, records, saved_graph

ROOT = Path(__file__).resolve().parent.parent.parent
# A run in a process of its own, to be interrupted: argv is groups.json and the results folder.
RUNNER = """
import json, sys
from pathlib import Path
from harness.launcher.group import run_groups
def print_event(event):
    print(event["event"], event["cell"], flush=True)
run_groups(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]), on_event=print_event)
"""


@pytest.fixture(autouse=True)
def own_lock(tmp_path, monkeypatch):
    """Tests do not wait for a measurement on this machine, nor the other way round."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))


@pytest.fixture(autouse=True)
def unknown_load(monkeypatch):
    """What else runs on this machine does not repeat samples: the tests count them."""
    monkeypatch.setattr(interference, "_machine", lambda: (None, None))


@pytest.fixture
def graph(tmp_path):
    return saved_graph(tmp_path / "graph")


def run(tmp_path, *cells, **options):
    """Run one group and return its records and its events; no process may be left."""
    events = []
    with mark_processes("run"):
        written = run_groups([group(*cells)], tmp_path / "results", on_event=events.append, **options)
    return written, events


def start_runner(tmp_path, groups):
    (tmp_path / "groups.json").write_text(json.dumps(groups))
    command = [sys.executable, "-c", RUNNER, str(tmp_path / "groups.json"), str(tmp_path / "results")]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


FAILURES = [
    ("raise", "prepare", "error", "backend.fail=raise"),
    ("raise", "epoch", "error", "backend.fail=raise"),
    ("oom", "prepare", "oom", "out of memory"),
    ("oom", "epoch", "oom", "out of memory"),
    ("hang", "prepare", "timeout", "measure.deadline_seconds"),
    ("hang", "epoch", "timeout", "measure.deadline_seconds"),
    ("crash", "prepare", "error", "SIGSEGV"),
    ("crash", "epoch", "error", "SIGSEGV"),
]


@pytest.mark.parametrize(("fail", "place", "status", "message"), FAILURES, ids=lambda value: value.split()[0])
def test_a_failure_is_a_row_and_leaves_no_process(tmp_path, graph, fail, place, status, message):
    sections = {"measure": {"deadline_seconds": 3.0}} if fail == "hang" else {}
    bad = cell(graph, backend={"fail": fail, "fail_at": place}, **sections)
    bad["config"]["launcher"]["memory_limit_gib"] = 0.75
    (record,), events = run(tmp_path, bad)
    assert record["status"] == status
    assert message in record["message"]
    assert "epochs" not in record and "metrics" not in record
    assert [event["event"] for event in events][-1] == "done"
    assert records(tmp_path / "results") == [record]


@pytest.mark.parametrize("fail", ["raise", "crash"])
def test_a_failure_in_the_accuracy_pass_fails_the_cell(tmp_path, graph, fail):
    bad = cell(graph, backend={"fail": fail, "fail_at": "predict"}, scenario={"train_to_end": True})
    (record,), _ = run(tmp_path, bad)
    assert record["status"] == "error"
    assert record["log_tail"]


def test_a_traceback_is_kept(tmp_path, graph):
    (record,), _ = run(tmp_path, cell(graph, backend={"fail": "raise"}))
    assert "Traceback" in record["log_tail"] and "backends/dummy/failures.py" in record["log_tail"]


@pytest.mark.parametrize(
    ("launcher", "fail"),
    [("inline", "none"), ("inline", "raise"), ("process", "none"), ("process", "raise"), ("process", "crash")],
)
def test_the_environment_lists_the_code_that_ran_however_it_ended(tmp_path, graph, fail, launcher):
    (record,), _ = run(tmp_path, cell(graph, launcher=launcher, backend={"fail": fail}))
    environment = environment_of(tmp_path / "results", record["environment"])
    ran = {"backends.dummy.backend", "backends.dummy.network", "datasets.graph", "harness.session"}
    assert ran <= set(environment["modules"])
    assert (fail == "crash" or "harness.scenario.train" in environment["modules"]) and is_current(environment)
    assert "sources" in environment["checked"] and "commit" in record and "commit" not in environment


def test_records_of_one_run_share_its_id_and_the_next_run_has_another(tmp_path, graph):
    first, _ = run(tmp_path, cell(graph, "a", "inline"), cell(graph, "b", "inline", backend={"fail": "raise"}))
    again, _ = run(tmp_path, cell(graph, "a", "inline"))
    assert first[0]["run"] == first[1]["run"] != again[0]["run"]


def test_every_request_states_the_seconds_until_the_deadline(tmp_path, graph, monkeypatch):
    seen = []
    send = Child.send
    monkeypatch.setattr(Child, "send", lambda child, message: seen.append(message["left"]) or send(child, message))
    (record,), _ = run(tmp_path, cell(graph, measure={"deadline_seconds": 60.0}))
    assert record["status"] == "ok" and seen == sorted(seen, reverse=True) and seen[0] == 60.0 > seen[-1] > 0


def test_neighbours_of_a_failing_cell_finish(tmp_path, graph):
    bad = cell(graph, "bad", backend={"fail": "crash", "fail_epoch": 2})
    (good, broken), _ = run(tmp_path, cell(graph, "good"), bad)
    assert (good["status"], broken["status"]) == ("ok", "error")
    assert len(good["epochs"]["seconds"]) == 3


def test_wrong_gradients_are_caught_before_any_sample(tmp_path, graph):
    wrong = cell(graph, backend={"fail": "wrong"}, measure={"parity": True})
    (record,), events = run(tmp_path, wrong)
    assert record["status"] == "incorrect"
    assert record["parity"]["small graph"]["tries"] == 3
    assert "epochs" not in record
    assert "sample" not in {event["event"] for event in events}


def test_outcomes_known_beforehand_start_nothing(tmp_path, graph):
    known = cell(None) | {"status": "unsupported", "message": "no such model"}
    (record, other), events = run(tmp_path, known, cell(graph, "b"))
    assert (record["status"], record["message"], other["status"]) == ("unsupported", "no such model", "ok")
    assert [event["event"] for event in events if event["cell"] == 0] == ["done"]


def test_a_missing_interpreter_is_an_error_of_its_cell_only(tmp_path, graph):
    bad = cell(graph, "bad")
    bad["config"]["launcher"]["python"] = "/nowhere/python"
    (record, other), _ = run(tmp_path, bad, cell(graph, "good"))
    assert record["status"] == "error" and "launcher.python" in record["message"]
    assert other["status"] == "ok"


def test_samples_are_taken_in_turns_by_fixed_times(tmp_path, graph):
    written, events = run(tmp_path, *(cell(graph, label, backend={"seconds": 0.25}) for label in "abc"))
    positions = sorted(position for record in written for position in record["rounds"])
    assert positions == list(range(9))
    assert all(record["epochs"]["seconds"] == [0.25, 0.25, 0.25] for record in written)
    order = [event["cell"] for event in events if event["event"] == "sample"]
    assert all(sorted(order[i : i + 3]) == [0, 1, 2] for i in (0, 3, 6))


def test_a_busy_neighbour_marks_samples_as_disturbed_but_does_not_stop_them(tmp_path, graph):
    # The sample has to outlast the kernel's tick: a real epoch, thousands of nodes.
    large = saved_graph(tmp_path / "large", nodes=20_000)
    busy = cell(graph, "busy", backend={"fail": "slow_child", "fail_epoch": 0})
    busy["config"]["measure"] |= {"warmup": 1, "min_samples": 1, "max_samples": 1}
    (quiet, _), events = run(tmp_path, cell(large, "quiet", backend={"learn": True}), busy)
    assert quiet["status"] == "ok"
    assert len(quiet["epochs"]["seconds"]) == 3
    assert len(quiet["epochs"]["disturbed"]) == 3
    assert "repeat" in {event["event"] for event in events}


def test_cells_too_large_together_run_in_fresh_processes(tmp_path, graph, monkeypatch):
    monkeypatch.setattr(group_module, "RESIDENT_SHARE", 0.0)
    written, events = run(tmp_path, *(cell(graph, label, measure={"processes": 2}) for label in "ab"))
    assert [record["status"] for record in written] == ["ok", "ok"]
    assert all(record["epochs"]["process"] == [0, 0, 1, 1] for record in written)
    # Cell b is started twice before a fills the memory, as all cells import their engines together.
    assert [event["cell"] for event in events if event["event"] == "start"].count(0) == 1 + 2


@pytest.mark.parametrize("memory", [1.0, 0.0], ids=["side by side", "one after the other"])
def test_fresh_processes_take_samples_of_equally_many_calls_and_verify_once(tmp_path, graph, monkeypatch, memory):
    monkeypatch.setattr(group_module, "RESIDENT_SHARE", memory)
    pids, opened, start, ask = [], [], Child.__init__, Child.send

    def started(child, *arguments):
        start(child, *arguments)
        pids.append(child.tree)

    def asked(child, message):
        opened.extend([message["first"]] if message["do"] == "open" else [])
        ask(child, message)

    monkeypatch.setattr(Child, "__init__", started)
    monkeypatch.setattr(Child, "send", asked)
    measure = {"processes": 3, "min_samples": 3, "max_samples": 3, "parity": True}
    lengths = {"a": 0.01, "b": 0.25}
    cells = [cell(graph, label, backend={"seconds": length}, measure=measure) for label, length in lengths.items()]
    written, _ = run(tmp_path, *cells)
    assert [record["status"] for record in written] == ["ok", "ok"]
    assert all(record["epochs"]["calls"] == [5] * 3 for record in written)
    assert all(record["epochs"]["process"] == [0, 1, 2] for record in written)
    assert written[1]["epochs"]["first"] == written[1]["epochs"]["seconds"] == [0.25] * 3
    assert all(len(record["processes"]) == 3 and record["parity"]["small graph"] for record in written)
    assert all({"prepare", "warmup", "first_call", "page_faults"} == set(one) for one in written[0]["processes"])
    assert len(set(pids)) == len(pids) == (6 if memory else 9)
    assert opened.count(True) == 2 and opened.count(False) == (4 if memory else 6)


def test_a_cell_that_ends_in_a_later_process_is_a_failed_cell(tmp_path, graph, monkeypatch):
    killed, send = [], Child.send

    def kill_third(child, message):
        killed.extend([child.tree] if message["do"] == "open" and message["first"] is False else [])
        if message["do"] == "sample" and len(killed) == 2:
            os.kill(child.tree, signal.SIGKILL)
        send(child, message)

    monkeypatch.setattr(Child, "send", kill_third)
    (record,), events = run(tmp_path, cell(graph, measure={"processes": 3}))
    assert record["status"] == "oom" and "SIGKILL" in record["message"]
    assert "epochs" not in record and "processes" not in record
    assert sum(event["event"] == "sample" for event in events) == 2


def test_a_cell_that_ran_out_of_memory_beside_others_is_tried_alone(tmp_path, graph, monkeypatch):
    tried, open_worker = [], RemoteCell.open

    def open_once(worker, first, batch_limit):
        tried.append(worker.tree)
        if len(tried) == 2:
            raise CellFailed("oom", "beside the first cell")
        return open_worker(worker, first, batch_limit)

    monkeypatch.setattr(RemoteCell, "open", open_once)
    written, _ = run(tmp_path, cell(graph, "a"), cell(graph, "b"))
    assert [record["status"] for record in written] == ["ok", "ok"]


def test_cells_that_cannot_fit_the_time_of_their_group_are_skipped_with_a_sentence(tmp_path, graph):
    limit = {"group_seconds": 1000.0}
    long = cell(graph, "long", backend={"seconds": 500.0}, measure=limit)
    (skipped, other), events = run(tmp_path, long, cell(graph, "short", measure=limit))
    assert (skipped["status"], other["status"]) == ("timeout", "ok")
    assert "skipped" in skipped["message"] and "measure.group_seconds=1000" in skipped["message"]
    assert {event["cell"] for event in events if event["event"] == "sample"} == {1}


def test_minibatch_epochs_that_take_too_long_are_extrapolated(tmp_path, graph):
    long = cell(graph, "long", backend={"seconds": 20.0}, training={"batch_size": 4, "epochs": 2})
    short = cell(graph, "short", backend={"seconds": 0.5}, training={"batch_size": 4, "epochs": 2})
    (limited, whole), _ = run(tmp_path, long, short)
    assert limited["epochs"]["seconds"] == [160.0] * 3
    assert limited["extrapolated"] == 10 / 8
    assert whole["epochs"]["seconds"] == [5.0] * 3 and "extrapolated" not in whole


def test_memory_of_an_epoch_is_its_peak_above_its_start(tmp_path, graph):
    large = saved_graph(tmp_path / "large", nodes=30_000)
    sections = {"measure": {"memory": True}, "model": {"hidden": 64}}
    (small, big), _ = run(
        tmp_path,
        cell(graph, "s", backend={"learn": True}, **sections),
        cell(large, "b", backend={"learn": True}, **sections),
    )
    # float64 [nodes, hidden] stands behind activations and gradients: at least one of them must show.
    assert big["memory"]["peak_minus_resident"] - small["memory"]["peak_minus_resident"] > 30_000 * 64 * 8
    for memory in (small["memory"], big["memory"]):
        assert memory["peak"] - memory["resident"] == memory["peak_minus_resident"]


def test_inline_and_process_write_records_of_one_shape(tmp_path, graph):
    sections = {
        "scenario": {"train_to_end": True, "target": 0.1},
        "measure": {"memory": True, "parity": True, "cache": "simulate"},
    }
    written, _ = run(tmp_path, cell(graph, "i", "inline", **sections), cell(graph, "p", "process", **sections))
    assert [record["status"] for record in written] == ["ok", "ok"]
    inline, process = map(shape, written)
    assert inline == process


def shape(value):
    """Keys and kinds of a record, without its numbers."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return "number" if isinstance(value, int | float) else type(value).__name__


def test_killing_the_run_leaves_no_process_and_whole_records(tmp_path, graph):
    with mark_processes("kill") as mark:
        hanging = group(cell(graph, "hang", backend={"fail": "hang"}), name="second")
        runner = start_runner(tmp_path, [group(cell(graph, "ok")), hanging])
        # The run, its guard, the cell, and the grandchild in a process group of its own.
        eventually(lambda: runner.poll() is not None or len(marked(mark)) >= 4, "the hanging grandchild")
        runner.kill()
        runner.wait()
    assert [record["status"] for record in records(tmp_path / "results")] == ["ok"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_run_and_says_so_in_records(tmp_path, graph, number):
    with mark_processes("interrupt") as mark:
        hanging = group(cell(graph, "hang", backend={"fail": "hang"}), cell(graph, "other"), name="second")
        runner = start_runner(tmp_path, [group(cell(graph, "ok")), hanging])
        eventually(lambda: runner.poll() is not None or len(marked(mark)) >= 4, "the hanging grandchild")
        runner.send_signal(number)
        assert runner.wait(60) != 0
    statuses = {record["group"]: set() for record in records(tmp_path / "results")}
    for record in records(tmp_path / "results"):
        statuses[record["group"]].add(record["status"])
    assert statuses == {"group": {"ok"}, "second": {"interrupted"}}


def test_records_are_whole_whenever_the_run_is_killed(tmp_path, graph):
    draw = random.Random(0)
    groups = [group(cell(graph, f"{number}", "inline"), name=f"{number}") for number in range(200)]
    seen = 0
    with mark_processes("atomic"):
        for _ in range(3):
            runner = start_runner(tmp_path, groups)
            for _ in range(draw.randint(1, 40)):
                runner.stdout.readline()
            time.sleep(draw.random() * 0.02)
            runner.kill()
            runner.wait()
            written = records(tmp_path / "results")
            assert all(record["status"] == "ok" and "epochs" in record for record in written)
            seen = max(seen, len(written))
    assert seen > 0


def test_a_second_run_waits_and_names_the_first(tmp_path, graph):
    with mark_processes("lock"):
        hanging = [group(cell(graph, "hang", backend={"fail": "hang"}, measure={"deadline_seconds": 4.0}))]
        runner = start_runner(tmp_path, hanging)
        assert runner.stdout.readline().startswith("start")
        with pytest.raises(Busy, match=f"process {runner.pid}: "):
            run_groups([group(cell(graph, "b"))], tmp_path / "other", on_event=lambda event: None, wait=False)
        events = []
        (record,) = run_groups([group(cell(graph, "b"))], tmp_path / "other", on_event=events.append)
        assert events[0]["event"] == "waiting" and str(runner.pid) in events[0]["for"]
        assert record["status"] == "ok"
        assert runner.wait(60) == 0


def test_the_tuned_allocator_keeps_large_blocks(graph):
    # Page faults of the second half of some large allocations; numpy takes them from malloc as torch does.
    script = (
        "import numpy as np, resource\n"
        "def faults():\n"
        "    for _ in range(8): np.ones(20_000_000, dtype=np.float32)\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "before = faults()\n"
        "print(faults() - before)\n"
    )
    counts = {}
    for allocator in ("stock", "tuned"):
        config = cell(graph)["config"] | {"launcher": {"allocator": allocator}}
        answer = subprocess.run(
            [sys.executable, "-c", script], env=child_environment(config), capture_output=True, text=True, check=True
        )
        counts[allocator] = int(answer.stdout)
    assert counts["tuned"] * 10 < counts["stock"], counts


def test_the_parent_needs_neither_numpy_nor_torch():
    script = "import sys, harness.launcher.group; print(sorted({'numpy', 'torch', 'omegaconf'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize(("fail", "code"), [("none", 0), ("raise", 1)])
def test_a_plan_runs_without_the_command_line(tmp_path, fail, code):
    saved_graph(tmp_path / "plan" / "graphs" / "tiny")
    planned = cell("graphs/tiny", backend={"fail": fail})
    (tmp_path / "plan" / "cells.json").write_text(json.dumps({"groups": [group(planned)]}))
    command = [
        sys.executable,
        "-m",
        "harness.cell",
        str(tmp_path / "plan" / "cells.json"),
        "--out",
        str(tmp_path / "out"),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert answer.returncode == code, answer.stderr
    assert [record["status"] for record in records(tmp_path / "out")] == ["ok" if code == 0 else "error"]


def test_a_plan_that_is_not_there_is_a_usage_error(tmp_path):
    command = [sys.executable, "-m", "harness.cell", str(tmp_path / "cells.json"), "--out", str(tmp_path / "out")]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 2
    assert "plan --out" in answer.stderr


def test_a_results_folder_that_cannot_be_written_ends_the_run(tmp_path, graph):
    (tmp_path / "results").write_text("a file, not a folder")
    with mark_processes("unwritable"), pytest.raises(OSError):
        run_groups([group(cell(graph))], tmp_path / "results", on_event=lambda event: None)


@pytest.mark.parametrize("enough_alone", [True, False])
def test_a_cell_out_of_memory_beside_others_is_tried_once_more_alone(tmp_path, graph, monkeypatch, enough_alone):
    sample, refused = RemoteCell.sample, []

    def short_of_memory(worker, calls):
        if worker._cell["hash"] == "large" and not (enough_alone and refused):
            refused.append(worker.tree)
            raise CellFailed("oom", "out of memory")
        return sample(worker, calls)

    monkeypatch.setattr(RemoteCell, "sample", short_of_memory)
    cells = [
        cell(graph, label, measure={"processes": 2, "min_samples": 2, "max_samples": 2}) for label in ("large", "b")
    ]
    (large, other), events = run(tmp_path, *cells)
    assert other["status"] == "ok" and large["status"] == ("ok" if enough_alone else "oom")
    assert len(refused) == (1 if enough_alone else 2) == len(set(refused))
    last = max(place for place, event in enumerate(events) if event["cell"] == 1)
    again = [place for place, event in enumerate(events) if event["cell"] == 0 and event["event"] == "start"]
    assert again[-1] > last
    assert not enough_alone or sorted(set(large["epochs"]["process"])) == [0, 1]


def test_a_cell_out_of_memory_without_others_is_not_tried_again(tmp_path, graph):
    (record,), events = run(tmp_path, cell(graph, backend={"fail": "oom"}, launcher="process"))
    assert record["status"] == "oom"
    assert [event["event"] for event in events].count("start") == 1
