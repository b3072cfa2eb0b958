"""Strict loading: unknown, wrong and contradictory values are refused with one sentence that says what to do."""

import functools
import math
from copy import deepcopy
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.registry import config_class
from backends.settings import settings_in
from harness.planning.compose import compose_one
from harness.planning.config import load
from harness.planning.schema import RunConfig, from_dict
from harness.store.naming import flatten
from harness.usage import UsageError


@functools.cache
def _composed() -> dict[str, Any]:
    return compose_one(["dataset=cora", "model=gcn"])


def values(**changes: Any) -> dict[str, Any]:
    """The composed values of one cell, changed at dotted keys (``__`` for a dot)."""
    composed = deepcopy(_composed())
    for key, value in changes.items():
        *path, last = key.split("__")
        functools.reduce(lambda inner, part: inner[part], path, composed)[last] = value
    return composed


def test_composed_values_load_and_survive_a_round_trip() -> None:
    config = load(values())
    assert config.model.name == "gcn" and type(config.backend) is config_class("agl")
    assert load(asdict(config)) == config == from_dict(RunConfig, asdict(config))


SECTIONS = st.sampled_from(["", "dataset", "order", "model", "training", "backend", "scenario", "measure", "launcher"])
WORDS = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=12)


@given(SECTIONS, WORDS)
def test_an_unknown_key_is_refused_by_name(section: str, word: str) -> None:
    composed = values()
    section_values = composed[section] if section else composed
    if word in section_values:
        return
    section_values[word] = True
    with pytest.raises(UsageError) as error:
        load(composed)
    assert repr(f"{section}.{word}".strip(".")) in str(error.value)
    assert "allowed are" in str(error.value)


def test_the_nearest_key_is_named() -> None:
    composed = values()
    composed["backend"]["prunning"] = True
    with pytest.raises(UsageError, match=r"did you mean 'backend.pruning'"):
        load(composed)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("backend__name", "agll", ("agll", "agl", "did you mean")),
        ("backend__pruning", "maybe", ("maybe", "auto")),
        ("retry", "fail", ("retry=fail", "failed, all, none", "did you mean 'failed'")),
        ("tier", "ful", ("tier=ful", "quick, full")),
        ("device", "gpu", ("device=gpu", "cuda")),
        ("device", "cuda:x", ("cuda:x", "cuda:<number>")),
        ("device", "cpu:0", ("cpu:0", "cuda:<number>")),
        ("device", "cuda:", ("cuda:", "cuda:<number>")),
        ("device", "cuda:²", ("cuda:²", "cuda:<number>")),
        ("dataset__name", "corra", ("corra", "did you mean 'cora'")),
        ("order__name", "rmc", ("rmc", "did you mean 'rcm'")),
        ("training__optimizer", "adan", ("adan", "adam, sgd")),
        ("training__decay_on", "last", ("last", "all, first")),
        ("training__dtype", "fp16", ("fp16", "float32, float64, tf32, bf16")),
        ("model__head", "mlp", ("mlp", "none, linear")),
        ("measure__cache", "perf", ("perf", "simulate, none")),
        ("launcher__allocator", "mimalloc", ("mimalloc", "tuned, huge, stock, tcmalloc, jemalloc")),
        ("launcher__name", "slurm", ("slurm", "process, inline")),
        ("tracker__name", "mlflow", ("mlflow", "none, wandb")),
        ("tracker__mode", "on", ("tracker.mode=on", "offline, online")),
        ("model__fanouts", [5], ("1 entries for 2 layers", "one per layer")),
        ("model__fanouts", [5, -1], ("model.fanouts=[5,-1] is not allowed", "or [] for all neighbours")),
        ("model__fanouts", [0, 5], ("model.fanouts=[0,5] is not allowed", "numbers from 1")),
        ("seed", 2**64, ("seed=18446744073709551616 is not allowed", "less than 64 bits")),
        ("training__dropout", 1.0, ("below 1",)),
        ("training__attention_dropout", 1.5, ("below 1",)),
        ("training__batch_limit", 8, ("needs training.batch_size",)),
        ("measure__max_samples", 4, ("measure.max_samples=4", "measure.min_samples=5")),
        ("scenario__state", "no/best.npz", ("scenario.state=no/best.npz", "No such file", "trained parameters")),
    ],
)
def test_a_wrong_value_is_refused_with_the_allowed_values(key: str, value: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as error:
        load(values(**{key: value}))
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scenario__name": "infer", "scenario__target": 0.5}, "scenario.target=0.5 is of scenario train, infer"),
        ({"scenario__name": "infer", "scenario__save_state": "best.npz"}, "scenario.save_state=best.npz is of"),
        ({"scenario__name": "spmm", "scenario__state": "best.npz"}, "is of scenario train and infer, spmm ignores it"),
        ({"scenario__save_state": "best.npz", "scenario__train_to_end": False}, "train_to_end=false leaves out"),
        ({"scenario__parts": 16}, "scenario.parts=16 is of scenario partition and dispatch, train ignores it"),
        ({"order__options": {"cluster": 100}}, "are of no order: give order=NAME"),
    ],
    ids=["target", "save_state", "state", "no-pass-for-accuracy", "parts", "order"],
)
def test_what_a_scenario_would_ignore_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        load(values(**changes))
    assert words in str(error.value) and "leave" in str(error.value)


