"""Composition of one list of overrides, and its errors."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import hydra
import pytest
from omegaconf import OmegaConf

from backends.registry import MODULES
from harness.planning.compose import CONF, compose_arguments, compose_one
from harness.usage import UsageError

ROOT = Path(__file__).resolve().parents[3]
# In a process of its own, as Hydra keeps the schemas of all backends that were registered once.
UNREGISTERED = """
from backends.registry import MODULES
from harness.planning.compose import compose_one
del MODULES["blocksparse"]
compose_one(["backend=blocksparse"])
"""


def test_a_registered_backend_without_its_file_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODULES, "mine", MODULES["dummy"])
    with pytest.raises(UsageError, match=r"'mine' is registered and has no conf/backend/mine\.yaml: add that file"):
        compose_one(["backend=mine"])


def test_a_file_of_a_backend_that_is_not_registered_names_the_registry() -> None:
    command = [sys.executable, "-c", UNREGISTERED]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert "conf/backend/blocksparse.yaml is of a backend that is not registered: add 'blocksparse' to MODULES" in (
        ended.stderr
    )


@pytest.mark.parametrize(
    "overrides",
    [
        ["seed=3", "dataset=cora", "backend=agl", "training.epochs=7", "tier=full", "model=gat"],
        ["training.epochs=7", "+ablation=[pruning,partition]", "training.epochs=8", "model.fanouts=[3,5]"],
        ["+dataset.options.scale=9", "dataset=uug", "training.batch_size=null", "results=/tmp/some where"],
    ],
)
def test_values_set_in_a_copy_equal_those_of_a_whole_composition(overrides: list[str]) -> None:
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        whole = OmegaConf.to_container(hydra.compose("config", overrides), resolve=True)
    assert compose_one(overrides) == whole == compose_one(overrides)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("training.epoch=3", "key 'training.epoch' is unknown: allowed are .*did you mean 'training.epochs'"),
        ("seed=1,2", "Ambiguous value for argument .seed=1,2."),
        ("training.epochs=many", "training.epochs: .*'many'"),
    ],
)
def test_a_value_that_cannot_be_set_is_explained(override: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        compose_one([override])


def test_the_sweep_folder_of_a_killed_process_goes_with_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    for process in (ended.pid, os.getpid()):
        (tmp_path / f"gnn-harness-sweep-{process}-x").mkdir()
    compose_arguments(["dataset=cora"])
    assert [path.name for path in tmp_path.iterdir()] == [f"gnn-harness-sweep-{os.getpid()}-x"]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_flag_of_a_sweep_may_stand_anywhere(place: int) -> None:
    arguments = ["backend=dummy", "seed=1,2"]
    arguments.insert(place, "-m")
    assert [composition.values["seed"] for composition in compose_arguments(arguments)] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-m", "backend=glob(zz*)", "seed=1,2"], r"the sweep has no cell: backend=glob\(zz\*\) stands for no value"),
        (["seed=range(0,0)", "-m"], r"the sweep has no cell: seed=range\(0,0\) stands for no value"),
        (["-m", "seed=1,2", "hydra.sweeper.max_batch_size=0"], "hydra.sweeper.max_batch_size .* give 1 or more"),
    ],
)
def test_a_sweep_without_a_cell_is_an_error(arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        compose_arguments(arguments)


@pytest.mark.parametrize("arguments", [["recipe=cora_gatt"], ["-m", "recipe=cora_gat,cora_gatt"]])
def test_a_recipe_that_is_not_there_is_an_error(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match=r"recipe 'cora_gatt' is unknown: allowed are .*cora_gat"):
        compose_arguments(arguments)
    with pytest.raises(UsageError, match="recipe 'cora_gatt' is unknown"):
        compose_one(["recipe=cora_gatt"])


@pytest.mark.parametrize("flags", [["--cfg", "job"], ["-c", "job"], ["--info", "defaults"], ["-i", "defaults"]])
def test_a_look_at_the_configuration_composes_no_cell_and_is_no_error(flags: list[str]) -> None:
    assert compose_arguments([*flags, "backend=dummy"]) == []
