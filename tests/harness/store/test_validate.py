"""Rules of a valid record: every rule reports a record that breaks it, also in its path and environment."""

import copy
from pathlib import Path
from typing import Any

import pytest

from harness.store import files, validate
from tests import factory

BROKEN = {
    "finite": ("epochs", "seconds", 0, float("nan")),
    "no duration": ("epochs", "seconds", 0, 0.0),
    "negative": ("prepare", "parse", -1.0),
    "allowed are 0 to 1": ("metrics", "test", 1.5),
    "holds 7 values for 6": ("epochs", "cpu_seconds", [1.0] * 7),
    "ISO 8601": ("written", "yesterday"),
    "future": ("written", "2999-01-01T00:00:00Z"),
    "time zone": ("written", "2026-01-01T00:00:00"),
    "status is ok": ("log_tail", "text"),
    "no sample": ("epochs", "seconds", []),
    "allowed are ok": ("status", "fine"),
    "is unknown": ("surprise", 1),
    "no message": ("status", "oom"),
    "is present although": ("status", "error"),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_every_rule_reports_a_record_that_breaks_it(tmp_path: Path, problem: str) -> None:
    good = files.read_record(factory.write(tmp_path, factory.record()))
    assert not list(validate.problems(good))
    bad: Any = copy.deepcopy(good)
    *places, last, value = BROKEN[problem]
    parent = bad
    for place in places:
        parent = parent[place]
    parent[last] = value
    assert any(problem in sentence for sentence in validate.problems(bad)), list(validate.problems(bad))


def test_a_record_in_the_wrong_folder_is_found(tmp_path: Path) -> None:
    path = factory.write(tmp_path, factory.record())
    moved = tmp_path / path.relative_to(tmp_path).as_posix().replace("cora", "citeseer").replace("seed=0", "seed=4")
    moved.parent.mkdir(parents=True)
    path.rename(moved)
    sentences = [problem for _, problem in validate.problems_in(tmp_path)]
    assert any("citeseer" in problem for problem in sentences)
    assert any("seed=4" in problem for problem in sentences)


def test_a_record_without_its_environment_is_found(tmp_path: Path) -> None:
    factory.write(tmp_path, factory.record())
    next((tmp_path / "environments").iterdir()).unlink()
    assert [problem for _, problem in validate.problems_in(tmp_path) if "environment" in problem]
