"""Suites: expansion into compositions, overrides of the command line, refused definitions."""

from typing import Any

import pytest

from harness.planning.compose import Composition, compose_arguments, compose_one
from harness.planning.config import load
from harness.planning.plan import configurations
from harness.planning.suite import expand, key_of, read_suite
from harness.usage import UsageError


def test_an_override_replaces_the_axis_of_a_suite() -> None:
    (composition,) = compose_arguments(["+suite=cora_accuracy", "backend=agl", "threads=1", "tier=quick"])
    configs = [load(expanded.values) for expanded, _ in expand(composition)]
    assert {config.backend.name for config in configs} == {"agl"} and {config.threads for config in configs} == {1}
    assert {(config.model.name, config.seed) for config in configs} == {
        (m, s) for m in ("gcn", "gat") for s in range(3)
    }
    assert {config.suite for config in configs} == {"cora_accuracy"}


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], [("agl", 1), ("dgl", 2), ("pyg", 2)]),
        (["backend=agl"], [("agl", 1)]),
        (["backend=pyg"], [("pyg", 2)]),
        (["backend=reference"], [("reference", 1), ("reference", 2)]),  # nobody lists it: it stands in for all
        (["seed=2"], [("dgl", 2), ("pyg", 2)]),
        (["threads=1"], [("agl", 1), ("dgl", 2), ("pyg", 2)]),
    ],
)
def test_an_override_drops_the_products_that_list_other_values(
    overrides: list[str], expected: list[tuple[str, int]]
) -> None:
    tier = [{"backend": ["agl"], "seed": [1]}, {"backend": ["dgl", "pyg"], "seed": [2]}]
    values = compose_one(["dataset=cora", *overrides]) | {
        "suite": {"name": "x", "title": "X", "tiers": {"quick": tier}}
    }
    cells = [expanded.values for expanded, _ in expand(Composition(values, ["dataset=cora", "+suite=x", *overrides]))]
    assert [(cell["backend"]["name"], cell["seed"]) for cell in cells] == expected


@pytest.mark.parametrize("name", ["agl", "dgl", "pyg"])
def test_a_suite_of_one_engine_meets_no_axis_of_another(name: str) -> None:
    (composition,) = compose_arguments(
        ["+suite=agl_efficiency", f"backend={name}", "tier=quick", "model=sage", "model.layers=2"]
    )
    assert {load(expanded.values).backend.name for expanded, _ in expand(composition)} == {name}


@pytest.mark.parametrize("chosen", ["+suite=[cora_accuracy,ppi_epochs]", "+suite=cora_accuracy,ppi_epochs"])
def test_several_suites_are_refused_as_hydra_would_mix_them(chosen: str) -> None:
    values = compose_one([]) | {"suite": {"name": "x", "title": "X", "tiers": {"quick": []}}}
    with pytest.raises(UsageError, match="names several suites, which Hydra would mix: run one after the other"):
        list(expand(Composition(values, [chosen])))


def test_a_suite_keeps_the_overrides_of_each_cell() -> None:
    (composition,) = compose_arguments(["+suite=cora_accuracy", "backend=agl", "model=gcn", "seed=3"])
    ((expanded, _),) = list(expand(composition))
    assert {"backend=agl", "dataset=cora", "model=gcn", "seed=3"} <= set(expanded.overrides)
    assert compose_one(expanded.overrides) | {"suite": "cora_accuracy"} == expanded.values


def test_a_value_made_of_the_seed_is_that_of_each_seed() -> None:
    overrides = ["dataset=cora", "scenario.save_state='best.${seed}.npz'"]
    suite = {"name": "x", "title": "X", "tiers": {"quick": [{"seed": [0, 3]}]}}
    expanded = expand(Composition(compose_one(overrides) | {"suite": suite}, [*overrides, "+suite=x"]))
    states = [(one.values["seed"], one.values["scenario"]["save_state"]) for one, _ in expanded]
    assert states == [(0, "best.0.npz"), (3, "best.3.npz")]


def test_a_product_is_expanded_once_and_null_leaves_an_axis_out() -> None:
    tiers = {"quick": [{"+ablation": [None, "pruning", ["pruning", "pipeline"]], "seed": [0, 1]}, {"seed": [1]}]}
    values = compose_one(["dataset=cora"]) | {"suite": {"name": "x", "title": "X", "tiers": tiers}}
    cells = [expanded.values for expanded, _ in expand(Composition(values, ["dataset=cora", "+suite=x"]))]
    labels = [sorted(cell["ablations"]) for cell in cells if cell["seed"] == 1]
    assert labels == [[], ["pruning"], ["pipeline", "pruning"]] and len(cells) == 6


def test_null_is_a_value_of_a_key() -> None:
    tiers = {"quick": [{"training.batch_size": [None, 64]}]}
    values = compose_one(["dataset=uug"]) | {"suite": {"name": "x", "title": "X", "tiers": tiers}}
    cells = [expanded.values for expanded, _ in expand(Composition(values, ["dataset=uug", "+suite=x"]))]
    assert [cell["training"]["batch_size"] for cell in cells] == [None, 64]


def suite_of(tiers: Any, **others: Any) -> dict[str, Any]:
    return {"name": "x", "title": "X", "tiers": tiers, **others}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("cora", "write \\+suite=NAME"),
        ({"name": "x", "title": "X"}, "lacks tiers"),
        ({"name": "x", "title": "X", "tiers": {}, "tirs": 1}, "did you mean 'tiers'"),
        (suite_of(None), "tiers is None: allowed is an object"),
        (suite_of({"quick": None}), "tiers.quick is None: allowed is a list"),
        (suite_of({"quick": {"model": ["gat"]}}), "tiers.quick is an object of 1 keys: allowed is a list"),
        (suite_of({"quick": [{"seed": 0}]}), r"tiers.quick\[0\].seed is 0: allowed is a list"),
        (suite_of({"quick": [{"model": "gat"}]}), r"tiers.quick\[0\].model is 'gat': allowed is a list"),
        (suite_of({}, vary="backend.ranks"), "vary is 'backend.ranks': allowed is a list"),
    ],
    ids=["name", "lacks", "unknown", "no tiers", "no products", "product", "number", "text", "vary"],
)
def test_an_incomplete_or_mistyped_suite_is_refused(content: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_suite(content)


def test_an_empty_tier_is_named() -> None:
    values = compose_one([]) | {"suite": {"name": "x", "title": "X", "tiers": {"full": []}}}
    with pytest.raises(UsageError, match="tier of suite x 'quick' is unknown: allowed are full"):
        list(expand(Composition(values)))
    with pytest.raises(UsageError, match="nothing to run"):
        configurations([Composition(values | {"tier": "full"})])


def test_override_keys_are_read_without_their_prefixes() -> None:
    assert [key_of(text) for text in ("+ablation=a", "~seed", "++a.b=1", "model@x=gcn")] == [
        "ablation",
        "seed",
        "a.b",
        "model",
    ]
