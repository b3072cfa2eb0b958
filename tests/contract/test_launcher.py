"""The process launcher with real processes: every failure has its record, and no process is left."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from backends.registry import config_class
from harness.cell import main as run_plan
from harness.launcher.group import Busy, run_groups
from harness.launcher.process import Child
from harness.launcher.remote import child_environment
from harness.measure.sources import is_current
from harness.store.files import environment_of
from tests.cells import cell, eventually, group, mark_processes, marked, records, run, saved_graph

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


pytestmark = pytest.mark.usefixtures("own_lock", "unknown_load")


@pytest.fixture
def graph(tmp_path):
    return saved_graph(tmp_path / "graph")


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


def test_minibatch_epochs_that_take_too_long_are_extrapolated(tmp_path, graph):
    long = cell(graph, "long", backend={"seconds": 20.0}, training={"batch_size": 4, "epochs": 2})
    short = cell(graph, "short", backend={"seconds": 0.5}, training={"batch_size": 4, "epochs": 2})
    (limited, whole), _ = run(tmp_path, long, short)
    assert limited["epochs"]["seconds"] == [160.0] * 3
    assert limited["extrapolated"] == 39 / 32  # targets: the last of ten batches has three
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
        assert memory["working_set"] == memory["peak_minus_resident"] + memory["retained"]


def test_memory_of_an_aggregation_is_that_of_its_results(tmp_path):
    nodes, width = 60_000, 64
    sections = {"measure": {"memory": True}, "model": {"hidden": width}, "scenario": {"name": "spmm"}}
    planned = cell(saved_graph(tmp_path / "large", nodes=nodes), **sections)
    planned["config"]["backend"] = asdict(config_class("reference")(variant="reduce_cached"))
    planned["path"] = planned["path"].replace("dummy/train", "reference/spmm")
    (record,), _ = run(tmp_path, planned)
    # The output and the gradient of each call, whatever the calls before left.
    assert record["status"] == "ok", record
    assert 1.9 < record["memory"]["peak_minus_resident"] / (nodes * width * 4) < 2.2
    assert record["memory"]["retained"] < nodes * width * 4


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


def test_a_process_names_what_its_engine_lacks(tmp_path, graph, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # without the programs of PT-Scotch
    planned = cell(graph, scenario={"name": "partition"})
    planned["config"]["backend"] = asdict(config_class("partitioners")(tool="ptscotch"))
    planned["path"] = planned["path"].replace("dummy/train", "partitioners/partition")
    (record,), _ = run(tmp_path, planned)
    assert record["status"] == "not_installed" and "needs the program dgpart" in record["message"]


@pytest.mark.needs_pyg
def test_a_process_refuses_what_its_own_packages_do_not_offer(tmp_path, graph):
    planned = cell(graph, training={"batch_size": 4})
    planned["config"]["backend"] = asdict(config_class("pyg")(loader="khop", workers=1))
    planned["path"] = planned["path"].replace("dummy/train", "pyg/train")
    (record,), _ = run(tmp_path, planned)
    assert record["status"] == "unsupported" and "no loader processes where khop" in record["message"]


def graphless():
    return json.dumps({"groups": [group(cell(None))]})


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "No such file"), ("[1]", "write it with"), ("1", "write it with"), (graphless(), "it holds no graphs")],
    ids=["absent", "list", "number", "without data"],
)
def test_what_is_no_plan_to_run_is_a_usage_error(tmp_path, text, words):
    if text is not None:
        (tmp_path / "cells.json").write_text(text)
    command = [sys.executable, "-m", "harness.cell", str(tmp_path / "cells.json"), "--out", str(tmp_path / "out")]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (answer.returncode, len(answer.stderr.splitlines())) == (2, 1), answer.stderr
    assert words in answer.stderr and "plan --out DIR --with-data" in answer.stderr


MISSING_KEYS = [("labels",), ("config", "measure", "turn_seconds"), ("config", "launcher", "allocator"), ("status",)]


@pytest.mark.parametrize("keys", MISSING_KEYS, ids=".".join)
def test_a_plan_that_lacks_a_key_is_a_usage_error_that_names_it(tmp_path, capsys, keys):
    planned = cell("graphs/tiny")
    *sections, key = keys
    section = planned
    for name in sections:
        section = section[name]
    del section[key]
    (tmp_path / "cells.json").write_text(json.dumps({"groups": [group(planned)]}))
    assert run_plan([str(tmp_path / "cells.json"), "--out", str(tmp_path / "out")]) == 2
    errors = capsys.readouterr().err
    assert f"groups[0].cells[0].{'.'.join(keys)} is missing" in errors and "plan --out DIR --with-data" in errors
    assert not (tmp_path / "out").exists()


def test_a_folder_for_records_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path):
    saved_graph(tmp_path / "graphs" / "tiny")
    (tmp_path / "cells.json").write_text(json.dumps({"groups": [group(cell("graphs/tiny"))]}))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "environments").write_text("a file, not a folder")
    command = [sys.executable, "-m", "harness.cell", str(tmp_path / "cells.json"), "--out", str(tmp_path / "out")]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (answer.returncode, len(answer.stderr.splitlines())) == (2, 1), answer.stderr
    assert "environments is not writable (Not a directory" in answer.stderr


def test_a_results_folder_that_cannot_be_written_ends_the_run(tmp_path, graph):
    (tmp_path / "results").write_text("a file, not a folder")
    with mark_processes("unwritable"), pytest.raises(OSError):
        run_groups([group(cell(graph))], tmp_path / "results", on_event=lambda event: None)
