"""Folders: ratios to what both measured beside a cell, and what is said where there is nothing to compare with."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.compare.folders import compare_folders, process_medians
from harness.compare.verdict import Verdict
from harness.store.record import RecordError
from tests import factory
from tests.harness.compare.noise import folder_seconds

ENGINES = ("agl", "dgl", "pyg")
SAMPLES = 3


def write_group(
    folder: Path,
    seconds: dict[str, list[float]],
    changed: str = "agl",
    version: str = "1",
    overrides: tuple[str, ...] = (),
    alone: tuple[str, ...] = (),
    sections: dict[str, Any] | None = None,
    machine: str = factory.MACHINE,
    **keys: Any,
) -> Path:
    """Write one group: for each engine the seconds of its processes; the code of ``changed`` is of a version.

    The engines of ``alone`` were measured one after the other, when those beside each other were done. ``sections`` go
    into the configs, ``keys`` into the records.
    """
    for engine, processes in seconds.items():
        samples = [value for value in processes for _ in range(SAMPLES)]
        numbers = [number for number in range(len(processes)) for _ in range(SAMPLES)]
        epochs = {"seconds": samples, "cpu_seconds": samples, "phases": {}, "loss": [1.0] * len(samples)}
        epochs |= {"disturbed": [], "calls": [1] * len(samples), "process": numbers, "first": samples}
        sources = version if engine in changed.split() else "same"
        environment: dict[str, Any] = {"checked": factory.ENVIRONMENT["checked"] | {"sources": sources}}
        config = factory.config(engine, **(sections or {}))
        rounds = list(range(len(samples)))
        record = factory.record(engine, config=config, epochs=epochs, overrides=list(overrides), rounds=rounds, **keys)
        record["processes"] = [record["processes"][0]] * len(processes)
        record |= {"alone": True} if engine in alone else {}
        factory.write(folder, record, environment=environment, machine=machine)
    return folder


def folders(
    tmp_path: Path, before: dict[str, list[float]], after: dict[str, list[float]], changed: str = "agl"
) -> dict[str, Verdict]:
    """Write two folders and return the verdicts by engine."""
    a, b = write_group(tmp_path / "a", before, changed), write_group(tmp_path / "b", after, changed, "2")
    return {verdict.cell.split()[2]: verdict for verdict in compare_folders(a, b, 1.05)}


def times(factor: float, processes: int = 5) -> list[float]:
    """Times of some processes, 1 % apart."""
    return [factor * (1 + 0.01 * (number % 3)) for number in range(processes)]


def test_a_machine_that_became_slower_is_no_regression(tmp_path: Path) -> None:
    before = {engine: times(1.0) for engine in ENGINES}
    verdicts = folders(tmp_path, before, {engine: times(1.5) for engine in ENGINES})
    assert {verdict.verdict for verdict in verdicts.values()} == {"not significant"}
    assert verdicts["agl"].factor is not None and verdicts["agl"].factor.value == pytest.approx(1.0)
    assert (verdicts["agl"].a, verdicts["agl"].b) == pytest.approx((1.01, 1.515))


def test_a_regression_shows_on_a_machine_that_became_faster(tmp_path: Path) -> None:
    after = {"agl": times(1.0), "dgl": times(0.8), "pyg": times(0.8)}
    verdicts = folders(tmp_path, {engine: times(1.0) for engine in ENGINES}, after)
    assert {engine: verdict.verdict for engine, verdict in verdicts.items()} == {
        "agl": "slower", "dgl": "not significant", "pyg": "not significant",
    }  # fmt: skip
    assert verdicts["agl"].regression and not verdicts["agl"].reason


def test_cells_whose_code_changed_are_no_yardstick_while_others_are_left(tmp_path: Path) -> None:
    """Two of our engines became faster; the third cell, unchanged, must not look slower beside them."""
    before = {engine: times(1.0) for engine in (*ENGINES, "reference")}
    after = before | {"agl": times(0.5), "dgl": times(0.5)}
    verdicts = folders(tmp_path, before, after, changed="agl dgl")
    assert verdicts["pyg"].verdict == "not significant"
    assert verdicts["agl"].verdict == verdicts["dgl"].verdict == "faster"


def test_beside_changed_code_alone_a_cell_needs_seconds_of_its_own(tmp_path: Path) -> None:
    before = {engine: times(1.0) for engine in ("agl", "dgl")}
    verdicts = folders(tmp_path, before, before | {"agl": times(0.5)}, changed="agl dgl")
    assert verdicts["agl"].verdict == "faster"
    assert verdicts["dgl"].verdict == "undecided"
    assert "code changed as well" in verdicts["dgl"].reason and "factor of 1: " in verdicts["dgl"].reason


def test_what_slows_all_changed_cells_down_is_not_called_the_same(tmp_path: Path) -> None:
    before = {engine: times(1.0) for engine in ("agl", "dgl")}
    verdicts = folders(tmp_path, before, {engine: times(1.5) for engine in before}, changed="agl dgl")
    assert {verdict.verdict for verdict in verdicts.values()} == {"undecided"}
    assert all("compare --run" in verdict.reason for verdict in verdicts.values())


def test_a_cell_with_nothing_beside_it_names_the_command_that_can_tell(tmp_path: Path) -> None:
    folder = write_group(tmp_path / "a", {"agl": times(1.0)}, overrides=("backend=agl", "model=gat"))
    (verdict,) = compare_folders(folder, folder, 1.05)
    assert verdict.verdict == "not comparable"
    assert "python -m harness compare --run OLD NEW backend=agl model=gat" in verdict.reason


def test_what_lies_beside_a_part_of_a_folder_counts(tmp_path: Path) -> None:
    before = {engine: times(1.0) for engine in ENGINES}
    a, b = write_group(tmp_path / "a", before), write_group(tmp_path / "b", before | {"agl": times(1.3)})
    part = Path(factory.MACHINE, "cora", "gat", "agl")
    (verdict,) = compare_folders(a / part, b / part, 1.05)
    assert verdict.verdict == "slower"


def test_two_single_cells_are_compared_whatever_their_config(tmp_path: Path) -> None:
    root = tmp_path / "results"
    for engine in ENGINES:
        factory.write(root, factory.record(engine), folder=f"variant-{engine}")
    cells = [next(root.rglob(f"variant-{engine}")) for engine in ("dgl", "pyg")]
    (verdict,) = compare_folders(cells[0], cells[1], 1.05)
    assert "one process of each" in verdict.reason


def test_folders_without_a_common_cell_or_without_records_are_refused(tmp_path: Path) -> None:
    a = write_group(tmp_path / "a", {engine: times(1.0) for engine in ENGINES})
    b = write_group(tmp_path / "b", {"reference": times(1.0), "blocksparse": times(1.0)})
    with pytest.raises(RecordError, match="share no cell"):
        compare_folders(a, b, 1.05)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordError, match="holds no records"):
        compare_folders(a, tmp_path / "empty", 1.05)


def test_records_without_numbers_of_processes_are_of_one_process() -> None:
    plain = factory.record("agl")
    del plain["epochs"]["process"]
    assert set(process_medians(plain)) == {0}  # type: ignore[arg-type]
    numbered = plain | {"epochs": plain["epochs"] | {"process": [0, 0, 1, 1, 2, 2]}, "extrapolated": 2.0}
    medians = process_medians(numbered)  # type: ignore[arg-type]
    assert medians[1] == pytest.approx(2 * float(np.mean(plain["epochs"]["seconds"][2:4])))


def test_of_40_identical_folders_at_most_one_is_called_different(tmp_path: Path) -> None:
    random, false = np.random.default_rng(8), 0
    for pair in range(40):
        before, after = (_noisy(random, 0.06, 1.0) for _ in range(2))
        verdicts = folders(tmp_path / str(pair), before, after)
        false += bool({"slower", "faster"} & {verdict.verdict for verdict in verdicts.values()})
    assert false <= 1


def test_of_10_folders_that_are_a_tenth_slower_at_least_9_are_found(tmp_path: Path) -> None:
    random, regressions = np.random.default_rng(9), 0
    for pair in range(10):
        before, after = _noisy(random, 0.015, 1.0), _noisy(random, 0.015, 1.1)
        regressions += folders(tmp_path / str(pair), before, after)["agl"].verdict == "slower"
    assert regressions >= 9


def _noisy(random: np.random.Generator, sigma: float, factor: float) -> dict[str, list[float]]:
    seconds = folder_seconds(random, 5, sigma, [factor, 2.0, 0.5])
    return {engine: [float(value) for value in values] for engine, values in zip(ENGINES, seconds, strict=True)}


def test_a_seed_that_was_good_and_fails_now_is_a_regression(tmp_path: Path) -> None:
    before = {engine: times(1.0) for engine in ENGINES}
    a, b = write_group(tmp_path / "a", before), write_group(tmp_path / "b", before)
    for folder, status in ((a, "ok"), (b, "incorrect")):
        environment = {"checked": factory.ENVIRONMENT["checked"] | {"sources": "1"}}
        factory.write(folder, factory.record("agl", 1, 1.0, status), environment=environment)
    verdicts = {verdict.cell.split()[2]: verdict for verdict in compare_folders(a, b, 1.05)}
    assert (verdicts["agl"].verdict, verdicts["agl"].reason) == ("fails now", "seed 1: ok, then incorrect")
    assert verdicts["agl"].regression and not verdicts["dgl"].regression


def test_a_failure_counts_beside_an_interrupted_seed(tmp_path: Path) -> None:
    before = {engine: times(1.0) for engine in ("dgl", "pyg")}
    a, b = (write_group(tmp_path / name, before) for name in "ab")
    environment = {"checked": factory.ENVIRONMENT["checked"] | {"sources": "1"}}
    for folder, statuses in ((a, ("ok", "ok")), (b, ("interrupted", "error"))):
        for seed, status in enumerate(statuses):
            factory.write(folder, factory.record("agl", seed, 1.0, status), environment=environment)
    verdicts = {verdict.cell.split()[2]: verdict for verdict in compare_folders(a, b, 1.05)}
    assert (verdicts["agl"].verdict, verdicts["agl"].reason) == ("fails now", "ok, then error")


def test_whole_epochs_and_parts_of_them_are_not_compared(tmp_path: Path) -> None:
    seconds = {"agl": times(1.0), "dgl": times(2.0)}
    a = write_group(tmp_path / "a", seconds)
    b = write_group(tmp_path / "b", {"agl": times(1.5)}, version="2", extrapolated=2.0)
    write_group(b, {"dgl": times(2.0)}, version="2")
    verdicts = {verdict.cell.split()[2]: verdict for verdict in compare_folders(a, b, 1.05)}
    assert verdicts["agl"].verdict == "not comparable" and "whole epochs on one side" in verdicts["agl"].reason
    assert verdicts["dgl"].verdict != "not comparable"


def test_seeds_that_only_one_folder_has_are_not_compared(tmp_path: Path) -> None:
    """Another seed may be other work: here seed 1 takes half as long again in agl alone."""
    slow = {"agl": times(1.5), "dgl": times(1.0)}
    fast = {"agl": times(1.0), "dgl": times(1.0)}
    a = write_group(tmp_path / "a", fast, group="a0")
    b = write_group(tmp_path / "b", slow, version="2", sections={"seed": 1}, group="b1")
    verdicts = {verdict.cell.split()[2]: verdict for verdict in compare_folders(a, b, 1.05)}
    assert verdicts["agl"].verdict == "not comparable"
    assert "seeds 0 and 1 are other work: measure one of them in both" in verdicts["agl"].reason
    write_group(tmp_path / "b", fast, version="2", sections={"seed": 0}, group="b0")
    verdicts = {verdict.cell.split()[2]: verdict for verdict in compare_folders(a, tmp_path / "b", 1.05)}
    assert verdicts["agl"].verdict == "not significant"


def test_medians_are_of_the_seeds_that_both_folders_have(tmp_path: Path) -> None:
    """A has a seed of three times the work; all code changed, so the cell's own seconds must agree."""
    before, after = {"agl": times(1.0), "dgl": times(1.0)}, {"agl": times(1.2), "dgl": times(1.0)}
    a = write_group(tmp_path / "a", before, changed="agl dgl", group="a0", sections={"seed": 0})
    write_group(a, {"agl": times(3.0), "dgl": times(1.0)}, "agl dgl", sections={"seed": 1}, group="a1")
    b = write_group(tmp_path / "b", after, "agl dgl", "2", sections={"seed": 0}, group="b0")
    verdicts = {verdict.cell.split()[2]: verdict for verdict in compare_folders(a, b, 1.05)}
    assert verdicts["agl"].verdict == "slower"
    assert (verdicts["agl"].a, verdicts["agl"].b) == pytest.approx((1.01, 1.212))


