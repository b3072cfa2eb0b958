"""The command printed beside a row composes to its cell."""

import shlex
from dataclasses import asdict
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.ablation import resolve
from harness.planning.compose import CONF, compose_arguments
from harness.planning.config import load
from harness.planning.identity import execution_config
from harness.report import commandline
from harness.usage import UsageError
from tests import factory

COMMANDS = [
    ["backend=agl", "dataset=cora", "model=gat"],
    ["backend=agl", "dataset=cora", "model=gat", "+ablation=pruning", "training.dropout=0.0", "threads=1"],
    ["backend=agl", "dataset=uug", "model=gcn", "+ablation=[pruning,partition]", "measure=short"],
    ["backend=agl", "dataset=uug", "model=sage", "backend.pruning=false", "dataset.options.nodes=5000"],
    ["backend=reference", "dataset=cora", "model=gcn", "scenario=infer", "launcher.allocator=stock"],
    ["backend=agl", "dataset=cora", "model=gat", "launcher=inline"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_the_printed_command_leads_back_to_the_same_cell(arguments: list[str]) -> None:
    config, names = _resolved([*arguments, "seed=3"])
    record: Any = {"config": asdict(config), "ablations": names}
    overrides = commandline.overrides(record)
    without_backend = [text for text in overrides if not text.startswith("backend=")]
    words = shlex.split(commandline.command([config.backend.name], without_backend, [3]))
    assert words[:3] == ["python", "-m", "harness"]
    again, same = _resolved(words[3:])
    assert execution_config(again) == execution_config(config)
    assert (same, again.seed) == (names, 3)
    assert len(overrides) <= len(arguments) + 2


GROUPS = ("dataset", "model", "backend", "scenario", "order", "launcher", "measure")
NAMES = {group: [path.stem for path in sorted((CONF / group).glob("*.yaml"))] for group in GROUPS}


@given(st.data())
@settings(max_examples=5, deadline=None)
def test_groups_compose_apart_to_what_they_compose_to_together(data: st.DataObject) -> None:
    choices = tuple(f"{group}={data.draw(st.sampled_from(names))}" for group, names in NAMES.items())
    assert commandline._composed(choices) == commandline._composed_together(choices)


def test_the_ablations_of_a_backend_compose_with_it() -> None:
    choices = ("dataset=uug", "model=sage", "backend=agl", "scenario=infer", "+ablation=[pruning,partition]")
    assert commandline._composed(choices) == commandline._composed_together(choices) != {}


def test_recipes_set_no_key_of_a_group_that_composes_apart() -> None:
    recipes = {path.stem: yaml.safe_load(path.read_text()) or {} for path in (CONF / "recipe").glob("*.yaml")}
    assert recipes and not {
        name: set(keys) & {*GROUPS[2:]} for name, keys in recipes.items() if {*keys} & {*GROUPS[2:]}
    }


def _resolved(arguments: list[str]) -> Any:
    config = load(compose_arguments(arguments)[0].values)
    names = sorted(name for name, on in config.ablations.items() if on)
    config.backend = resolve(config.backend, names)
    return config, names


def test_a_removed_choice_is_replaced_by_all_its_keys() -> None:
    record: Any = {"config": factory.config("agl", dataset={"name": "gone"}), "ablations": []}
    overrides = commandline.overrides(record)
    assert "dataset=gone" in overrides
    assert "++model.hidden=8" in overrides
    with pytest.raises(UsageError):
        compose_arguments(["dataset=gone"])


def test_an_option_that_no_longer_exists_is_left_out_of_the_command_and_named() -> None:
    config, names = _resolved(["backend=blocksparse", "dataset=cora", "model=gcn", "seed=3"])
    values = asdict(config)
    values["backend"]["replay_on"] = "machines"
    record: Any = {"config": values, "ablations": names}
    assert commandline.removed_options(record) == ["backend.replay_on=machines"]
    assert not any("replay_on" in text for text in commandline.overrides(record))


VALUES: list[Any] = [
    *("0.8,0.1,0.1", "weight > 0.5", "1234e5678901", "007", "1_000", "-1", "", " ", "cuda:0", "~x", "ä", "f(x)", "#1"),
    *("null", "True", "false", "NaN", "inf", "-inf", "nullable", "it's", 'a "b"', "a\\", 'a\\"'),
    *("${seed}", "\\${seed}", "a \\"),
    *("plain", "/data/a-b_c.npz", None, True, 3, 0.5, 1e-05, [], ["0.5", 0.5, "a,b", None, "null", ["true", True]]),
]


@pytest.mark.parametrize("seeds", [[3], [3, 4]], ids=["one cell", "sweep"])
def test_values_of_the_printed_command_come_back(seeds: list[int]) -> None:
    notes = [f"+dataset.options.note{place}={commandline.text(value)}" for place, value in enumerate(VALUES)]
    compositions = compose_arguments(shlex.split(commandline.command(["agl"], notes, seeds))[3:])
    assert len(compositions) == len(seeds)
    for composition in compositions:
        options = composition.values["dataset"]["options"]
        read = [options[f"note{place}"] for place in range(len(VALUES))]
        assert [(type(value), value) for value in read] == [(type(value), value) for value in VALUES]


def test_text_is_quoted_only_where_it_would_be_read_otherwise() -> None:
    texts = [commandline.text(value) for value in ("csr", "/tmp/a.npz", "0.8,0.1", "null", ["a", "1"])]
    assert texts == ["csr", "/tmp/a.npz", '"0.8,0.1"', '"null"', '[a,"1"]']
