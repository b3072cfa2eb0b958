"""One rank of the full-batch engine under torchrun: training on several devices or machines.

``torchrun --nproc-per-node RANKS -m backends.blocksparse.rank FOLDER [--device cuda]`` trains the cells of FOLDER that
have so many ranks, all of their epochs. ``python -m harness plan --out FOLDER --with-data backend=blocksparse
backend.ranks=RANKS ...`` writes FOLDER, which all machines must see. Each rank cuts its slice from the mapped graph.
Rank 0 prints a line per epoch, and writes losses, seconds and bytes to ``FOLDER/ranks-RANKS.json``. No parity gate runs
here, so that these seconds are no records.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from backends.ablation import resolve
from backends.base.layered_trainer import LayeredTrainer
from backends.base.refusals import refuse_fanouts
from backends.batches import BatchPlan
from backends.blocksparse.config import BlocksparseConfig
from backends.blocksparse.pieces import pieces_of
from backends.blocksparse.slices import OwnTargets, RankSlice, targets_of_ranks
from backends.blocksparse.worker import RankTask, RankWorker
from backends.contract import Unsupported
from backends.model import State, TrainingSpec, initial_state, model_spec
from datasets.files import write_atomic
from datasets.graph import Graph

Cell = dict[str, Any]


def cells_in(folder: Path, ranks: int) -> list[Cell]:
    """The cells of a plan that train with blocksparse on so many ranks; raises ValueError where there is none."""
    plan = folder / "cells.json"
    if not plan.is_file():
        raise ValueError(f"{plan} is missing: write it with `python -m harness plan --out {folder} --with-data ...`")
    try:
        cells = [cell for group in json.loads(plan.read_text())["groups"] for cell in group["cells"]]
        ours = [cell for cell in cells if _trains_on_ranks(cell)]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{plan} is no plan ({error!r}): write it again with `python -m harness plan`") from error
    chosen = [cell for cell in ours if cell["config"]["backend"]["ranks"] == ranks]
    if not chosen:
        there = ", ".join(sorted({str(cell["config"]["backend"]["ranks"]) for cell in ours})) or "none"
        raise ValueError(f"{plan} has no cell that trains on {ranks} ranks of blocksparse; numbers of ranks: {there}")
    if lacking := [cell["path"] for cell in chosen if cell["status"] is None and not cell["graph"]]:
        raise ValueError(f"{plan} has no graph for {lacking[0]}: plan --with-data")
    return chosen


def _trains_on_ranks(cell: Cell) -> bool:
    config = cell["config"]
    return config["backend"]["name"] == "blocksparse" and config["scenario"]["name"] == "train"


@dataclass(frozen=True)
class RankPart:
    """What a rank trains: the task of all, its slice, the first parameters, and its targets."""

    task: RankTask
    part: RankSlice
    state: State
    targets: OwnTargets

    def worker(self, rank: int) -> RankWorker:
        """The worker of this rank, which waits for the others."""
        worker = RankWorker(rank, self.task, self.part, self.state)
        worker.train_on(self.targets)
        return worker


def part_of(cell: Cell, folder: Path, rank: int, device: str) -> RankPart:
    """What this rank trains of a cell, without the others; raises Unsupported as the harness does."""
    if cell["status"] is not None:  # the plan refuses it, and has no graph for it
        raise Unsupported(cell["message"])
    values = cell["config"]
    try:
        view = Graph.load(folder / cell["graph"]).training_view()
    except (OSError, ValueError) as error:
        raise Unsupported(f"graph {folder / cell['graph']} cannot be read ({error}): plan --with-data again") from error
    _refuse(values, view, device)
    config = resolve(BlocksparseConfig(**values["backend"]), [name for name, on in values["ablations"].items() if on])
    edge_width = 0 if view.edge_features is None else view.edge_features.shape[1]
    spec = model_spec(values["model"], view.width, view.classes, edge_width)
    known = {option.name for option in fields(TrainingSpec)}
    options = {key: value for key, value in values["training"].items() if key in known}
    training = TrainingSpec(**options, threads=torch.get_num_threads(), device=device, seed=values["seed"])
    trainer, plan = LayeredTrainer(config), BatchPlan(view.nodes_of("train"))
    trainer.refuse_columns(view, spec, training, plan)
    refuse_fanouts(spec, config.name)
    trainer.set_task(view, spec, training, plan)
    pieces = pieces_of(trainer, view, config, config.layout(view.nodes), only=rank)
    targets = targets_of_ranks(view, plan.nodes, pieces.cut)[rank]
    return RankPart(pieces.task, pieces.slices[0], initial_state(spec, values["seed"]), targets)


def _refuse(values: dict[str, Any], view: Graph, device: str) -> None:
    """Raise Unsupported for what these ranks do not read or write, and for a graph that cannot be trained."""
    scenario, backend = values["scenario"], values["backend"]
    if scenario["state"] is not None:
        raise Unsupported(f"ranks of torchrun start from the seed: leave out scenario.state={scenario['state']}")
    if scenario["save_state"] is not None:
        raise Unsupported(f"ranks of torchrun save no state: leave out scenario.save_state={scenario['save_state']}")
    if backend["replay"]:
        raise Unsupported(f"ranks of torchrun model no others: leave out backend.replay={backend['replay']}")
    if backend["link"] and device != "cpu":
        raise Unsupported(f"messages between devices are not held back: leave out backend.link={backend['link']}")
    if backend["forms"] == "panels" and device != "cpu":
        raise Unsupported(f"panels are cut for a processor's caches, not for {device}: leave out backend.forms=panels")
    if backend["link"] and os.environ.get("LOCAL_WORLD_SIZE") != os.environ.get("WORLD_SIZE"):
        raise Unsupported(
            f"machines have clocks of their own, and a network: leave out backend.link={backend['link']}, which holds "
            "back the messages of one machine"
        )
    if view.features is None:
        raise Unsupported(f"data set {view.name} has no features: choose one that has")
    if not len(view.nodes_of("train")):
        raise Unsupported(
            f"data set {view.name} has no labelled training nodes: split the labelled nodes of tables by "
            "dataset.options.split='\"0.8,0.1,0.1\"', or choose another data set"
        )


def train(cell: Cell, part: RankPart, device: str) -> dict[str, Any]:
    """Train a cell's epochs; returns the losses, and of each rank its seconds and its traffic of the last epoch."""
    rank = distributed.get_rank()
    worker = part.worker(rank)
    losses, seconds, traffic = list[float](), list[float](), dict[str, float]()
    for epoch in range(cell["config"]["training"]["epochs"]):
        start = time.perf_counter()
        loss, traffic = worker.epoch(epoch)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        losses.append(float(loss))
        if not isfinite(loss):  # on all ranks alike
            raise Unsupported(f"the loss of epoch {epoch + 1} is {loss}: give a lower training.rate")
        if rank == 0:
            print(f"{cell['path']} epoch {epoch + 1}: loss {loss:.6f}, {seconds[-1]:.4f} s", flush=True)
    if device == "cuda":  # a device's messages are waited for by its own queue, which this clock does not see
        traffic = {name: value for name, value in traffic.items() if name not in ("seconds", "exposed")}
    of_ranks = _of_all_ranks({"seconds": seconds, "traffic": traffic, "forms": worker.forms()})
    facts = {"path": cell["path"], "device": device, "threads": torch.get_num_threads()}
    return facts | {"link": cell["config"]["backend"]["link"], "losses": losses, "ranks": of_ranks}


