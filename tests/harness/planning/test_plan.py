"""The plan: which cells stand in one group, which groups are finished, what a suite means."""

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from harness.measure.sources import with_sources
from harness.planning.compose import Composition, compose_arguments, compose_one
from harness.planning.config import load
from harness.planning.identity import record_path
from harness.planning.plan import Group, Plan, PlannedRun, configurations, find_group_records, form_groups, group_key
from harness.planning.schema import RunConfig
from harness.planning.suite import Suite, expand, key_of, read_suite
from harness.store.files import write_environment, write_record
from harness.usage import UsageError

MACHINE = "box"
ROOT = Path(__file__).resolve().parents[3]
DUMMY = ["backend=dummy", "dataset.options.nodes=500"]


def here(config: dict[str, Any]) -> dict[str, Any]:
    """An environment that never changes."""
    return {"threads": config["threads"]}


def config(*overrides: str) -> RunConfig:
    return load(compose_one([*DUMMY, *overrides]))


def groups(*configs: RunConfig, environment: Any = here, suite: Suite | None = None) -> list[Group]:
    return form_groups([PlannedRun(item, [], suite) for item in configs], environment)


def write(
    group: Group, results: Path, statuses: Sequence[str | None], run: str = "1", modules: dict[str, str] | None = None
) -> None:
    """Write records of a group as the executor would, ``None`` leaves a cell out; ``modules`` are what it loaded."""
    modules = modules or {}
    for cell, status in zip(group.cells, statuses, strict=True):
        if status is None:
            continue
        name = write_environment(results, with_sources({"checked": here(asdict(cell.config))}, modules))
        path = record_path(cell.config, cell.hash, MACHINE, group.id).replace("{environment}", name)
        record = {"status": status, "config": asdict(cell.config), "environment": name, "group": group.id, "run": run}
        write_record(results, path, record if status == "ok" else record | {"message": "said so"})


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
    held = groups(*configs, suite=suite)
    assert [len(group.cells) for group in held] == [3, 1]
    assert "order" not in held[0].key and held[0].key["model"] == "gat"
    assert group_key(configs[0], ["order"]) == group_key(configs[1], ["order"])


def test_equal_cells_collapse_into_one_with_both_labels() -> None:
    agl = load(compose_one(["backend=agl", "dataset=cora"]))
    every = replace(agl, ablations={"pruning": True, "partition": True, "pipeline": True})
    (group,) = groups(agl, every)
    assert [cell.labels for cell in group.cells] == [[[], ["partition", "pipeline", "pruning"]]]


def test_a_groups_id_follows_its_cells_and_its_environment_but_not_their_order() -> None:
    one, two = config(), config("backend.seconds=0.02")
    (there,), (back,) = groups(one, two), groups(two, one)
    assert there.id == back.id
    assert groups(one)[0].id != there.id
    assert groups(one, two, environment=lambda held: {"torch": "another"})[0].id != there.id
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
def test_what_runs_again(
    statuses: tuple[str | None, ...], failed: bool, every: bool, none: bool, tmp_path: Path
) -> None:
    (group,) = groups(config(), config("backend.seconds=0.02"))
    write(group, tmp_path, statuses)
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert [group.state(retry)[0] for retry in ("failed", "all", "none")] == [failed, every, none]


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
    record = {"status": "ok", "config": asdict(cell.config), "environment": name, "group": group.id}
    write_record(tmp_path, path, record | {"dataset": {"sha256": "ab" * 32}})
    assert find_group_records(group, tmp_path, MACHINE) == [None]


def test_a_sweep_has_one_results_folder() -> None:
    jobs = [Composition(compose_one([*DUMMY, f"results={name}"])) for name in "ab"]
    with pytest.raises(UsageError, match="results is a, b within one sweep"):
        configurations(jobs)


def test_what_the_command_line_says_wins_over_an_axis_of_a_suite() -> None:
    (job,) = compose_arguments(["+suite=cora_accuracy", "backend=agl", "threads=1", "tier=quick"])
    held = [load(inner.values) for inner, _ in expand(job)]
    assert {item.backend.name for item in held} == {"agl"} and {item.threads for item in held} == {1}
    assert {(item.model.name, item.seed) for item in held} == {(m, s) for m in ("gcn", "gat") for s in range(3)}
    assert {item.suite for item in held} == {"cora_accuracy"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([], [("agl", 1), ("dgl", 2), ("pyg", 2)]),
        (["backend=agl"], [("agl", 1)]),
        (["backend=pyg"], [("pyg", 2)]),
        (["backend=reference"], [("reference", 1), ("reference", 2)]),  # nobody lists it: it stands in for all
        (["seed=2"], [("dgl", 2), ("pyg", 2)]),
        (["threads=1"], [("agl", 1), ("dgl", 2), ("pyg", 2)]),
    ],
)
def test_a_value_of_the_command_line_drops_the_products_that_list_others(
    given: list[str], kept: list[tuple[str, int]]
) -> None:
    tier = [{"backend": ["agl"], "seed": [1]}, {"backend": ["dgl", "pyg"], "seed": [2]}]
    values = compose_one(["dataset=cora", *given]) | {"suite": {"name": "x", "title": "X", "tiers": {"quick": tier}}}
    held = [inner.values for inner, _ in expand(Composition(values, ["dataset=cora", "+suite=x", *given]))]
    assert [(item["backend"]["name"], item["seed"]) for item in held] == kept


