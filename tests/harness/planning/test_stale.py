"""What makes a finished group open again: data files that changed, a file of parameters that another cell wrote."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from datasets.prepare import known_sha256, prepare_graph
from datasets.registry import files_sha256
from harness.planning.compose import compose_one
from harness.planning.config import load
from harness.planning.plan import PlannedRun, find_group_records, form_groups
from harness.usage import UsageError
from tests.harness.planning.test_plan import MACHINE, config, groups, same_environment, write


def cit_graph(folder: Path, last: int) -> None:
    """A file of the data set ``cit_hep_ph`` with other edges than the published one."""
    folder.mkdir(exist_ok=True)
    np.savez(folder / "cit-hep-ph.npz", edges=np.array([[0, 1], [1, last]]))
    os.utime(folder / "cit-hep-ph.npz", (last, last))  # else both may be written within a tick of the clock


def test_a_changed_data_file_is_noticed_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    values = load(compose_one(["backend=dummy", "dataset=cit_hep_ph", "scenario=spmm"]))
    assert files_sha256("cit_hep_ph", {}, tmp_path / "cache") is None
    hashes = []
    for last in (2, 3):
        cit_graph(tmp_path / "data", last)
        hashes.append(files_sha256("cit_hep_ph", {}, tmp_path / "cache"))
    assert None not in hashes and hashes[0] != hashes[1]
    (group,) = groups(values)
    for sha256, counts in zip(hashes, (False, True), strict=True):
        write(group, tmp_path / str(sha256), ["ok"], dataset={"name": "cit_hep_ph", "sha256": sha256})
        assert (find_group_records(group, tmp_path / str(sha256), MACHINE) != [None]) is counts


@pytest.mark.real_data
def test_the_hash_of_files_is_that_of_the_graph(tmp_path: Path) -> None:
    for options in ([], ["+dataset.options.features=8"]):
        values = load(compose_one(["backend=dummy", "dataset=cit_hep_ph", "scenario=spmm", *options]))
        expected = files_sha256(values.dataset.name, values.dataset.options, tmp_path)
        prepare_graph(values.dataset, values.order, tmp_path)
        assert known_sha256(values.dataset, tmp_path) == expected is not None


def test_a_file_of_parameters_that_changed_later_is_another_cells(tmp_path: Path) -> None:
    path = tmp_path / "best.npz"
    (group,) = groups(config("measure.processes=1", f"scenario.save_state={path}"))
    write(group, tmp_path, ["ok"])
    path.touch()
    group.records = find_group_records(group, tmp_path, MACHINE)
    assert not group.state("failed")[0]
    os.utime(path, (time.time() + 60, time.time() + 60))
    assert group.state("failed")[0]


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("launcher.memory_limit_gib", ("4", "16")),
        ("scenario.save_state", ("a.npz", "b.npz")),
        ("measure.deadline_seconds", ("60", "3600")),
    ],
)
def test_one_cell_is_not_asked_for_with_two_limits_or_files(key: str, values: tuple[str, str]) -> None:
    runs = [PlannedRun(config(f"{key}={value}"), [], None) for value in values]
    with pytest.raises(UsageError, match=rf"{key}={values[0]}\S* and {values[1]}\S* are asked for of one cell"):
        form_groups(runs, same_environment)
