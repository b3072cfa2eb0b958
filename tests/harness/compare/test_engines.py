"""Two engines inside their groups: what their processes decide, and how seldom they err."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.compare.between_folders import change_of_pairs, judge_together
from harness.compare.engines import compare_engines
from harness.store.record import RecordError
from tests import factory
from tests.harness.compare.test_folders import write_group

TRIALS = 1000


@pytest.mark.parametrize("processes", [2, 3, 5])
def test_fewer_than_1_in_40_identical_engines_have_a_false_verdict(processes: int) -> None:
    noise = np.random.default_rng(1).normal(0, 0.06, (TRIALS, processes))
    verdicts = [judge_together([change_of_pairs(np.exp(pairs))], 1.05)[0][1] for pairs in noise]
    assert sum(verdict in ("slower", "faster") for verdict in verdicts) <= TRIALS / 40


@pytest.mark.parametrize(
    ("agl", "dgl", "verdict"),
    [
        ([1.0, 1.1], [1.2, 1.2], "undecided"),
        ([1.0, 1.02, 1.01, 1.0, 1.03], [1.2, 1.21, 1.25, 1.2, 1.2], "slower"),
        ([1.0], [2.0], "undecided"),
    ],
)
def test_as_many_processes_as_a_verdict_needs(tmp_path: Path, agl: list[float], dgl: list[float], verdict: str) -> None:
    (comparison,) = compare_engines(write_group(tmp_path, {"agl": agl, "dgl": dgl}), "agl", "dgl", 1.05)
    assert comparison.verdict == verdict
    assert ("measure.processes" in comparison.reason) == (verdict == "undecided")
    assert compare_engines(tmp_path / factory.MACHINE, "agl", "dgl", 1.05) == [comparison]


def test_cells_measured_alone_one_after_the_other_are_no_pair(tmp_path: Path) -> None:
    write_group(tmp_path, {"agl": [1.0] * 5, "dgl": [2.0] * 5}, alone=("agl", "dgl"))
    (comparison,) = compare_engines(tmp_path, "agl", "dgl", 1.05)
    assert comparison.verdict == "not comparable" and comparison.reason.endswith("beside the others: agl, dgl")


def test_whole_epochs_beside_parts_of_them_are_no_pair(tmp_path: Path) -> None:
    write_group(tmp_path, {"agl": [1.0] * 5})
    write_group(tmp_path, {"dgl": [2.0] * 5}, extrapolated=3.0)
    (comparison,) = compare_engines(tmp_path, "agl", "dgl", 1.05)
    assert comparison.verdict == "not comparable" and "whole epochs on one side" in comparison.reason


def test_the_newest_protocol_that_holds_both_counts(tmp_path: Path) -> None:
    write_group(tmp_path, {"agl": [1.0] * 5, "dgl": [2.0] * 5}, protocol=2, group="old")
    (old,) = compare_engines(tmp_path, "agl", "dgl", 1.05)
    write_group(tmp_path, {"agl": [1.0, 1.01] * 3, "dgl": [1.0, 1.01] * 3}, protocol=3)
    (new,) = compare_engines(tmp_path, "agl", "dgl", 1.05)
    assert old.regression and not new.regression


def test_two_machines_are_named(tmp_path: Path) -> None:
    for machine in ("one", "two"):
        write_group(tmp_path, {"agl": [1.0] * 5, "dgl": [2.0] * 5}, machine=machine)
    cells = [comparison.cell for comparison in compare_engines(tmp_path, "agl", "dgl", 1.05)]
    assert [cell.rpartition(", on ")[2] for cell in cells] == ["one", "two"]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"facts": {"oversubscribed": 1}}, "no speed: agl, dgl"),
        ({"facts": {"clock": "simulated"}}, "a simulated clock, no speed: agl, dgl"),
        ({"sections": {"scenario": {"name": "partition", "parts": 8}}}, "assignments of different quality"),
    ],
    ids=["oversubscribed", "simulated", "partition"],
)
def test_seconds_that_are_no_speed_or_rank_nothing_are_not_compared(
    tmp_path: Path, keys: dict[str, Any], words: str
) -> None:
    write_group(tmp_path, {"agl": [1.0] * 5, "dgl": [2.0] * 5}, **keys)
    (comparison,) = compare_engines(tmp_path, "agl", "dgl", 1.05)
    assert comparison.verdict == "not comparable" and words in comparison.reason


def test_cells_of_the_parent_process_are_not_compared(tmp_path: Path) -> None:
    inline = {"sections": {"launcher": {"name": "inline"}}}
    write_group(tmp_path, {"agl": [1.0] * 5, "dgl": [2.0] * 5}, **inline)
    (comparison,) = compare_engines(tmp_path, "agl inline", "dgl inline", 1.05)
    assert comparison.verdict == "not comparable" and "no speed: agl inline, dgl inline" in comparison.reason


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("agll", "dgl v1"), ("'agll'", "report", "like it are 'agl'")),
        (("no such folder, nor an engine", "dgl v1"), ("no such", "two folders")),
        (("agl", "dgl v1"), ("both 'agl' and 'dgl v1'", "one table", "report")),
    ],
)
def test_names_that_no_table_holds_get_a_short_answer_with_those_like_them(
    tmp_path: Path, names: tuple[str, str], words: tuple[str, ...]
) -> None:
    write_group(tmp_path, {"agl": [1.0] * 2})
    for number in range(60):
        config = factory.config("dgl", model={"name": "gcn"}, backend={"variant": f"v{number}"})
        factory.write(tmp_path, factory.record("dgl", config=config), folder=f"{number}")
    with pytest.raises(RecordError) as error:
        compare_engines(tmp_path, *names, 1.05)
    assert all(word in str(error.value) for word in words)
    assert len(str(error.value)) < 400


def test_a_folder_without_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="holds no records"):
        compare_engines(tmp_path, "agl", "dgl", 1.05)