@pytest.mark.parametrize("name", ["agl", "dgl", "pyg"])
def test_a_suite_of_one_engine_meets_no_axis_of_another(name: str) -> None:
    (job,) = compose_arguments(
        ["+suite=agl_efficiency", f"backend={name}", "tier=quick", "model=sage", "model.layers=2"]
    )
    assert {load(inner.values).backend.name for inner, _ in expand(job)} == {name}


def test_a_suite_keeps_the_overrides_of_each_cell() -> None:
    (job,) = compose_arguments(["+suite=cora_accuracy", "backend=agl", "model=gcn", "seed=3"])
    ((inner, _),) = list(expand(job))
    assert {"backend=agl", "dataset=cora", "model=gcn", "seed=3"} <= set(inner.overrides)
    assert compose_one(inner.overrides) | {"suite": "cora_accuracy"} == inner.values


def test_a_product_is_expanded_once_and_null_leaves_an_axis_out() -> None:
    tiers = {"quick": [{"+ablation": [None, "pruning", ["pruning", "pipeline"]], "seed": [0, 1]}, {"seed": [1]}]}
    values = compose_one(["dataset=cora"]) | {"suite": {"name": "x", "title": "X", "tiers": tiers}}
    held = [inner.values for inner, _ in expand(Composition(values, ["dataset=cora", "+suite=x"]))]
    labels = [sorted(item["ablations"]) for item in held if item["seed"] == 1]
    assert labels == [[], ["pruning"], ["pipeline", "pruning"]] and len(held) == 6


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("cora", "write \\+suite=NAME"),
        ({"name": "x", "title": "X"}, "lacks tiers"),
        ({"name": "x", "title": "X", "tiers": {}, "tirs": 1}, "did you mean 'tiers'"),
    ],
)
def test_a_suite_that_is_none_is_refused(content: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_suite(content)


def test_an_empty_tier_is_named() -> None:
    values = compose_one([]) | {"suite": {"name": "x", "title": "X", "tiers": {"full": []}}}
    with pytest.raises(UsageError, match="tier of suite x 'quick' is unknown: allowed are full"):
        list(expand(Composition(values)))
    with pytest.raises(UsageError, match="nothing to run"):
        configurations([Composition(values | {"tier": "full"})])


def test_override_keys_are_read_without_their_marks() -> None:
    assert [key_of(text) for text in ("+ablation=a", "~seed", "++a.b=1", "model@x=gcn")] == [
        "ablation",
        "seed",
        "a.b",
        "model",
    ]


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
        name = write_environment(tmp_path, with_sources({"checked": {}, "machine": number}, {}))
        path = tmp_path / record_path(cell.config, cell.hash, MACHINE, group.id).replace("{environment}", name)
        record = {"status": status, "config": asdict(cell.config), "environment": name, "group": group.id}
        write_record(tmp_path, path, record | {"message": "said so"})
        path.write_text(re.sub(r'"written": "[^"]*"', f'"written": "{date}T12:00:00Z"', path.read_text()))
    (found,) = find_group_records(group, tmp_path, MACHINE)
    assert found is not None and found[1]["status"] == "oom"


def test_records_of_two_runs_do_not_finish_a_group_together(tmp_path: Path) -> None:
    (group,) = groups(config(), config("backend.seconds=0.02"))
    write(group, tmp_path, ["ok", None], run="1")
    write(group, tmp_path, [None, "ok"], run="2")
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert sum(found is not None for found in group.records) == 1 and group.state("none")[0]
    write(group, tmp_path, ["ok", "ok"], run="3")
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert not group.state("none")[0]


def test_a_run_of_all_cells_wins_over_a_newer_one_that_was_cut_off(tmp_path: Path) -> None:
    (group,) = groups(config(), config("backend.seconds=0.02"))
    write(group, tmp_path, ["ok", "ok"], run="1")
    write(group, tmp_path, ["oom", None], run="2", modules={"backends.batches": str(ROOT / "backends" / "batches.py")})
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert [found and found[1]["status"] for found in group.records] == ["ok", "ok"]


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
