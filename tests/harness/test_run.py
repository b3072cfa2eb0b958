"""Exit codes of a run, and what it does before and after measuring."""

import os
from pathlib import Path

import pytest

from datasets.paths import default_cache
from harness.launcher.failure import CellFailed
from harness.launcher.inline import InlineCell
from harness.planning.compose import compose_arguments, compose_one
from harness.planning.config import load
from harness.planning.graphs import prepare_graphs
from harness.planning.plan import find_group_records, make_plan
from harness.run import exit_code, main, measure, prepare_places
from harness.store.files import find_records
from tests.harness.planning.test_plan import MACHINE, config, groups, write


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (("ok", "unsupported"), 0),
        (("ok", "error"), 1),
        (("incorrect", "ok"), 1),
        (("interrupted", "ok"), 1),
        (("not_installed", "not_installed"), 1),
    ],
)
def test_exit_codes_follow_the_records(statuses: tuple[str, ...], code: int, tmp_path: Path) -> None:
    (group,) = groups(config(), config("backend.seconds=0.02"))
    write(group, tmp_path, statuses)
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert exit_code([group]) == code


def test_a_missing_engine_among_others_is_no_failure(tmp_path: Path) -> None:
    (group,) = groups(config(), load(compose_one(["backend=agl", "dataset.options.nodes=500"])))
    write(group, tmp_path, ["ok", "not_installed"])
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert exit_code([group]) == 0


def test_records_of_code_that_is_not_todays_are_told_and_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("harness.launcher.earlier.is_current", lambda environment: False)
    dummy = ["backend=dummy", "backend.fail=raise", "launcher=inline", "measure=few", "measure.limits=false"]
    assert main([*dummy, "dataset=uug", "dataset.options.nodes=500", "model=sage", f"results={tmp_path / 'r'}"]) == 1
    assert (
        "1 new records do not count, as they are not of the code and data that lie here now: "
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(("retry", "again"), [("failed", 0), ("all", 1)])
def test_what_another_run_finished_while_this_one_waited_is_not_measured_again(
    retry: str, again: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    dummy = ["backend=dummy", "launcher=inline", "measure=few", "measure.limits=false", "measure.processes=1"]
    graph = ["dataset=uug", "dataset.options.nodes=500", "model=sage"]
    plan = make_plan(compose_arguments([*dummy, *graph, f"retry={retry}", f"results={tmp_path / 'r'}"]))
    groups = plan.open_groups()
    prepared, _ = prepare_graphs(groups, default_cache())
    assert [record["status"] for record in measure(plan, groups, prepared)] == ["ok"]
    assert len(measure(plan, groups, prepared)) == again


def test_a_run_removes_what_a_killed_one_left_among_the_environments(tmp_path: Path) -> None:
    graph = ["dataset=uug", "dataset.options.nodes=500", "model=sage"]
    plan = make_plan(compose_arguments(["backend=dummy", *graph, f"results={tmp_path / 'r'}"]))
    left = tmp_path / "r" / "environments" / f".0123456789ab.json.{2**22 + 1}.tmp"  # above all numbers of processes
    left.parent.mkdir(parents=True)
    left.touch()
    os.utime(left, (0, 0))
    prepare_places(plan, plan.open_groups())
    assert not left.exists()


def test_a_repetition_that_fails_fails_the_run_and_leaves_the_good_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(worker: InlineCell, calls: int) -> None:
        raise CellFailed("timeout", "too slow")

    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    dummy = ["backend=dummy", "launcher=inline", "measure=few", "measure.limits=false", "measure.processes=1"]
    arguments = [*dummy, "dataset=uug", "dataset.options.nodes=500", "model=sage", f"results={tmp_path / 'r'}"]
    assert main(arguments) == 0
    with monkeypatch.context() as patch:
        patch.setattr(InlineCell, "sample", refuse)
        assert main([*arguments, "retry=all"]) == 1
    sentence = (
        "error: uug sage dummy inline seed 0 ended as timeout: too slow; the good record of an earlier run stays\n"
    )
    printed = capsys.readouterr()
    assert sentence in printed.err and "do not count" not in printed.err
    assert [record["status"] for _, record in find_records(tmp_path / "r")] == ["ok"]
    assert main(arguments) == 0 and "nothing to run" in capsys.readouterr().out
    assert main([*arguments, "retry=all"]) == 0
    assert [record["status"] for _, record in find_records(tmp_path / "r")] == ["ok", "ok"]
