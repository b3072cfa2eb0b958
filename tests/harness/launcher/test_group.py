"""Turns and processes of a group with real processes: equal calls, fresh processes, second tries, the group's time."""

import os
import signal
import time

import pytest

from harness.launcher import cell_run, earlier
from harness.launcher import group as group_module
from harness.launcher.allowance import Allowance
from harness.launcher.failure import CellFailed
from harness.launcher.process import Child
from harness.launcher.remote import RemoteCell
from harness.measure import sources
from harness.measure.control_group import usable_cores
from harness.measure.sources import with_sources
from harness.store import files
from harness.store.shortened import is_shortened, lacks_a_pass
from harness.store.validate import problems_in
from tests.cells import cell, group, records, run, saved_graph

pytestmark = pytest.mark.usefixtures("own_lock", "unknown_load")


@pytest.fixture
def graph(tmp_path):
    return saved_graph(tmp_path / "graph")


def test_samples_are_taken_in_turns_by_fixed_times(tmp_path, graph):
    written, events = run(tmp_path, *(cell(graph, label, backend={"seconds": 0.25}) for label in "abc"))
    positions = sorted(position for record in written for position in record["rounds"])
    assert positions == list(range(9))
    assert all(record["epochs"]["seconds"] == [0.25, 0.25, 0.25] for record in written)
    order = [event["cell"] for event in events if event["event"] == "sample"]
    assert all(sorted(order[i : i + 3]) == [0, 1, 2] for i in (0, 3, 6))


def test_the_memory_of_all_cells_is_read_before_one_of_them_leaves(tmp_path, graph, monkeypatch):
    # A file that several cells map is divided among those that still have it: the last would pay for it whole.
    steps = []
    for name in ("memory", "close"):
        call = getattr(RemoteCell, name)
        monkeypatch.setattr(
            RemoteCell, name, lambda worker, name=name, call=call: (steps.append(name), call(worker))[-1]
        )
    cells = [cell(graph, label, measure={"memory": True}) for label in "ab"]
    written, _ = run(tmp_path, *cells)
    assert all(record["memory"]["resident"] > 0 for record in written)
    assert steps == ["memory", "memory", "close", "close"]


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
    # Cell a is started, opened alone as memory does not hold both, then started for each of its processes.
    assert [event["cell"] for event in events if event["event"] == "start"].count(0) == 1 + 2


@pytest.mark.parametrize("memory", [1.0, 0.0], ids=["side by side", "one after the other"])
def test_fresh_processes_take_samples_of_equally_many_calls_and_verify_once(tmp_path, graph, monkeypatch, memory):
    monkeypatch.setattr(group_module, "RESIDENT_SHARE", memory)
    pids, opened, start, send = [], [], Child.__init__, Child.send

    def start_and_note(child, *arguments):
        start(child, *arguments)
        pids.append(child.tree)

    def send_and_note(child, message):
        opened.extend([message["first"]] if message["do"] == "open" else [])
        send(child, message)

    monkeypatch.setattr(Child, "__init__", start_and_note)
    monkeypatch.setattr(Child, "send", send_and_note)
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


@pytest.mark.parametrize(
    ("counted", "status"),
    [("oom_kill 7", "error"), ("oom_kill 8", "oom"), ("pgfault 7", "oom")],
    ids=["killed from outside", "memory ran out", "not counted"],
)
def test_a_cell_that_ends_in_a_later_process_is_a_failed_cell(tmp_path, graph, monkeypatch, counted, status):
    killed, send, kernel = [], Child.send, tmp_path / "vmstat"
    kernel.write_text(counted.replace("8", "7"))
    monkeypatch.setattr("backends.memory_errors.VMSTAT", kernel)

    def kill_third(child, message):
        killed.extend([child.tree] if message["do"] == "open" and message["first"] is False else [])
        if message["do"] == "sample" and len(killed) == 2:
            kernel.write_text(counted)
            os.kill(child.tree, signal.SIGKILL)
        send(child, message)

    monkeypatch.setattr(Child, "send", kill_third)
    (record,), events = run(tmp_path, cell(graph, measure={"processes": 3}))
    assert record["status"] == status and "SIGKILL" in record["message"]
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
    assert len(set(tried)) == 3


