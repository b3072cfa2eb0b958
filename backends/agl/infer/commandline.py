"""``python -m backends.agl.infer -m MODEL -i GRAPH -o SCORES``, in the manner of AGL's demo (section 3.5)."""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from backends.agl.infer.job import Job, Nodes
from backends.agl.infer.local import LocalInference
from backends.agl.infer.settings import Settings, settings_of
from backends.agl.infer.slices import read_state, spec_of
from backends.agl.infer.workspace import Workspace
from datasets.graph import Graph

_CHECKED = 1 << 16


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser("python -m backends.agl.infer", description=__doc__)
    made.add_argument("-m", "--model", type=Path, required=True, help="trained parameters, .safetensors")
    made.add_argument("-i", "--input", type=Path, required=True, help="folder of a prepared graph (graph.json, *.npy)")
    made.add_argument("-o", "--output", type=Path, required=True, help="folder for scores.npy, nodes.npy, facts.json")
    made.add_argument("-t", "--targets", type=Path, help="nodes to score, .npy of whole numbers; all unless given")
    made.add_argument("-c", "--config", nargs="*", action="extend", default=[], metavar="KEY=VALUE",
                      help="keys: " + ", ".join(item.name for item in fields(Settings)))  # fmt: skip
    return made


def main(arguments: list[str] | None = None) -> int:
    """Infer; 0 done, 1 the disk is full or a file cannot be read, 2 what was given does not fit."""
    given = parser().parse_args(arguments)
    try:
        settings = settings_of(given.config)
        return infer(job_of(given, settings), settings, given.output)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def job_of(given: argparse.Namespace, settings: Settings) -> Job:
    """Read model, graph and targets."""
    state = read_state(given.model)
    if not (given.input / "graph.json").is_file():
        raise ValueError(f"{given.input} holds no graph.json: give the folder of a prepared graph")
    graph = Graph.load(given.input)
    if graph.features is None:
        raise ValueError(f"the graph in {given.input} has no features: GraphInfer starts from them")
    refuse_unfinite(graph)
    targets = None if given.targets is None else read_targets(given.targets)
    spec = spec_of(state, str(given.model), settings.slope, settings.fanouts)
    if graph.edge_weights is not None and spec.name != "gcn" and settings.sampler == "uniform":
        raise ValueError(
            f"{given.input} holds edge weights, which {spec.name} would drop: give a gcn, or sampler=weighted"
        )
    choice = settings.partitions, settings.sampler, settings.replace
    job = Job(graph, spec, state, targets, settings.seed, *choice)
    for layer in range(spec.layers):
        job.in_edges(np.empty(0, dtype=np.int64), layer)  # refuses what cannot be drawn, before a file is written
    return job


def read_targets(path: Path) -> Nodes:
    """Read node numbers from a ``.npy`` file; raises ValueError naming the file where it holds something else."""
    try:
        held = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is no whole .npy file of numbers ({error}): save the targets again") from error
    if not isinstance(held, np.ndarray) or held.ndim != 1 or held.dtype.kind not in "iu":
        found = f"{held.dtype} of shape {held.shape}" if isinstance(held, np.ndarray) else "several arrays"
        raise ValueError(f"{path} holds {found}: give node numbers")
    return held.astype(np.int64)


def infer(job: Job, settings: Settings, output: Path) -> int:
    """Run, or go on with, an inference whose work lies in ``output/work``; the results are written last."""
    if (output / "facts.json").exists():
        raise ValueError(f"{output} holds finished scores: give another folder")
    torch.set_num_threads(settings.threads)
    start = time.perf_counter()
    space = Workspace(output / "work", job.identity(), settings.unmap)
    with shown() as progress:
        if settings.engine == "ray":
            from backends.agl.infer.distributed import infer_with_ray

            scores, facts = infer_with_ray(job, settings.threads, settings.hub, progress, space)
        else:
            engine = LocalInference(job, space, progress)
            engine.map()
            scores, facts = engine.run(), engine.facts()
    facts |= {"seconds": time.perf_counter() - start, "engine": settings.engine}
    write(output, job, scores, facts)
    print(f"{len(scores)} nodes scored in {facts['seconds']:.1f} s: {output / 'scores.npy'}")
    return 0


def write(output: Path, job: Job, scores: Any, facts: dict[str, Any]) -> None:
    """Write the results, whole or not at all, ``facts.json`` last; then the work is no longer needed."""
    targets = np.arange(job.graph.nodes) if job.targets is None else job.targets
    ids = targets if job.graph.node_ids is None else job.graph.node_ids[targets]
    unnamed = output / ".unfinished"
    try:
        unnamed.mkdir(parents=True, exist_ok=True)
        np.save(unnamed / "scores.npy", scores)
        np.save(unnamed / "nodes.npy", ids)
        (unnamed / "facts.json").write_text(json.dumps(facts, indent=1))
        for name in ("scores.npy", "nodes.npy", "facts.json"):
            (unnamed / name).replace(output / name)
    finally:
        shutil.rmtree(unnamed, ignore_errors=True)
    shutil.rmtree(output / "work", ignore_errors=True)


def refuse_unfinite(graph: Graph) -> None:
    """Raise ValueError naming the first node or edge whose input is no number: an activation could hide it."""
    for what, array in (("features of node", graph.features), ("weight of edge", graph.edge_weights)):
        for start in range(0, 0 if array is None else len(array), _CHECKED):
            finite = np.isfinite(array[start : start + _CHECKED])
            rows = finite.reshape(len(finite), -1).all(axis=1)
            if not rows.all():
                row = start + int(np.argmin(rows))
                raise ValueError(
                    f"the {what} {row} of {graph.name} are not finite: mend the graph, then prepare it again"
                )


@contextmanager
def shown() -> Iterator[Callable[[str, int, int], None]]:
    """Show each step's progress on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as bars:
        begun: dict[str, Any] = {}

        def progress(step: str, done: int, of: int) -> None:
            if step not in begun:
                begun[step] = bars.add_task(step, total=of)
            bars.update(begun[step], completed=done, total=of)

        yield progress
