"""The plan: which cells form a group, which groups are finished."""

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from backends.registry import config_class
from harness.launcher import allocators
from harness.launcher.earlier import set_aside
from harness.measure import sources
from harness.measure.sources import with_sources
from harness.planning.cells import Cell
from harness.planning.compose import Composition, compose_one
from harness.planning.config import load
from harness.planning.identity import record_path
from harness.planning.plan import (
    Group,
    Plan,
    PlannedRun,
    configurations,
    find_group_records,
    form_groups,
    group_key,
    make_plan,
)
from harness.planning.schema import RunConfig
from harness.planning.suite import Suite
from harness.store.files import write_environment, write_record
from harness.store.record import StoredRecord
from harness.usage import UsageError
from tests import factory

MACHINE = "box"
ROOT = Path(__file__).resolve().parents[3]
DUMMY = ["backend=dummy", "dataset.options.nodes=500"]


def same_environment(config: RunConfig) -> dict[str, Any]:
    """An environment that never changes."""
    return {"threads": config.threads}


def config(*overrides: str) -> RunConfig:
    return load(compose_one([*DUMMY, *overrides]))


def groups(*configs: RunConfig, environment: Any = same_environment, suite: Suite | None = None) -> list[Group]:
    return form_groups([PlannedRun(config, [], suite) for config in configs], environment)


def write(
    group: Group,
    results: Path,
    statuses: Sequence[str | None],
    run: str = "1",
    modules: dict[str, str] | None = None,
    **keys: Any,
) -> None:
    """Write records of a group as the launcher would; ``None`` leaves a cell out, ``modules`` are the loaded ones.

    ``keys`` replace those of each record; ``None`` leaves one out.
    """
    modules = modules or {}
    for cell, status in zip(group.cells, statuses, strict=True):
        if status is None:
            continue
        name = write_environment(results, with_sources({"checked": same_environment(cell.config)}, modules))
        path = record_path(cell.config, cell.hash, MACHINE, group.id).replace("{environment}", name)
        values = record_of(cell, status, name, group.id) | {"run": run} | keys
        write_record(results, path, {key: value for key, value in values.items() if value is not None})


def record_of(cell: Cell, status: str, environment: str, group: str) -> dict[str, Any]:
    """A record of a cell, with samples where it is ok."""
    values = factory.record(status=status, config=asdict(cell.config), environment=environment, group=group)
    del values["written"]
    return values


def test_engines_and_ablations_share_a_group_and_everything_else_parts_it() -> None:
    base = config()
    agl = load(compose_one(["backend=agl", "dataset.options.nodes=500"]))
    together = groups(base, agl, replace(agl, ablations={"pruning": True}), config("launcher.allocator=stock"))
    assert [len(group.cells) for group in together] == [4]
    for override in ("seed=1", "threads=1", "device=cuda", "model=gcn", "scenario=infer", "order=rcm", "dataset=cora"):
        others = [part for part in DUMMY if not (override == "dataset=cora" and part.startswith("dataset"))]
        assert len(groups(base, load(compose_one([*others, override])))) == 2, override
    for override in ("model.hidden=9", "training.rate=0.5", "dataset.options.nodes=501", "measure.warmup=1"):
        assert len(groups(base, config(override))) == 2, override


def test_a_suite_may_let_axes_vary_inside_a_group() -> None:
    suite = Suite("orders", "Orders", {}, vary=["order", "training.rate"])
    configs = config(), config("order=rcm"), config("training.rate=0.5"), config("training.decay=0.5")
    formed = groups(*configs, suite=suite)
    assert [len(group.cells) for group in formed] == [3, 1]
    assert "order" not in formed[0].key and formed[0].key["model"] == "gat"
    assert group_key(configs[0], ["order"]) == group_key(configs[1], ["order"])


def test_equal_cells_collapse_into_one_with_both_labels() -> None:
    agl = load(compose_one(["backend=agl", "dataset=cora"]))
    every = replace(agl, ablations={"pruning": True, "partition": True, "pipeline": True, "sparse": True})
    (group,) = groups(agl, every)
    assert [cell.labels for cell in group.cells] == [[[], ["partition", "pipeline", "pruning", "sparse"]]]


def test_a_groups_id_follows_its_cells_and_its_environment_but_not_their_order() -> None:
    one, two = config(), config("backend.seconds=0.02")
    (there,), (back,) = groups(one, two), groups(two, one)
    assert there.id == back.id
    assert groups(one)[0].id != there.id
    assert groups(one, two, environment=lambda values: {"torch": "another"})[0].id != there.id
    assert groups(config("seed=1"))[0].id != groups(one)[0].id


