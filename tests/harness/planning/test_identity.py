"""Identity: the keys that change a cell's hash, and ablations as cells."""

import json
import random
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.hashes import digest
from harness.planning.cells import resolve_cell
from harness.planning.compose import compose_one
from harness.planning.config import load
from harness.planning.identity import config_diff, execution_config, record_path
from harness.planning.schema import RunConfig, from_dict
from harness.store.naming import flatten
from harness.usage import UsageError

CONFIG = load(compose_one(["dataset=cora", "model=gat", "backend=agl"]))
LABELS = ("seed", "results", "dry_run", "wait", "retry", "suite", "tier", "tracker.", "ablations")
ELSEWHERE = (
    "launcher.python",
    "launcher.memory_limit_gib",
    "measure.deadline_seconds",
    "measure.group_seconds",
    "scenario.save_state",
)
KEYS = sorted(flatten(asdict(CONFIG)))


# Another allowed value of a choice, with the keys that must change with it.
OTHERS: dict[str, dict[str, Any]] = {
    "backend.features": {"features": "shared"},
    "backend.infer": {"infer": "fullgraph"},
    "backend.run_on": {"run_on": "ray"},
    "backend.scope": {"scope": "target"},
    "backend.sink": {"sink": "none"},
    "backend.page_cache": {"page_cache": "cold", "source": "graphfeature"},
    "backend.strategy": {"strategy": "sync", "workers": 2},
    "backend.unpartitioned": {"unpartitioned": "scattered"},
    "backend.workers": {"strategy": "sync", "workers": 2},
    "scenario.balance": {"balance": ["nodes", "edges"]},
}


def changed(key: str) -> RunConfig:
    """The configuration with another value at one dotted key."""
    values = asdict(CONFIG)
    *path, last = key.split(".")
    section: Any = values
    for part in path:
        section = section[part]
    section.update(OTHERS.get(key) or {last: _other(section[last])})
    values["backend"]["name"] = "agl"
    return from_dict(RunConfig, values)


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return {"tight": "paper", "auto": "true"}.get(value, f"{value}x")
    return {"other": True} if isinstance(value, dict) else ["other"]


@pytest.mark.parametrize("key", [key for key in KEYS if key not in ("backend.name", "backend.source")])
def test_a_key_moves_the_hash_unless_it_labels_or_places_the_run(key: str) -> None:
    moves = digest(execution_config(changed(key))) != digest(execution_config(CONFIG))
    assert moves != (key.startswith(LABELS) or key in ELSEWHERE)


@given(st.randoms(use_true_random=False))
def test_the_hash_does_not_depend_on_the_order_of_keys(shuffler: random.Random) -> None:
    def shuffled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        items = list(value.items())
        shuffler.shuffle(items)
        return {key: shuffled(nested) for key, nested in items}

    values = execution_config(CONFIG)
    assert digest(shuffled(values)) == digest(values)
    assert digest(json.loads(json.dumps(values))) == digest(values)


def test_the_path_is_machine_data_model_backend_scenario_hash_and_seed() -> None:
    path = record_path(replace(CONFIG, seed=7), "0123456789ab", "box", "ba9876543210")
    assert path == "box/cora/gat/agl/train/0123456789ab/seed=7.{environment}.ba9876543210.json"


def ablated(*names: str, **switches: str) -> RunConfig:
    """The configuration with ablations and explicit switches."""
    return replace(CONFIG, ablations=dict.fromkeys(names, True), backend=replace(CONFIG.backend, **switches))


def test_an_ablation_turns_off_all_other_switches_and_lists_them() -> None:
    cell = resolve_cell(ablated("pruning"))
    expected = {f"backend.{name}": ["true", "false"] for name in ("partition", "pipeline", "sparse")}
    assert cell.config_diff == expected
    assert cell.hash != resolve_cell(CONFIG).hash


def test_naming_every_switch_equals_naming_none() -> None:
    every, none = resolve_cell(ablated("pruning", "partition", "pipeline", "sparse")), resolve_cell(CONFIG)
    assert every.hash == none.hash and every.config_diff == {} and every.labels != none.labels


def test_naming_none_changes_nothing() -> None:
    cell = resolve_cell(CONFIG)
    assert cell.config_diff == {} == config_diff(cell.config, cell.config) and cell.status is None


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (ablated("base", "pruning"), "'base' stands alone"),
        (ablated("pruning", pruning="false"), "backend.pruning=false overrules it"),
        (
            ablated("pruning", partition="true", pipeline="true", sparse="true"),
            "changes nothing beside backend.partition=true",
        ),
    ],
)
def test_contradictions_are_errors(config: RunConfig, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        resolve_cell(config)


def test_an_ablation_the_engine_lacks_is_unsupported_and_no_plain_cell() -> None:
    peer = load(compose_one(["dataset=cora", "model=gat", "backend=reference"]))
    cell, plain = resolve_cell(replace(peer, ablations={"pruning": True})), resolve_cell(peer)
    assert cell.status == "unsupported" and "'pruning'" in cell.message and cell.hash != plain.hash


def test_an_unsupported_cell_is_known_before_anything_starts() -> None:
    config = load(compose_one(["dataset=uug", "model=gcn", "backend=reference"]))
    cell = resolve_cell(config)
    assert cell.status == "unsupported" and "training.batch_size=null" in cell.message
    assert resolve_cell(replace(CONFIG, device="cuda")).status == "unsupported"


def test_an_option_that_came_later_keeps_the_hash_where_nothing_changed() -> None:
    agl = execution_config(load(compose_one(["backend=agl"])))
    assert "resample" not in agl["backend"]
    anew = execution_config(load(compose_one(["backend=agl", "backend.resample=true"])))
    assert digest(anew) != digest(agl) and anew["backend"]["resample"] is True


def test_what_the_packages_of_this_interpreter_refuse_another_one_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.pyg.config.find_spec", lambda name: None)  # neither of PyG's samplers is here
    monkeypatch.setattr("harness.planning.cells.missing_package", lambda config: None)
    loaders = ["dataset=uug", "model=sage", "backend=pyg", "backend.workers=1"]
    here = resolve_cell(load(compose_one(loaders)))
    assert here.status == "unsupported" and "where khop makes the batches" in here.message and here.may_run_elsewhere
    there = resolve_cell(load(compose_one([*loaders, "launcher.python=/other/python"])))
    assert there.status is None and not there.may_run_elsewhere
    never = resolve_cell(load(compose_one(["dataset=uug", "model=gcn", "backend=reference"])))
    assert never.status == "unsupported" and not never.may_run_elsewhere
