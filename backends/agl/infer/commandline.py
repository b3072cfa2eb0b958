"""``python -m backends.agl.infer -m MODEL -i GRAPH -o SCORES``, as in AGL's demo (section 3.5)."""

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

from backends.agl.infer.job import InferenceJob, Nodes
from backends.agl.infer.local import LocalInference
from backends.agl.infer.slices import read_state, spec_from_state
from backends.agl.infer.workspace import Workspace
from backends.agl.settings import InferSettings, read_infer_settings
from datasets.features import SparseFeatures, refuse_not_finite
from datasets.graph import Graph

ROWS_AT_ONCE = 1 << 16


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = argparse.ArgumentParser("python -m backends.agl.infer", description=__doc__)
    options.add_argument("-m", "--model", type=Path, required=True, help="trained parameters, .safetensors")
    options.add_argument(
        "-i", "--input", type=Path, required=True, help="folder of a prepared graph (graph.json, *.npy)"
    )
    options.add_argument(
        "-o", "--output", type=Path, required=True, help="folder for scores.npy, nodes.npy, facts.json"
    )
    options.add_argument("-t", "--targets", type=Path, help="nodes to score, .npy of node numbers (all)")
    options.add_argument("-c", "--config", nargs="*", action="extend", default=[], metavar="KEY=VALUE",
                      help="keys: " + ", ".join(key.name for key in fields(InferSettings)))  # fmt: skip
    return options


def main(arguments: list[str] | None = None) -> int:
    """Infer; 0 done, 1 the disk is full or a file cannot be read, 2 the arguments are wrong."""
    parsed = parser().parse_args(arguments)
    try:
        settings = read_infer_settings(parsed.config)
        return infer(inference_job_of(parsed, settings), settings, parsed.output)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def inference_job_of(parsed: argparse.Namespace, settings: InferSettings) -> InferenceJob:
    """Read model, graph and targets; raises ValueError where they do not fit each other."""
    state = read_state(parsed.model)
    if not (parsed.input / "graph.json").is_file():
        raise ValueError(f"{parsed.input} holds no graph.json: give the folder of a prepared graph")
    graph = Graph.load(parsed.input)
    if graph.features is None:
        raise ValueError(f"the graph in {parsed.input} has no features: GraphInfer starts from them")
    refuse_unfinite(graph)
    targets = None if parsed.targets is None else read_targets(parsed.targets)
    spec = spec_from_state(state, str(parsed.model), settings.slope, settings.fanouts)
    if graph.edge_weights is not None and spec.name != "gcn" and settings.sampler == "uniform":
        raise ValueError(
            f"{parsed.input} holds edge weights, which {spec.name} would drop: give a gcn, or sampler=weighted"
        )
    sampling = settings.partitions, settings.sampler, settings.replacement
    job = InferenceJob(graph, spec, state, targets, settings.seed, *sampling)
    for layer in range(spec.layers):
        job.in_edges(np.empty(0, dtype=np.int64), layer)  # raises for an impossible sampling before a file is written
    return job


def read_targets(path: Path) -> Nodes:
    """Read node numbers from a ``.npy`` file; raises ValueError naming a file that holds something else."""
    try:
        targets = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is no whole .npy file of numbers ({error}): save the targets again") from error
    if not isinstance(targets, np.ndarray) or targets.ndim != 1 or targets.dtype.kind not in "iu":
        content = f"{targets.dtype} of shape {targets.shape}" if isinstance(targets, np.ndarray) else "several arrays"
        raise ValueError(f"{path} holds {content}: give node numbers")
    return targets.astype(np.int64)


def infer(job: InferenceJob, settings: InferSettings, output: Path) -> int:
    """Run or resume an inference whose rounds are saved in ``output/work``; writes the results last."""
    if (output / "facts.json").exists():
        raise ValueError(f"{output} holds finished scores: give another folder")
    torch.set_num_threads(settings.threads)
    start = time.perf_counter()
    space = Workspace(output / "work", job.identity(), settings.unmap)
    with step_progress() as progress:
        if settings.run_on == "ray":
            from backends.agl.infer.distributed import infer_with_ray

            scores, facts = infer_with_ray(job, settings.threads, settings.hub_threshold, progress, space)
        else:
            inference = LocalInference(job, space, progress)
            inference.map()
            scores, facts = inference.run(), inference.facts()
    facts |= {"seconds": time.perf_counter() - start, "engine": settings.run_on}
    write_results(output, job, scores, facts)
    print(f"{len(scores)} nodes scored in {facts['seconds']:.1f} s: {output / 'scores.npy'}")
    return 0


def write_results(output: Path, job: InferenceJob, scores: Any, facts: dict[str, Any]) -> None:
    """Write the results, whole or not at all, ``facts.json`` last; then remove ``output/work``."""
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
    """Raise ValueError naming the first node or edge with a value that is not finite: an activation could hide it."""
    if isinstance(graph.features, SparseFeatures):
        refuse_not_finite(graph.features.csr.destinations, graph.features.csr.indices, graph.features.values)
    dense = None if isinstance(graph.features, SparseFeatures) else graph.features
    for column, array in (("features of node", dense), ("weight of edge", graph.edge_weights)):
        for start in range(0, 0 if array is None else len(array), ROWS_AT_ONCE):
            finite = np.isfinite(array[start : start + ROWS_AT_ONCE])
            rows = finite.reshape(len(finite), -1).all(axis=1)
            if not rows.all():
                row = start + int(np.argmin(rows))
                raise ValueError(
                    f"the {column} {row} of {graph.name} are not finite: mend the graph, then prepare it again"
                )


@contextmanager
def step_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar per step on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def progress(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield progress