def test_cells_that_cannot_fit_the_time_of_their_group_are_skipped_with_a_sentence(tmp_path, graph):
    limit = {"group_seconds": 1000.0}
    long = cell(graph, "long", backend={"seconds": 500.0}, measure=limit)
    (skipped, other), events = run(tmp_path, long, cell(graph, "short", measure=limit))
    assert (skipped["status"], other["status"]) == ("timeout", "ok")
    assert "skipped" in skipped["message"] and "measure.group_seconds=1000" in skipped["message"]
    assert {event["cell"] for event in events if event["event"] == "sample"} == {1}


@pytest.mark.parametrize(("seconds", "warmup", "processes"), [(150.0, 1, 2), (400.0, 0, 2), (600.0, 0, 1)])
def test_a_cell_too_long_for_the_time_of_its_group_has_fewer_processes(tmp_path, graph, seconds, warmup, processes):
    measure = {"group_seconds": 1000.0, "warmup": warmup, "processes": 3, "min_samples": 3, "max_samples": 3}
    long = cell(graph, "long", backend={"seconds": seconds}, measure=measure)
    (shortened, other), _ = run(tmp_path, long, cell(graph, "short", measure=measure))
    assert shortened["status"] == other["status"] == "ok"
    assert shortened["epochs"]["process"] == list(range(processes)) and len(shortened["processes"]) == processes
    assert shortened["facts"] and other["epochs"]["process"] == [0, 1, 2]
    assert is_shortened(shortened) and not is_shortened(other)


def test_a_cell_with_all_its_samples_is_concluded_after_the_time_of_its_group(tmp_path, graph, monkeypatch):
    accuracy, scenario = RemoteCell.accuracy, {"train_to_end": True}
    allowances, begin = [], Allowance.__init__
    monkeypatch.setattr(Allowance, "__init__", lambda one, seconds: (begin(one, seconds), allowances.append(one))[0])

    def late(worker):
        allowances[0].begin -= allowances[0].seconds
        return accuracy(worker)

    monkeypatch.setattr(RemoteCell, "accuracy", late)
    cells = [cell(graph, label, scenario=scenario, training={"patience": 2}) for label in "ab"]
    written, _ = run(tmp_path, *cells)
    assert [record["status"] for record in written] == ["ok", "ok"]
    assert all(record["metrics"] and record["facts"] for record in written)


@pytest.mark.parametrize("status", ["timeout", "oom"])
def test_a_cell_whose_limits_cannot_be_measured_keeps_its_samples(tmp_path, graph, monkeypatch, status):
    def refuse(worker, shared, seconds):
        raise CellFailed(status, "on purpose")

    monkeypatch.setattr(RemoteCell, "finish", refuse)
    written, _ = run(tmp_path, *(cell(graph, label) for label in "ab"))
    assert [record["status"] for record in written] == ["ok", "ok"]
    assert all(record["facts"]["spmm"] and "alone" not in record for record in written)
    assert {record["limits"]["status"] for record in written} == {f"not measured, {status}: on purpose"}


@pytest.mark.parametrize("status", ["timeout", "oom"])
def test_a_cell_that_cannot_tell_its_facts_keeps_its_samples(tmp_path, graph, monkeypatch, status):
    def refuse(worker):
        raise CellFailed(status, "on purpose")

    monkeypatch.setattr(RemoteCell, "facts", refuse)
    crowded = cell(graph, "b")
    crowded["config"]["threads"] = int(usable_cores()) + 1
    written, _ = run(tmp_path, cell(graph, "a"), crowded)
    assert all(record["status"] == "ok" and len(record["epochs"]["seconds"]) == 3 for record in written)
    assert not any("alone" in record for record in written)
    reason = {"status": f"not measured, {status}: on purpose"}
    assert [record["facts"] for record in written] == [reason, reason | {"oversubscribed": usable_cores()}]
    assert [record["limits"] for record in written] == [reason] * 2


@pytest.mark.parametrize(("fail", "status"), [("hang", "timeout"), ("oom", "oom")], ids=["timeout", "oom"])
def test_a_cell_whose_pass_for_accuracy_does_not_end_keeps_its_samples(tmp_path, graph, monkeypatch, fail, status):
    accuracy = RemoteCell.accuracy

    def late(worker):
        worker.left = worker.left if status == "oom" else 0.1
        return accuracy(worker)

    monkeypatch.setattr(RemoteCell, "accuracy", late)
    bad = cell(graph, backend={"fail": fail, "fail_at": "predict"}, scenario={"train_to_end": True})
    bad["config"]["launcher"]["memory_limit_gib"] = 0.75
    (record,), _ = run(tmp_path, bad)
    assert record["status"] == "ok" and len(record["epochs"]["seconds"]) == 3
    assert record["facts"] == record["limits"] and not {"metrics", "validation"} & set(record)
    assert record["facts"]["status"].startswith(f"not measured, {status} in the pass for accuracy: ")
    assert lacks_a_pass(record) is (status == "timeout") and not list(problems_in(tmp_path / "results"))


