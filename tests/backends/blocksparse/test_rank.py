"""``torchrun -m backends.blocksparse.rank FOLDER`` trains a plan's cell as one process does."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.ablation import resolve
from backends.batches import BatchPlan
from backends.blocksparse.config import BlocksparseConfig
from backends.blocksparse.rank import cells_in, part_of, write
from backends.contract import Unsupported
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import runtime
from datasets.graph import Graph
from harness.planning.schema import ModelConfig, RunConfig, ScenarioConfig
from tests.cli.commandline import ROOT, CommandLine
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph

EPOCHS = 4
OPTIONS = [
    "backend=blocksparse", "backend.ranks=2", "model=gcn", "dataset.options.nodes=400", "dataset.options.features=24",
    "training.batch_size=null", "training.dtype=float64", "training.dropout=0.3", f"training.epochs={EPOCHS}",
]  # fmt: skip


MODULE = ("-m", "backends.blocksparse.rank")


def torchrun(folder: Path, ranks: int, program: tuple[str, ...] = MODULE) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    variables = {"PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command += [*program, str(folder)]
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
    assert result["threads"] == 1 and result["link"] == []


FIRST_GRAPH_IS_ON_ONE_MACHINE = """
import os, sys
from backends.blocksparse import rank

load = rank.Graph.load
def mounted(folder):
    if os.environ["RANK"] == "1" and not mounted.asked:
        mounted.asked = True
        raise OSError("it is not mounted here")
    return load(folder)
mounted.asked = False
rank.Graph.load = mounted
sys.exit(rank.main(sys.argv[1:]))
"""


def test_a_graph_that_one_rank_cannot_read_keeps_all_in_step(tmp_path: Path) -> None:
    folder, program = tmp_path / "plan", tmp_path / "program.py"
    program.write_text(FIRST_GRAPH_IS_ON_ONE_MACHINE)
    CommandLine(tmp_path)("plan", "-m", "--out", str(folder), "--with-data", *OPTIONS, "seed=0,1")
    done = torchrun(folder, 2, (str(program),))
    assert done.returncode == 0, done.stderr
    assert "cannot be read (it is not mounted here): plan --with-data again (rank 1)" in done.stderr
    (result,) = json.loads((folder / "ranks-2.json").read_text())
    assert len(result["losses"]) == EPOCHS and "/seed=1" in result["path"]


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


def test_results_that_cannot_be_written_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match=r"ranks-1.json cannot be written .*: the results are printed instead"):
        write([{"ranks": [{"loss": 0.5}]}], tmp_path / "absent" / "ranks-1.json")
    assert json.loads(capsys.readouterr().out) == [{"ranks": [{"loss": 0.5}]}]


def planned(folder: Path, graph: Graph, model: ModelConfig, ranks: int = 1) -> dict[str, Any]:
    """A plan of one cell in ``folder``; returns the cell."""
    (folder / "graph").mkdir()
    graph.save(folder / "graph")
    config = RunConfig(model=model, backend=BlocksparseConfig(ranks=ranks))
    cell = {"path": "a cell", "graph": "graph", "config": asdict(config), "status": None, "message": ""}
    (folder / "cells.json").write_text(json.dumps({"groups": [{"cells": [cell]}]}))
    return cell


WEIGHTS, FEATURES = np.ones(200, dtype=np.float32), np.ones((200, 3), dtype=np.float32)


@pytest.mark.parametrize(
    ("columns", "model", "ranks", "words"),
    [
        ({"edge_weights": WEIGHTS}, ModelConfig("sage"), 1, "takes no edge weights"),
        ({"edge_features": FEATURES}, ModelConfig("gcn"), 1, "takes no edge features"),
        ({"edge_features": FEATURES}, ModelConfig("gat"), 1, "does not score features of edges"),
        ({}, ModelConfig("gcn", fanouts=[5, 5]), 1, "reads all neighbours"),
        ({}, ModelConfig("gcn"), 64, "64 row blocks, the graph has 40 nodes"),
        ({"features": None}, ModelConfig("gcn"), 1, "data set awkward has no features"),
        ({"split": None}, ModelConfig("gcn"), 1, "has no labelled training nodes"),
        ({"labels": None}, ModelConfig("gcn"), 1, "has no labelled training nodes"),
    ],
)
def test_what_the_harness_refuses_is_refused(
    tmp_path: Path, columns: dict[str, Any], model: ModelConfig, ranks: int, words: str
) -> None:
    cell = planned(tmp_path, replace(awkward_graph(2, edges=200), **columns), model, ranks)
    with pytest.raises(Unsupported, match=words):
        part_of(cell, tmp_path, 0, "cpu")


@pytest.mark.parametrize(
    ("section", "options", "device", "words"),
    [
        ("scenario", {"state": "best.npz"}, "cpu", r"leave out scenario\.state=best\.npz"),
        ("scenario", {"save_state": "best.npz"}, "cpu", r"leave out scenario\.save_state=best\.npz"),
        ("backend", {"replay": [2]}, "cpu", r"leave out backend\.replay=\[2\]"),
        ("backend", {"forms": "panels"}, "cuda", r"leave out backend\.forms=panels"),
        ("backend", {"link": [1e9, 0.0]}, "cuda", r"leave out backend\.link="),
        ("backend", {"link": [1e9, 0.0]}, "cpu", r"machines have clocks of their own.*leave out backend\.link="),
    ],
)
def test_what_these_ranks_do_not_read_or_write_is_refused(
    tmp_path: Path,
    section: str,
    options: dict[str, Any],
    device: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    cell = planned(tmp_path, awkward_graph(2), ModelConfig("gcn"))
    cell["config"]["scenario"] = asdict(ScenarioConfig())
    cell["config"][section] |= options
    with pytest.raises(Unsupported, match=words):
        part_of(cell, tmp_path, 0, device)


def test_a_cell_that_the_plan_refuses_keeps_no_other_from_training(tmp_path: Path) -> None:
    cell = planned(tmp_path, awkward_graph(2), ModelConfig("gcn"))
    refused = cell | {"graph": None, "status": "unsupported", "message": "gat in 1D only"}
    (tmp_path / "cells.json").write_text(json.dumps({"groups": [{"cells": [refused, cell]}]}))
    assert cells_in(tmp_path, 1) == [refused, cell]
    with pytest.raises(Unsupported, match="gat in 1D only"):
        part_of(refused, tmp_path, 0, "cpu")


def test_a_refused_cell_says_why_and_ends_with_2(tmp_path: Path) -> None:
    planned(tmp_path, awkward_graph(2), ModelConfig("gcn", fanouts=[5, 5]))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {"PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1"}
    variables |= {"MASTER_PORT": str(port), "RANK": "0", "WORLD_SIZE": "1"}
    command = [sys.executable, "-m", "backends.blocksparse.rank", str(tmp_path)]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stderr.strip().startswith("a cell: backend blocksparse reads all neighbours")
    assert not (tmp_path / "ranks-1.json").exists()