@pytest.mark.parametrize(
    ("statuses", "failed", "every", "none"),
    [
        ((None, None), True, True, True),
        (("ok", None), True, True, True),
        (("ok", "ok"), False, True, False),
        (("ok", "unsupported"), False, True, False),
        (("ok", "not_installed"), False, True, False),
        (("ok", "error"), True, True, False),
        (("oom", "timeout"), True, True, False),
    ],
)
def test_retry_decides_which_groups_run_again(
    statuses: tuple[str | None, ...], failed: bool, every: bool, none: bool, tmp_path: Path
) -> None:
    (group,) = groups(config(), config("backend.seconds=0.02"))
    write(group, tmp_path, statuses)
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert [group.state(retry)[0] for retry in ("failed", "all", "none")] == [failed, every, none]


@pytest.mark.parametrize(("later", "run"), [("9000", False), ("9001", True)])
def test_a_cell_with_fewer_processes_runs_again_when_its_group_may_take_longer(
    later: str, run: bool, tmp_path: Path
) -> None:
    write(groups(config())[0], tmp_path, ["ok"])  # with one process of five, in 9,000 s
    (group,) = groups(config(f"measure.group_seconds={later}"))
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert [group.state(retry)[0] for retry in ("failed", "none")] == [run, False]


@pytest.mark.parametrize(("later", "run"), [("3600", False), ("3601", True)], ids=["as long", "longer"])
def test_a_cell_of_which_time_ended_a_pass_runs_again_when_it_may_take_longer(
    later: str, run: bool, tmp_path: Path
) -> None:
    (earlier,) = groups(config("measure.processes=1"))
    write(earlier, tmp_path, ["ok"], facts={"status": "not measured, timeout in the pass for accuracy: late"})
    (group,) = groups(config("measure.processes=1", f"measure.deadline_seconds={later}"))
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert [group.state(retry)[0] for retry in ("failed", "none")] == [run, False]


REFUSALS = [
    ("not_installed", "not_installed", "none", True),
    ("not_installed", None, "none", False),
    ("not_installed", "unsupported", "none", False),
    ("not_installed", None, "rcm", False),
    ("unsupported", "unsupported", "none", True),
    ("unsupported", None, "none", False),
    ("unsupported", None, "rcm", True),  # as the graph may refuse the order, which only its preparation tells
]


@pytest.mark.parametrize(
    ("status", "today", "order", "counts"), REFUSALS, ids=lambda value: str(value).replace("None", "to be measured")
)
def test_a_cell_refused_before_its_start_is_finished_while_it_is_refused(
    status: str, today: str | None, order: str, counts: bool, tmp_path: Path
) -> None:
    (group,) = groups(config(f"order={order}"))
    write(group, tmp_path, [status], log_tail=None)
    group.cells[0].status = today
    assert (find_group_records(group, tmp_path, MACHINE) != [None]) is counts