@pytest.mark.parametrize("status", ["timeout", "oom"])
def test_a_cell_whose_pass_for_memory_does_not_end_keeps_its_samples_and_ends(tmp_path, graph, monkeypatch, status):
    steps, memory, close = [], RemoteCell.memory, RemoteCell.close

    def refuse_one(worker):
        steps.append(f"memory of {worker._cell['hash']}")
        if worker._cell["hash"] == "a":
            raise CellFailed(status, "on purpose")
        return memory(worker)

    monkeypatch.setattr(RemoteCell, "memory", refuse_one)
    monkeypatch.setattr(
        RemoteCell, "close", lambda worker: (steps.append(f"end of {worker._cell['hash']}"), close(worker))[-1]
    )
    (refused, other), _ = run(tmp_path, *(cell(graph, label, measure={"memory": True}) for label in "ab"))
    assert refused["status"] == other["status"] == "ok" and len(refused["epochs"]["seconds"]) == 3
    reason = {"status": f"not measured, {status} in the pass for memory: on purpose"}
    assert refused["facts"] == refused["limits"] == reason and not {"memory", "alone"} & set(refused)
    assert steps == ["memory of a", "end of a", "memory of b", "end of b"] and other["memory"]["peak"] > 0


@pytest.mark.parametrize("step", ["facts", "memory"])
def test_a_cell_of_which_a_pass_fails_otherwise_is_a_failed_cell(tmp_path, graph, monkeypatch, step):
    def refuse(worker):
        raise CellFailed("error", "on purpose")

    monkeypatch.setattr(RemoteCell, step, refuse)
    (record,), _ = run(tmp_path, cell(graph, measure={"memory": True}))
    assert record["status"] == "error" and record["message"] == "on purpose" and "epochs" not in record


def test_cells_are_not_opened_after_the_time_of_their_group(tmp_path, graph, monkeypatch):
    clock, passed, open_worker = time.monotonic, [], RemoteCell.open

    def open_for_600_seconds(worker, first, batch_limit):
        answer = open_worker(worker, first, batch_limit)
        passed.append(600.0)
        return answer

    monkeypatch.setattr(time, "monotonic", lambda: clock() + sum(passed))
    monkeypatch.setattr(RemoteCell, "open", open_for_600_seconds)
    written, _ = run(tmp_path, *(cell(graph, label, measure={"group_seconds": 1000.0}) for label in "abc"))
    assert [record["status"] for record in written] == ["timeout"] * 3
    assert "skipped" in written[1]["message"] and "no answer to 'open'" in written[2]["message"]


def test_a_cell_too_long_for_its_own_deadline_has_fewer_processes(tmp_path, graph):
    measure = {"deadline_seconds": 1000.0, "processes": 3, "min_samples": 3, "max_samples": 3}
    long = cell(graph, "long", backend={"seconds": 150.0}, measure=measure)
    (shortened, other), _ = run(tmp_path, long, cell(graph, "short", measure=measure))
    assert [record["epochs"]["process"] for record in (shortened, other)] == [[0, 1], [0, 1, 2]]


def test_a_record_names_the_commit_with_which_its_run_began(tmp_path, graph, monkeypatch):
    def leave_the_checkout(event):
        monkeypatch.setattr(sources, "ROOT", tmp_path)

    sources.commit.cache_clear()
    began = sources.commit()
    sources.commit.cache_clear()
    try:
        groups = [group(cell(graph, launcher="inline"))]
        (record,) = group_module.run_groups(groups, tmp_path / "results", on_event=leave_the_checkout)
    finally:
        sources.commit.cache_clear()
    assert record["commit"] == began


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
    assert large.get("alone", False) is enough_alone or large["status"] == "oom"
    assert "alone" not in other


def test_a_cell_out_of_memory_without_others_is_not_tried_again(tmp_path, graph):
    failing = cell(graph, backend={"fail": "oom"})
    failing["config"]["launcher"]["memory_limit_gib"] = 2  # filling the whole machine takes a minute
    (record,), events = run(tmp_path, failing)
    assert record["status"] == "oom"
    assert [event["event"] for event in events].count("start") == 1


