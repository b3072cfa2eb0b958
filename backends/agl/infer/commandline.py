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

from backends.agl.infer.job import Job
from backends.agl.infer.local import LocalInference
from backends.agl.infer.settings import Settings, settings_of
from backends.agl.infer.slices import read_state, spec_of
from backends.agl.infer.workspace import Workspace
from datasets.graph import Graph


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
    targets = None if given.targets is None else np.load(given.targets, allow_pickle=False)
    if targets is not None and (targets.ndim != 1 or targets.dtype.kind not in "iu"):
        raise ValueError(f"{given.targets} holds {targets.dtype} of shape {targets.shape}: give node numbers")
    spec = spec_of(state, str(given.model), settings.slope, settings.fanouts)
    choice = settings.partitions, settings.sampler, settings.replace
    return Job(graph, spec, state, targets, settings.seed, *choice)


def infer(job: Job, settings: Settings, output: Path) -> int:
    """Run, or go on with, an inference whose work lies in ``output/work``; the results are written last."""
    if (output / "facts.json").exists():
        raise ValueError(f"{output} holds finished scores: give another folder")
    torch.set_num_threads(settings.threads)
    start = time.perf_counter()
    with shown() as progress:
        if settings.engine == "ray":
            from backends.agl.infer.distributed import infer_with_ray

            scores, facts = infer_with_ray(job, settings.threads, settings.hub, progress)
        else:
            engine = LocalInference(job, Workspace(output / "work", job.identity(), settings.unmap), progress)
            engine.map()
            scores, facts = engine.run(), engine.facts()
    facts |= {"seconds": time.perf_counter() - start, "engine": settings.engine}
    write(output, job, scores, facts)
    print(f"{len(scores)} nodes scored in {facts['seconds']:.1f} s: {output / 'scores.npy'}")
    return 0


def write(output: Path, job: Job, scores: Any, facts: dict[str, Any]) -> None:
    """Write the results, ``facts.json`` last; then the work is no longer needed."""
    output.mkdir(parents=True, exist_ok=True)
    targets = np.arange(job.graph.nodes) if job.targets is None else job.targets
    ids = targets if job.graph.node_ids is None else job.graph.node_ids[targets]
    np.save(output / "scores.npy", scores)
    np.save(output / "nodes.npy", ids)
    (output / "facts.json").write_text(json.dumps(facts, indent=1))
    shutil.rmtree(output / "work", ignore_errors=True)


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