def test_an_ablation_that_no_engine_has_is_refused() -> None:
    with pytest.raises(UsageError, match=r"ablation 'prunning' is unknown: allowed are .*pruning"):
        load(values(ablations={"prunning": True}))


LEAST = {key: known.least for key, known, _ in settings_in(RunConfig()) if known.least is not None}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("launcher__memory_limit_gib", -1.0, "launcher.memory_limit_gib=-1.0 is too small"),
        ("launcher__memory_limit_gib", 0.0, "launcher.memory_limit_gib=0 is not allowed: give GiB above 0"),
        ("measure__max_samples", 2**63, "measure.max_samples is 9223372036854775808: allowed is int <= "),
        ("measure__cache_accesses", 2**64, "measure.cache_accesses is 18446744073709551616: allowed is "),
        ("dataset__options", {"scale": [1.0, 1e40]}, "dataset.options.scale[1] is 1e+40: allowed is a number up to"),
    ],
    ids=["memory", "no-memory", "samples", "accesses", "options"],
)
def test_a_value_that_no_record_holds_is_refused_before_anything_is_measured(key: str, value: Any, words: str) -> None:
    with pytest.raises(UsageError) as error:
        load(values(**{key: value}))
    assert words in str(error.value)


def test_minima_are_those_of_the_schema() -> None:
    assert len(LEAST) == 27 and LEAST["model.heads"] == LEAST["threads"] == 1 and LEAST["training.dropout"] == 0


@pytest.mark.parametrize("value", [math.inf, math.nan, 1e12])
def test_a_number_that_no_record_holds_is_refused(value: float) -> None:
    with pytest.raises(UsageError, match=r"measure\.max_seconds=.* give a number of at most 1e\+09"):
        load(values(measure__max_seconds=value))


@pytest.mark.parametrize("key", LEAST)
def test_a_number_that_is_too_small_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match=f"{key}=.* too small: give at least {LEAST[key]:g}"):
        load(values(**{key.replace(".", "__"): LEAST[key] - 1}))


def test_a_choice_that_is_null_is_refused() -> None:
    with pytest.raises(UsageError, match=r"training\.dtype=None is not allowed: choose float32"):
        load(values(training__dtype=None))


def test_switches_may_be_written_as_yaml_or_python_writes_them() -> None:
    for switch in (True, "true", "True"):
        assert load(values(backend__pruning=switch)).backend.pruning == "true"  # type: ignore[attr-defined]


def test_every_leaf_of_the_schema_is_composed() -> None:
    assert set(flatten(asdict(RunConfig()))) - {"backend.name"} <= set(flatten(values())) | {"dataset.options"}