def test_an_interrupted_repetition_leaves_the_good_record(tmp_path, graph, monkeypatch):
    def interrupt(worker, calls):
        raise KeyboardInterrupt

    run(tmp_path, cell(graph, "a"))
    monkeypatch.setattr(RemoteCell, "sample", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, cell(graph, "a"), cell(graph, "b"))
    assert [record["status"] for record in records(tmp_path / "results")] == ["ok", "interrupted"]


@pytest.mark.parametrize("status", ["timeout", "oom", "error"])
@pytest.mark.parametrize("step", ["open", "sample"])
def test_a_repetition_that_fails_is_told_and_leaves_the_good_record(tmp_path, graph, monkeypatch, step, status):
    def refuse(worker, *arguments):
        raise CellFailed(status, "on purpose")

    (good,), _ = run(tmp_path, cell(graph))
    monkeypatch.setattr(RemoteCell, step, refuse)
    (failed,), events = run(tmp_path, cell(graph))
    assert records(tmp_path / "results") == [good] and good["status"] == "ok"
    assert failed["status"] == events[-1]["status"] == status and not earlier.was_written(failed)
    assert failed["message"] == "on purpose; the good record of an earlier run stays"
    assert len(list((tmp_path / "results" / "environments").iterdir())) == 1


@pytest.mark.parametrize(("unchanged", "statuses"), [(True, ["ok"]), (False, ["error", "ok"])])
def test_a_failure_in_another_environment_is_written_where_the_code_has_changed(
    tmp_path, graph, monkeypatch, unchanged, statuses
):
    def refuse(worker, calls):
        raise CellFailed("error", "on purpose")

    run(tmp_path, cell(graph))
    monkeypatch.setattr(RemoteCell, "sample", refuse)
    monkeypatch.setattr(cell_run, "with_sources", lambda description, modules: with_sources(description, {}))
    monkeypatch.setattr(earlier, "is_current", lambda environment: unchanged)
    run(tmp_path, cell(graph))
    assert sorted(record["status"] for record in records(tmp_path / "results")) == statuses


def test_a_repetition_leaves_the_good_records_of_earlier_runs_under_their_own_names(tmp_path, graph, monkeypatch):
    monkeypatch.setattr(files, "LARGEST_BYTES", 1000)  # each record has a side file
    written = [run(tmp_path, cell(graph))[0][0] for _ in range(3)]
    stored = dict(files.find_records(tmp_path / "results"))
    names = [f".group.{record['run']}.json" for record in written[:2]] + [".group.json"]
    for record, name in zip(written, names, strict=True):
        ((path, same),) = [entry for entry in stored.items() if entry[1]["run"] == record["run"]]
        assert path.name == f"seed=0.{record['environment']}{name}" and files.side_path(path).exists()
        assert {**same, "digest": ""} == {**record, "digest": ""}
    assert len(stored) == 3 and not list(problems_in(tmp_path / "results"))


@pytest.mark.parametrize(
    ("threads", "ranks", "cores", "told"),
    [(2, 8, 64, {"oversubscribed": 2}), (8, 8, 64, {}), (2, 1, 1.5, {"oversubscribed": 1.5}), (1, 1, 1.5, {})],
    ids=["ranks-beyond-threads", "a-thread-a-rank", "quota", "within-the-quota"],
)
def test_what_ranks_share_is_told_where_memory_ended_their_facts(monkeypatch, threads, ranks, cores, told):
    monkeypatch.setattr(cell_run, "usable_cores", lambda: cores)
    config = cell(None)["config"] | {"threads": threads, "backend": {"name": "blocksparse", "ranks": ranks}}
    assert cell_run._crowded(config) == told


@pytest.mark.parametrize(("strategy", "told"), [("async", {"oversubscribed": 2}), ("local", {}), (None, {})])
def test_what_workers_share_is_told_too_and_loader_processes_are_none(monkeypatch, strategy, told):
    monkeypatch.setattr(cell_run, "usable_cores", lambda: 2)
    backend = {"name": "agl", "workers": 4} | ({} if strategy is None else {"strategy": strategy})
    assert cell_run._crowded(cell(None)["config"] | {"threads": 2, "backend": backend}) == told


def test_a_kernel_that_tells_no_memory_leaves_it_out_of_the_record(tmp_path, graph, monkeypatch):
    monkeypatch.setattr("harness.measure.memory.PROC", tmp_path)
    (record,), _ = run(tmp_path, cell(graph, measure={"memory": True}))
    assert record["status"] == "ok" and "memory" not in record
