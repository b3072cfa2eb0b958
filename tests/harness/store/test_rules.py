"""Rules of a valid record: every rule reports a record that breaks it."""

import copy
from typing import Any

import pytest

from harness.store import files, rules
from harness.store.record import REQUIRED
from harness.store.rules import NEEDED, problems
from tests import factory

BROKEN = {
    "epochs.seconds[0] is nan, not finite": ("epochs", "seconds", 0, float("nan")),
    "epochs.seconds[0] is 0.0: allowed is float > 0": ("epochs", "seconds", 0, 0.0),
    "epochs.seconds[1] is 'fast': allowed is float": ("epochs", "seconds", 1, "fast"),
    "prepare.parse is -1.0: allowed is float >= 0": ("prepare", "parse", -1.0),
    "metrics.test is 1.5: allowed is float <= 1": ("metrics", "test", 1.5),
    "epochs.cpu_seconds holds 7 values for 6": ("epochs", "cpu_seconds", [1.0] * 7),
    "rounds holds 1 values for 6": ("rounds", [1]),
    "epochs.first holds 0 values for 6": ("epochs", "first", []),
    "epochs.process names process 2: processes holds 1": ("epochs", "process", 5, 2),
    "epochs.loss holds 1 values for 6": ("epochs", "loss", [0.5]),
    "epochs.phases.forward holds 0 values": ("epochs", "phases", "forward", []),
    "processes[0].steal is 1.5: allowed is float <= 1": ("processes", 0, {"steal": 1.5}),
    "processes[0].mood is unknown": ("processes", 0, {"mood": 1}),
    "epochs.mood is unknown": ("epochs", "mood", 1),
    "written is 'yesterday': allowed is ISO 8601": ("written", "yesterday"),
    "in the future": ("written", "2999-01-01T00:00:00Z"),
    "time zone": ("written", "2026-01-01T00:00:00"),
    "log_tail is present although the status is ok": ("log_tail", "text"),
    "epochs.seconds holds 0 entries": ("epochs", "seconds", []),
    "status is 'fine': allowed is ok, oom": ("status", "fine"),
    "surprise is unknown: allowed are": ("surprise", 1),
    "no message": ("status", "oom"),
    "is present although": ("status", "error"),
    "environment is '../../etc'": ("environment", "../../etc"),
    "group is '../x'": ("group", "../x"),
    "schema_version is 7": ("schema_version", 7),
    "protocol is 99, this harness knows": ("protocol", 99),
    "config.seed is None: allowed is int": ("config", "seed", None),
    "config.backend is 'agl': allowed is an object": ("config", "backend", "agl"),
    "config.model.name is missing": ("config", "model", {"layers": 2}),
    "config.training.rate is a number of 1000 bits": ("config", "training", "rate", 1 << 999),
    "facts.spmm[0].nnz is True": ("facts", "spmm", [{"nnz": True, "rows": 1, "columns": 1, "width": 1}]),
    "validation[3] holds 2 entries: allowed is array of length >= 3": ("validation", 3, [1.0, 2.0]),
    "extrapolated is 0.5": ("extrapolated", 0.5),
    "dataset.sha256 is 'abc'": ("dataset", "sha256", "abc"),
    "dataset.notes is None: allowed is a list": ("dataset", "notes", None),
    "memory.peak is 'a lot'": ("memory", "peak", "a lot"),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return files.read_record(factory.write(tmp_path_factory.mktemp("results"), factory.record()))


@pytest.mark.parametrize("problem", BROKEN)
def test_every_rule_reports_a_record_that_breaks_it(good: Any, problem: str) -> None:
    assert not list(problems(good))
    bad = copy.deepcopy(good)
    *places, last, value = BROKEN[problem]
    parent = bad
    for key in places:
        parent = parent[key]
    parent[last] = value
    assert any(problem in sentence for sentence in problems(bad)), list(problems(bad))


@pytest.mark.parametrize("key", [*REQUIRED, *NEEDED])
def test_a_key_that_a_good_record_needs_is_missed(good: Any, key: str) -> None:
    assert any(f"{key} is missing" in problem for problem in problems({k: v for k, v in good.items() if k != key}))


@pytest.mark.parametrize("key", ["training", "measure", "device", "threads", "seed"])
def test_a_key_of_the_config_that_reports_need_is_missed(good: Any, key: str) -> None:
    config = {k if k != key else f"{k}s": value for k, value in good["config"].items()}
    assert any(f"config.{key} is missing" in problem for problem in problems(good | {"config": config}))


def test_all_problems_are_named_at_once(good: Any) -> None:
    bad = good | {"warmup": [1.0, -1.0, "a"], "surprise": 1, "ablations": None}
    named = " ".join(problems(bad))
    assert all(place in named for place in ("warmup[1]", "warmup[2]", "surprise", "ablations"))


def test_protocol_3_names_the_process_of_each_sample(good: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "PROTOCOL", 3)
    complete = good | {"protocol": 3}
    assert not list(problems(complete))
    epochs = {key: value for key, value in good["epochs"].items() if key not in ("process", "first")}
    bare = {key: value for key, value in complete.items() if key != "processes"} | {"epochs": epochs}
    assert sorted(problems(bare)) == ["epochs.first is missing", "epochs.process is missing", "processes is missing"]
    assert not list(problems(bare | {"protocol": 2}))


def test_nesting_is_bounded(good: Any) -> None:
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    assert any("nested more than" in problem for problem in problems(good | {"facts": {"deep": deep}}))
