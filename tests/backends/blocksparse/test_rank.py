"""``torchrun -m backends.blocksparse.rank FOLDER`` trains a plan's cell as one process does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from backends.ablation import resolve
from backends.batches import BatchPlan
from backends.blocksparse.config import BlocksparseConfig
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import runtime
from datasets.graph import Graph
from tests.cli.commandline import ROOT, CommandLine
from tests.contract.test_parity import PlainClock

EPOCHS = 4
OPTIONS = [
    "backend=blocksparse", "backend.ranks=2", "model=gcn", "dataset.options.nodes=400", "dataset.options.features=24",
    "training.batch_size=null", "training.dtype=float64", "training.dropout=0.3", f"training.epochs={EPOCHS}",
]  # fmt: skip


def torchrun(folder: Path, ranks: int) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    variables = {"PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command += ["-m", "backends.blocksparse.rank", str(folder)]
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("exchange", ["broadcast", "halo"])
def test_torchrun_trains_as_one_process_does(tmp_path: Path, exchange: str) -> None:
    folder = tmp_path / "plan"
    CommandLine(tmp_path)("plan", "--out", str(folder), "--with-data", *OPTIONS, f"backend.exchange={exchange}")
    done = torchrun(folder, 2)
    assert done.returncode == 0, done.stderr
    assert f"epoch {EPOCHS}: loss" in done.stdout
    (result,) = json.loads((folder / "ranks-2.json").read_text())
    assert np.abs(np.array(result["losses"]) - one_process(folder)).max() <= 1e-10
    assert [len(rank["seconds"]) for rank in result["ranks"]] == [EPOCHS] * 2
    assert all(rank["traffic"]["rows"] > 0 for rank in result["ranks"])


def one_process(folder: Path) -> list[float]:
    """The losses of one process on the plan's graph."""
    cell = json.loads((folder / "cells.json").read_text())["groups"][0]["cells"][0]
    model, graph = cell["config"]["model"], Graph.load(folder / cell["graph"]).training_view()
    spec = ModelSpec("gcn", model["layers"], graph.width, model["hidden"], graph.classes)
    training = TrainingSpec(dtype="float64", dropout=0.3, decay=cell["config"]["training"]["decay"])
    trainer = runtime(resolve(BlocksparseConfig(), []), "train")
    plan = BatchPlan(graph.nodes_of("train"))
    trainer.prepare(graph, spec, training, initial_state(spec, 0), plan, PlainClock())
    return [trainer.epoch(index, PlainClock()) for index in range(EPOCHS)]


def test_a_plan_for_other_numbers_of_ranks_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "plan"
    CommandLine(tmp_path)("plan", "--out", str(folder), "--with-data", *OPTIONS)
    refused = torchrun(folder, 1)
    assert refused.returncode != 0
    assert "no cell that trains on 1 ranks of blocksparse; numbers of ranks: 2" in refused.stderr


@pytest.mark.parametrize(("world", "words"), [("2", "cells.json is missing"), (None, "start it with `torchrun")])
def test_a_start_that_does_not_fit_says_what_to_do(tmp_path: Path, world: str | None, words: str) -> None:
    variables = {"PYTHONPATH": str(ROOT)} | ({} if world is None else {"WORLD_SIZE": world})
    command = [sys.executable, "-m", "backends.blocksparse.rank", str(tmp_path)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert words in done.stderr
