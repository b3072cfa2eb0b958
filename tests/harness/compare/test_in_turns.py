"""Cells measured in turns: verdicts of their pairs, names, shared graphs, what is left out of the runs."""

from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from harness.compare.checkout import CellOutcome
from harness.compare.in_turns import PairedCell, differing, once, share_graph, timed, titles
from harness.compare.signed_ranks import SequentialRule
from harness.planning.schema import RunConfig
from tests.cells import cell, saved_graph


def outcome(seconds: float | None, status: str = "ok") -> CellOutcome:
    return CellOutcome(status, seconds, {})


def judged(ratio: float, pairs: int = 8, note: str = "") -> PairedCell:
    """A cell after some pairs of the same ratio."""
    paired = PairedCell("cell", note)
    for number in range(pairs):
        paired.add((outcome(1.0 + 0.1 * number), outcome(ratio * (1.0 + 0.1 * number))))
        paired.look(SequentialRule(), 1)
    return paired


@pytest.mark.parametrize(("ratio", "word"), [(1.2, "slower"), (0.8, "faster"), (1.01, "not significant")])
def test_a_cell_gets_its_verdict_at_the_first_look_that_has_one(ratio: float, word: str) -> None:
    assert judged(ratio, 7).verdict is None
    verdict = judged(ratio).verdict
    assert verdict is not None and verdict.verdict == word
    assert verdict.factor is not None and verdict.factor.value == pytest.approx(ratio)
    assert verdict.b == pytest.approx(ratio * (verdict.a or 0))


def test_a_verdict_that_stands_is_not_judged_again() -> None:
    paired = judged(1.2, 8)
    first = paired.verdict
    for _ in range(8):
        paired.add((outcome(1.0), outcome(0.5)))
        paired.look(SequentialRule(), 1)
    assert paired.verdict is first


@pytest.mark.parametrize(
    ("a", "b", "word"),
    [
        (outcome(1.0), outcome(None, "oom"), "fails now"),
        (outcome(None, "oom"), outcome(1.0), "works now"),
        (outcome(None, "unsupported"), outcome(None, "unsupported"), "not comparable"),
        (outcome(1.0), outcome(None, "interrupted (ended by Ctrl-C or SIGTERM)"), "not comparable"),
        (outcome(None, "not_installed (no ray)"), outcome(1.0), "not comparable"),
    ],
)
def test_a_run_that_fails_is_the_verdict(a: CellOutcome, b: CellOutcome, word: str) -> None:
    for paired in (PairedCell("cell"), judged(1.5, 3)):
        paired.add((a, b))
        assert paired.verdict is not None and paired.verdict.verdict == word
        assert paired.verdict.reason == f"{a.status}, then {b.status}"


def test_whole_epochs_and_parts_of_them_are_no_pair() -> None:
    pair = PairedCell("a cell")
    pair.add((outcome(1.0), CellOutcome("ok", 2.0, {}, extrapolated=True)))
    assert pair.verdict is not None and pair.verdict.verdict == "not comparable"


def test_packages_that_differ_are_a_note_beside_the_verdict() -> None:
    note = differing({"packages": {"torch": "2.13"}, "cpu": "x"}, {"packages": {"torch": "2.14"}, "cpu": "x"})
    assert note == "packages.torch 2.13 against 2.14"
    verdict = judged(1.2, 8, note).verdict
    assert verdict is not None and verdict.reason == note


def test_cells_of_one_name_are_named_by_their_overrides() -> None:
    cells = [cell(None) | {"labels": [[]], "overrides": ["seed=0", f"threads={number}"]} for number in (1, 2)]
    names = titles(cells)
    assert [name.rpartition(" (")[2] for name in names] == ["threads=1)", "threads=2)"]
    assert titles(cells[:1]) == ["tiny gcn dummy train"]


def test_equal_graphs_are_mapped_from_the_same_files(tmp_path: Path) -> None:
    saved_graph(tmp_path / "a")
    saved_graph(tmp_path / "b")
    saved_graph(tmp_path / "c", nodes=121)
    one, same, other = ({"graph": name} for name in "abc")
    share_graph(one, same, tmp_path)
    share_graph(one, other, tmp_path)
    assert (same["graph"], other["graph"]) == ("a", "c")


def test_runs_leave_out_passes_and_keep_what_is_measured() -> None:
    config: dict[str, Any] = asdict(RunConfig())
    pairs, gate = deepcopy(config), deepcopy(config)
    timed(pairs)
    once(gate)
    for changed in (pairs, gate):
        assert set(changed["measure"]) == set(config["measure"]), "an older version refuses unknown keys"
        assert not changed["measure"]["memory"] and not changed["scenario"]["train_to_end"]
        assert {key: changed[key] for key in ("model", "training", "backend", "seed")} == {
            key: config[key] for key in ("model", "training", "backend", "seed")
        }
    assert (pairs["measure"]["parity"], gate["measure"]["parity"]) == (False, True)