def test_a_seed_measured_alone_and_another_beside_others_are_not_compared(tmp_path: Path) -> None:
    both = {"agl": times(1.0), "dgl": times(1.0)}
    a = write_group(tmp_path / "a", both, group="a0", sections={"seed": 0}, alone=("agl",))
    write_group(a, both, group="a1", sections={"seed": 1})
    b = write_group(tmp_path / "b", both, version="2", group="b0", sections={"seed": 0})
    verdicts = {verdict.cell.split()[2]: verdict for verdict in compare_folders(a, b, 1.05)}
    assert verdicts["agl"].verdict == "not comparable" and "nothing beside it" in verdicts["agl"].reason


def test_a_cell_measured_alone_was_measured_beside_nothing(tmp_path: Path) -> None:
    seconds = {engine: times(1.0) for engine in ENGINES}
    a, b = (write_group(tmp_path / name, seconds, alone=("pyg",)) for name in "ab")
    verdicts = {verdict.cell.split()[2]: verdict for verdict in compare_folders(a, b, 1.05)}
    assert verdicts["pyg"].verdict == "not comparable" and "nothing beside it" in verdicts["pyg"].reason
    assert verdicts["agl"].factor is not None and verdicts["agl"].factor.n == 5


@pytest.mark.parametrize(
    ("status", "version", "verdict", "reason"),
    [
        ("error", "1.1.3", "fails now", "ok, then error"),
        ("error", None, "not comparable", "packages.dgl 1.1.3 against None"),
        ("interrupted", "1.1.3", "not comparable", "ok, then interrupted"),
        ("not_installed", "1.1.3", "not comparable", "ok, then not_installed"),
    ],
    ids=["same packages", "other packages", "interrupted", "not installed"],
)
def test_a_cell_fails_now_only_where_the_environments_are_equal_and_the_code_failed(
    status: str, version: str | None, verdict: str, reason: str, tmp_path: Path
) -> None:
    good, failed = factory.record("dgl"), factory.record("dgl", status=status)
    del failed["dataset"]  # nothing was read
    for name, record, package in (("a", good, "1.1.3"), ("b", failed, version)):
        checked = factory.ENVIRONMENT["checked"] | {"packages": {"dgl": package}, "sources": name}
        factory.write(tmp_path / name, record, environment={"checked": checked})
    (compared,) = compare_folders(tmp_path / "a", tmp_path / "b", 1.05)
    assert (compared.verdict, compared.reason, compared.regression) == (verdict, reason, verdict == "fails now")