def _of_all_ranks(own: Any) -> list[Any]:
    answers: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(answers, own)
    return answers


def trained(cells: list[Cell], folder: Path, device: str) -> list[dict[str, Any]]:
    """What ``train`` returns of each cell that can be trained so; rank 0 says of the others why they cannot.

    Ranks agree on each cell before its first message: the graph may be missing on one machine alone.
    """
    results, rank = [], distributed.get_rank()
    for cell in cells:
        threads = cell["config"]["threads"] // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        torch.set_num_threads(max(1, threads))
        part, refusal = None, ""
        try:
            part = part_of(cell, folder, rank, device)
        except Unsupported as error:
            refusal = str(error)
        refusals = _of_all_ranks(refusal)
        try:
            if part is not None and not any(refusals):
                results.append(train(cell, part, device))
        except Unsupported as error:  # on all ranks alike
            refusals = [str(error)]
        if rank == 0 and (reason := next(filter(None, refusals), "")):
            refusing = ", ".join(str(number) for number, text in enumerate(refusals) if text)
            where = "" if all(refusals) else f" (rank {refusing})"
            print(f"{cell['path']}: {reason}{where}", file=sys.stderr)
    return results


def write(results: list[dict[str, Any]], path: Path) -> None:
    """Write the results, or print them where the folder cannot be written: raises OSError then."""
    try:
        write_atomic({path: json.dumps(results, indent=1)})
    except OSError as error:
        print(json.dumps(results))
        raise OSError(f"{path} cannot be written ({error}): the results are printed instead") from error


def main(arguments: list[str]) -> int:
    """Join the ranks of torchrun and train; returns the exit code.

    1 where the results cannot be written, 2 where no cell can be trained so.
    """
    parser = argparse.ArgumentParser("torchrun -m backends.blocksparse.rank", description=__doc__)
    parser.add_argument("folder", type=Path, help="what `python -m harness plan --out FOLDER --with-data` wrote")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: a device for each local rank")
    options = parser.parse_args(arguments)
    if "WORLD_SIZE" not in os.environ:
        print("start it with `torchrun --nproc-per-node RANKS -m backends.blocksparse.rank FOLDER`", file=sys.stderr)
        return 2
    try:
        cells = cells_in(options.folder, int(os.environ["WORLD_SIZE"]))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    local, devices = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if options.device == "cuda" and local >= devices:
        print(f"local rank {local} has no device, of {devices}: start fewer, or give --device cpu", file=sys.stderr)
        return 2
    if options.device == "cuda":
        torch.cuda.set_device(local)
    distributed.init_process_group("nccl" if options.device == "cuda" else "gloo")
    try:
        results = trained(cells, options.folder, options.device)
        if results and distributed.get_rank() == 0:
            write(results, options.folder / f"ranks-{len(results[0]['ranks'])}.json")
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        distributed.destroy_process_group()
    return 0 if results else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