@pytest.mark.parametrize(("library", "counts"), [(None, True), ("libjemalloc.so.2", False)], ids=["absent", "present"])
def test_a_cell_without_its_allocator_is_finished_until_that_is_installed(
    library: str | None, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (group,) = groups(config("launcher.allocator=jemalloc"))
    write(group, tmp_path, ["not_installed"], log_tail=None)
    monkeypatch.setattr(allocators, "_library", lambda name: library)
    assert (find_group_records(group, tmp_path, MACHINE) != [None]) is counts


def test_a_cell_that_its_own_process_refused_is_finished_while_the_code_is_the_same(tmp_path: Path) -> None:
    (group,) = groups(config())
    write(group, tmp_path, ["unsupported"], modules={"backends.batches": str(ROOT / "backends" / "batches.py")})
    write(group, tmp_path / "logged", ["not_installed"])
    assert find_group_records(group, tmp_path, MACHINE) != [None]
    assert find_group_records(group, tmp_path / "logged", MACHINE) != [None]


def test_code_edited_since_the_last_look_makes_records_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "checkout" / "backends" / "batches.py"
    module.parent.mkdir(parents=True)
    module.write_text("SPEED = 1")
    os.utime(module, (0, 0))
    monkeypatch.setattr(sources, "ROOT", tmp_path / "checkout")
    (group,) = groups(config())
    write(group, tmp_path, ["ok"], modules={"backends.batches": str(module)})
    plan = Plan(config(f"results={tmp_path}"), [group], MACHINE)
    try:
        plan.find_records()
        assert plan.open_groups() == []
        module.write_text("SPEED = 2")
        plan.find_records()
        assert plan.open_groups() == [group]
    finally:
        sources.forget_digests()


def test_records_of_another_group_do_not_finish_this_one(tmp_path: Path) -> None:
    (alone,) = groups(config())
    write(alone, tmp_path, ["ok"])
    (together,) = groups(config(), config("backend.seconds=0.02"))
    assert find_group_records(together, tmp_path, MACHINE) == [None, None]
    assert find_group_records(alone, tmp_path, MACHINE) != [None]


def test_records_of_other_data_do_not_finish_a_group(tmp_path: Path, cache_folder: Path) -> None:
    from datasets.prepare import prepare_graph

    (group,) = groups(config())
    cell = group.cells[0]
    prepare_graph(cell.config.dataset, cell.config.order, cache_folder)
    name = write_environment(tmp_path, with_sources({"checked": {}}, {}))
    path = record_path(cell.config, cell.hash, MACHINE, group.id).replace("{environment}", name)
    write_record(tmp_path, path, record_of(cell, "ok", name, group.id))
    assert find_group_records(group, tmp_path, MACHINE) == [None]


@pytest.mark.parametrize("missing", [None, "it is on another machine"], ids=["installed", "not installed here"])
def test_a_file_of_parameters_is_written_by_one_cell(missing: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_class("dummy"), "missing", lambda config, full_batch: missing)
    both = [[*DUMMY, f"seed={seed}"] for seed in (0, 1)]
    shared = [Composition(compose_one([*one, "scenario.save_state=best.npz"])) for one in both]
    with pytest.raises(UsageError, match=r"best\.npz would be written by 2 cells"):
        make_plan(shared, same_environment)
    own = [Composition(compose_one([*one, "scenario.save_state=best.${seed}.npz"])) for one in both]
    cells = [cell for group in make_plan(own, same_environment).groups for cell in group.cells]
    assert [cell.config.scenario.saved_state for cell in cells] == ["best.0.npz", "best.1.npz"]


def test_other_parameters_at_the_same_path_are_not_finished(tmp_path: Path) -> None:
    state = tmp_path / "best.npz"
    state.write_bytes(b"trained once")
    (group,) = groups(config("scenario=infer", f"scenario.state={state}"))
    write(group, tmp_path, ["ok"])
    state.write_bytes(b"trained once more")
    (again,) = groups(config("scenario=infer", f"scenario.state={state}"))
    again.records = find_group_records(again, tmp_path, MACHINE)
    assert again.state("failed")[0]
    state.write_bytes(b"trained once")
    assert groups(config("scenario=infer", f"scenario.state={state}"))[0].id == group.id


def test_a_sweep_has_one_results_folder() -> None:
    compositions = [Composition(compose_one([*DUMMY, f"results={name}"])) for name in "ab"]
    with pytest.raises(UsageError, match="results is a, b within one sweep"):
        configurations(compositions)


def test_a_plan_asks_for_open_groups_only(tmp_path: Path) -> None:
    first, second = groups(config(), config("seed=1"))
    write(first, tmp_path, ["ok"])
    plan = Plan(config(f"results={tmp_path}"), [first, second], MACHINE)
    plan.find_records()
    assert plan.open_groups() == [second]


def test_the_newest_of_several_records_of_a_cell_counts(tmp_path: Path) -> None:
    (group,) = groups(config())
    (cell,) = group.cells
    for number, date, status in ((1, "2026-02-01", "ok"), (2, "2026-03-01", "oom"), (3, "2026-01-01", "ok")):
        name = write_environment(tmp_path, with_sources({"checked": {}, "machine": {"number": number}}, {}))
        path = record_path(cell.config, cell.hash, MACHINE, group.id).replace("{environment}", name)
        write_record(tmp_path, path, record_of(cell, status, name, group.id) | {"written": f"{date}T12:00:00Z"})
    (newest,) = find_group_records(group, tmp_path, MACHINE)
    assert newest is not None and newest[1]["status"] == "oom"


def test_records_of_two_runs_do_not_finish_a_group_together(tmp_path: Path) -> None:
    (group,) = groups(config(), config("backend.seconds=0.02"))
    write(group, tmp_path, ["ok", None], run="1")
    write(group, tmp_path, [None, "ok"], run="2")
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert sum(path_and_record is not None for path_and_record in group.records) == 1 and group.state("none")[0]
    write(group, tmp_path, ["ok", "ok"], run="3")
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert not group.state("none")[0]


def test_a_run_of_all_cells_wins_over_a_newer_one_that_was_cut_off(tmp_path: Path) -> None:
    (group,) = groups(config(), config("backend.seconds=0.02"))
    write(group, tmp_path, ["ok", "ok"], run="1")
    write(group, tmp_path, ["oom", None], run="2", modules={"backends.batches": str(ROOT / "backends" / "batches.py")})
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert [entry and entry[1]["status"] for entry in group.records] == ["ok", "ok"]


def test_the_superseded_records_of_a_whole_run_finish_a_group_until_a_later_run_is_whole(tmp_path: Path) -> None:
    (group,) = groups(config(), config("backend.seconds=0.02"))
    first, second = "1" * 12, "2" * 12
    write(group, tmp_path, ["ok", "ok"], run=first)
    for statuses, whole in ((["ok", None], first), ([None, "ok"], second)):
        for (path, _), status in zip(find_group_records_of(group, tmp_path), statuses, strict=True):
            if status:
                set_aside(path, second)
        write(group, tmp_path, statuses, run=second)
        assert {record["run"] for _, record in find_group_records_of(group, tmp_path)} == {whole}


@pytest.mark.parametrize(
    ("written", "exists", "run"),
    [("best.npz", True, False), ("best.npz", False, True), ("other.npz", True, True), (None, True, True)],
    ids=["its-own", "gone", "of-another-path", "of-another-run"],
)
def test_a_file_of_parameters_counts_where_the_cell_wrote_it(
    written: str | None, exists: bool, run: bool, tmp_path: Path
) -> None:
    saved = [] if written is None else [f"scenario.save_state={tmp_path / written}"]
    (earlier,) = groups(config("measure.processes=1", *saved))
    write(earlier, tmp_path, ["ok"])
    if exists:
        (tmp_path / "best.npz").touch()
    (group,) = groups(config("measure.processes=1", f"scenario.save_state={tmp_path / 'best.npz'}"))
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert [group.state(retry)[0] for retry in ("failed", "none")] == [run, False]


def test_after_the_clock_went_back_the_newer_run_counts(tmp_path: Path) -> None:
    (group,) = groups(config(), config("backend.seconds=0.02"))
    first, second = "1" * 12, "2" * 12
    write(group, tmp_path, ["ok", "ok"], run=first, written="2026-03-01T12:00:00Z")
    for path, _ in find_group_records_of(group, tmp_path):
        set_aside(path, second)
    write(group, tmp_path, ["ok", "ok"], run=second, written="2026-02-01T12:00:00Z")
    assert {record["run"] for _, record in find_group_records_of(group, tmp_path)} == {second}


def find_group_records_of(group: Group, results: Path) -> list[StoredRecord]:
    """The records of a group of which each cell has one."""
    stored = [entry for entry in find_group_records(group, results, MACHINE) if entry is not None]
    assert len(stored) == len(group.cells)
    return stored


@pytest.mark.parametrize("damage", ["cut", "digit", "folder", "environment"])
def test_a_damaged_record_does_not_finish_a_group(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (group,) = groups(config())
    write(group, tmp_path, ["ok"])
    plan = Plan(config(f"results={tmp_path}"), [group], MACHINE)
    plan.find_records()
    assert plan.open_groups() == [] and capsys.readouterr().err == ""
    ((path, _),) = group.stored()
    if damage == "environment":
        path = next((tmp_path / "environments").iterdir())
    text = path.read_text()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    else:
        path.write_text(text[:300] if damage == "cut" else text.replace("0", "1", 1))
    plan.find_records()
    plan.find_records()
    assert plan.open_groups() == [group]
    assert capsys.readouterr().err.count(path.name) == (0 if damage == "environment" else 1)


def test_a_record_of_other_code_does_not_finish_a_group(tmp_path: Path) -> None:
    (group,) = groups(config())
    write(group, tmp_path, ["ok"], modules={"backends.batches": str(ROOT / "backends" / "batches.py")})
    assert find_group_records(group, tmp_path, MACHINE) != [None]
    write(group, tmp_path / "other", ["ok"], modules={"backends.batches": str(ROOT / "backends" / "model.py")})
    assert find_group_records(group, tmp_path / "other", MACHINE) == [None]


def test_a_record_whose_code_was_not_noted_does_not_finish_a_group(tmp_path: Path) -> None:
    (group,) = groups(config())
    write(group, tmp_path, ["ok"])
    for path in (tmp_path / "environments").iterdir():
        path.write_text('{"checked": {}, "machine": {}}')
    assert find_group_records(group, tmp_path, MACHINE) == [None]
