"""``python -m backends.agl.infer -m MODEL -n NODES -e EDGES -o SCORES``, as in AGL's demo (section 3.5)."""

import argparse
import json
import shutil
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from backends.agl.cluster import Cluster
from backends.agl.commandline import (
    InferSettings,
    add_table_options,
    announce_small_batches,
    read_infer_settings,
    read_tables,
    refuse_other_run_on,
    row_of,
    run_command,
    stated_table_options,
    table_options_of,
    with_remedy,
)
from backends.agl.flat.job import check_columns
from backends.agl.flat.reader import MANIFEST, GraphFeatureReader
from backends.agl.flat.sampling_strategy import StrategyError, columns_of, refuse_unused_columns
from backends.agl.flat.source import Source, UnfitEdge
from backends.agl.infer.drivers import LocalInference, infer_with_ray
from backends.agl.infer.inferrer import NeighbourhoodInference, RecordInference
from backends.agl.infer.inputs import (
    check_graph,
    check_shards,
    graph_folder,
    ids_of,
    model_of,
    refuse_other_weights,
    save_ids,
    targets_of,
)
from backends.agl.infer.job import InferenceJob, Workspace, needs_table
from backends.agl.infer.map_stage import distinct_layers
from backends.agl.model_file import TrainedModel
from backends.agl.networks import builder_of
from backends.agl.user_model import UserModelSpec
from backends.folder_lock import locked
from backends.parallel import ray_cluster
from backends.places import delivered, fetched, written
from backends.progress import Progress, announce, gibibytes, step_progress
from datasets.array_files import save_array
from datasets.csr import index_dtype
from datasets.graph import Graph
from datasets.tables.node_stream import NAMES

Answer = tuple[Any, Any, dict[str, Any], str]  # ids, scores, facts, and the column of ids in a table of them
CLAIMED = "of-graphinfer"
RESULTS = ("scores.npy", "nodes.npy", "nodes.parquet", "facts.json")  # nodes in one of the two
REMEDY = (
    "more -c partitions by rounds, a smaller -c batch_size by neighbourhoods, or a smaller --memory for reading tables"
)
OF_RUN_ON = {"hub_threshold": "ray", "threads": "local"}  # settings: a task of Ray has one thread
UNREAD = {
    "graphinfer": ("batch_size",),
    "neighbourhood": ("partitions", "unmap", "hub_threshold"),
}  # settings, by method


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = argparse.ArgumentParser("python -m backends.agl.infer", description=__doc__)
    options.add_argument("-m", "--model", required=True, help="trained parameters, .safetensors, any fsspec path")
    options.add_argument(
        "-i",
        "--input",
        help="in place of tables: folder of a prepared graph, or of GraphFlat's shards, any fsspec path",
    )
    options.add_argument(
        "-o",
        "--output",
        required=True,
        help="folder for scores.npy, nodes.npy (.parquet where ids are text), facts.json, any fsspec path",
    )
    options.add_argument(
        "-t",
        "--targets",
        help="nodes to score: a table of ids or .npy of them (of rows, where ids are text), any fsspec path (all)",
    )
    options.add_argument("-c", "--config", nargs="*", action="extend", default=[], metavar="KEY=VALUE",
                      help="keys: " + ", ".join(key.name for key in fields(InferSettings)))  # fmt: skip
    options.add_argument("--code", type=Path, help="file of a model of your own, if it is not where it was in training")
    add_table_options(options, required=False)
    return options


def main(arguments: list[str] | None = None) -> int:
    """Infer; returns the exit code of ``run_command``."""
    parsed = parser().parse_args(arguments)
    return run_command(lambda: inferred(parsed), partial(with_remedy, REMEDY))


def inferred(parsed: argparse.Namespace) -> str:
    """Score what lies at any place and write the scores to any place; returns the result in a line."""
    place, command = parsed.output, str(vars(parsed))
    settings = read_infer_settings(parsed.config)
    if delivered(place, "facts.json", command, "work"):
        return f"uploaded what was finished before: {place}/scores.npy"
    if settings.address:
        ray_cluster.reach(settings.address)
    refuse_other_options(parsed, settings)
    with written(place, "facts.json", command) as parsed.output:
        return f"{infer(parsed, settings)}: {place}/scores.npy"


def infer(parsed: argparse.Namespace, settings: InferSettings) -> str:
    """Score shards, a prepared graph or tables; an interrupted run resumes from ``OUTPUT/work``."""
    output, is_new, start = parsed.output, not parsed.output.exists(), time.perf_counter()
    try:
        with locked(output / "work"), ExitStack() as places:
            refuse_other_files(output)
            parsed.model = places.enter_context(fetched(parsed.model))
            if parsed.input is not None:
                parsed.input = places.enter_context(fetched(parsed.input, only="graph"))
            if parsed.targets is not None:
                parsed.targets = places.enter_context(fetched(parsed.targets))
            ids, scores, facts, column = scored(parsed, settings)
            facts |= {"seconds": time.perf_counter() - start, "engine": settings.run_on}
            write_results(output, ids, scores, facts, column)
    except ValueError:
        if is_new:
            shutil.rmtree(output, ignore_errors=True)
        raise
    finally:
        if is_new:
            with suppress(OSError):  # it holds files
                output.rmdir()
    return f"{len(scores)} nodes scored in {facts['seconds']:.1f} s"


def refuse_other_files(output: Path) -> None:
    """Raise ValueError where the scores, or what the run works with, would replace files that are not its own."""
    if (output / "facts.json").exists():
        raise ValueError(f"{output} holds finished scores: give another folder")
    work = output / "work"
    if (work / CLAIMED).is_file():
        return
    if work.exists() and any(work.iterdir()):
        raise ValueError(f"{work} holds files of something else: give an empty folder")
    for name in RESULTS:
        if (output / name).exists():
            raise ValueError(f"{output / name} is there and not of a run that can go on: give an empty folder")


def scored(parsed: argparse.Namespace, settings: InferSettings) -> Answer:
    """Read the model and what it scores, and score it."""
    torch.set_num_threads(settings.threads)
    stated = stated_settings(parsed)
    model = model_of(parsed.model, settings, stated, parsed.code)
    from_shards = parsed.input is not None and is_shards(parsed.input)
    if from_shards and settings.infer == "graphinfer":
        raise ValueError(
            f"{parsed.input} holds shards, scored each by its neighbourhood: leave out -c infer, or give the graph"
        )
    method = "neighbourhood" if from_shards else method_of(settings, model)
    if settings.run_on == "ray" and method == "neighbourhood":
        what = "the targets of shards are" if from_shards else "a model of --scope target is"
        raise ValueError(f"{what} scored by neighbourhoods, in this process: give run_on=local")
    refuse_unused_options(parsed, stated, method)
    if settings.run_on == "ray":
        ray_cluster.require("-c run_on=ray", "-c run_on=local")
    with step_progress() as progress:
        if from_shards:
            return score_shards(parsed, settings, model, progress)
        graph, folder = graph_of(parsed, model, progress)
        return score_graph(parsed, settings, model, graph, folder, progress)


def stated_settings(parsed: argparse.Namespace) -> list[str]:
    """The names of the settings of the command line."""
    return [pair.partition("=")[0] for pair in parsed.config]


def refuse_other_options(parsed: argparse.Namespace, settings: InferSettings) -> None:
    """Raise ValueError for options that do not go together whatever the model and the input are."""
    from_tables = "nodes" in parsed or "edges" in parsed
    if from_tables == (parsed.input is not None) or ("nodes" in parsed) != ("edges" in parsed):
        raise ValueError("give either tables, by -n and -e, or a folder, by -i")
    used_by = {f"-c {name}": run_on for name, run_on in OF_RUN_ON.items() if name in stated_settings(parsed)}
    refuse_other_run_on(used_by, settings.run_on, "-c run_on=")


def refuse_unused_options(parsed: argparse.Namespace, stated: list[str], method: str) -> None:
    """Raise ValueError for an option of tables, or a stated setting, that nothing would read."""
    options = stated_table_options(parsed)
    if parsed.input is not None:
        unread = [option for option in options if option != "--id" or parsed.targets is None]
        if unread:
            raise ValueError(f"{', '.join(unread)}: {parsed.input} holds no tables to read: leave out such options")
    if "--labels" in options:
        raise ValueError(f"-l {parsed.labels} is not read, as scores need no labels: leave it out")
    unread = [name for name in stated if name in UNREAD[method]]
    if unread:
        how = "by the rounds of GraphInfer" if method == "graphinfer" else "each by its neighbourhood"
        raise ValueError(f"-c {', '.join(unread)} is not read where nodes are scored {how}: leave it out")


def method_of(settings: InferSettings, model: TrainedModel) -> str:
    """How the nodes of a graph are scored: by the rounds of GraphInfer, or each by its neighbourhood."""
    assert model.strategy is not None
    return settings.infer or ("neighbourhood" if model.strategy.scope == "target" else "graphinfer")


def is_shards(folder: Path) -> bool:
    """Whether a folder is GraphFlat's, without a prepared graph."""
    return (folder / MANIFEST).is_file() and not (folder / "graph").is_dir()


def score_shards(
    parsed: argparse.Namespace, settings: InferSettings, model: TrainedModel, progress: Progress
) -> Answer:
    """Score the targets of GraphFlat's shards from their stored neighbourhoods."""
    if parsed.targets is not None:
        raise ValueError(f"{parsed.input} holds the targets that were flattened: leave out -t, or give the graph")
    reader = GraphFeatureReader(parsed.input)
    check_shards(reader, parsed.model, model)
    announce_small_batches(reader.largest, settings.batch_size, len(reader))
    inference = RecordInference(reader, model.spec, model.state, settings.batch_size)
    ids, scores = inference.run(progress)
    names = reader.names(ids) if (parsed.input / NAMES).is_file() else ids
    return names, scores, inference.facts(), column_of_ids(parsed, model)


def graph_of(parsed: argparse.Namespace, model: TrainedModel, progress: Progress) -> tuple[Graph, Path]:
    """The graph of the tables or of the folder, and its folder; columns not named are those of the training."""
    if parsed.input is not None:
        advice = "give the folder of a prepared graph or of GraphFlat's shards, or tables by -n and -e"
        folder = graph_folder(parsed.input, advice)
        return Graph.load(folder), folder
    folder = claimed(parsed.output) / "tables"
    options = table_options_of(parsed, model.tables)
    return read_tables(parsed, options, folder, progress, labelled=False), folder  # scores need no labels


def score_graph(
    parsed: argparse.Namespace,
    settings: InferSettings,
    model: TrainedModel,
    graph: Graph,
    folder: Path,
    progress: Progress,
) -> Answer:
    """Score nodes by GraphInfer's rounds, or by their neighbourhoods where samples differ between targets."""
    check_graph(graph)
    assert model.strategy is not None
    check_columns(graph, model.strategy, model.filtering)
    source = str(parsed.input or parsed.edges)
    refuse_other_weights(model, graph.edge_weights is not None, source)
    strategy = model.trained_by or model.strategy  # a column that steered the samples was not dropped
    refuse_unused_columns(model.spec, strategy, model.filtering, columns_of(graph), source)
    column = column_of_ids(parsed, model)
    targets = None if parsed.targets is None else targets_of(parsed.targets, graph, folder, column)
    job = InferenceJob(graph, model.spec, model.state, targets, model.strategy, settings.partitions, model.filtering)
    try:
        if method_of(settings, model) == "neighbourhood":
            inference = NeighbourhoodInference(job, settings.batch_size)
            scores, facts = inference.run(progress), inference.facts()
        else:
            scores, facts = by_rounds(job, settings, parsed.output, progress)
    except UnfitEdge as error:
        row = row_of(error.edge, graph, table_options_of(parsed, model.tables).undirected)
        advice = "correct it, or train with a filter that leaves such edges out"
        raise StrategyError(f"{source}: row {row}: {error.reason}: {advice}") from error
    return ids_of(graph, folder, targets), scores, facts, column


def column_of_ids(parsed: argparse.Namespace, model: TrainedModel) -> str:
    """The column of ids in tables of targets: of the command line, else of the training."""
    return str(getattr(parsed, "id", model.tables.get("id", "id")))


def by_rounds(
    job: InferenceJob, settings: InferSettings, output: Path, progress: Progress
) -> tuple[Any, dict[str, Any]]:
    """Run or resume GraphInfer, whose rounds are saved in ``output/work``."""
    source, on_ray = claimed(output) / "source", settings.run_on == "ray"
    if on_ray or needs_table(job.sampling, job.filtering):
        job = replace(job, table=Source.build(job.graph, job.sampling, job.filtering, source).table)
    for layer in range(job.spec.layers):
        job.in_edges(np.empty(0, dtype=np.int64), layer)  # raises for an impossible sampling before a file is written
    space = Workspace(claimed(output) / "rounds", job.identity(), settings.unmap)
    if on_ray:
        joined = Cluster(settings.address or None, settings.store or None)
        return infer_with_ray(job, source, settings.hub_threshold, progress, space, joined)
    announce(forecast(job, output))
    inference = LocalInference(job, space, progress)
    inference.map()
    return inference.run(), inference.facts()


def forecast(job: InferenceJob, output: Path) -> str:
    """What the rounds will write to the output's folder: matrices, values of nodes, embeddings and messages."""
    spec, nodes = job.spec, job.graph.nodes
    widths = [spec.width_out(layer) * spec.heads_of(layer) for layer in range(spec.layers)]
    if isinstance(spec, UserModelSpec):  # its messages are mostly as wide as what they are computed from
        widths += spec.widths
    of_a_node = 12 * max(widths) + 16 * builder_of(spec).reads_degrees  # in float64, and the sums that they come from
    size, free = of_a_node * nodes, shutil.disk_usage(output).free
    for layer in distinct_layers(job):
        edges = sum(int(job.degrees(np.arange(*span), layer).sum()) for span in job.parts) + nodes * spec.has_loops
        of_indices = np.dtype(index_dtype(max(edges, nodes))).itemsize
        size += of_indices * (nodes + edges) + (4 * (spec.name == "gcn") + 8 * spec.reads_edges) * edges
    rounds = f"{spec.layers + 1} rounds over {nodes:,} nodes"
    return f"{rounds} will take up to {gibibytes(size)} of disk ({gibibytes(free)} are free)"


def write_results(output: Path, ids: Any, scores: Any, facts: dict[str, Any], column: str) -> None:
    """Write the results, whole or not at all, ``facts.json`` last; then remove what the run worked with.

    ``column`` is that of ids that are text.
    """
    unnamed = claimed(output) / "results"
    try:
        unnamed.mkdir(exist_ok=True)
        save_array(unnamed / "scores.npy", scores)
        nodes = save_ids(unnamed, ids, column)
        (unnamed / "facts.json").write_text(json.dumps(facts, indent=1))
        for name in ("scores.npy", nodes.name, "facts.json"):
            (unnamed / name).replace(output / name)
    finally:
        shutil.rmtree(unnamed, ignore_errors=True)
    shutil.rmtree(output / "work", ignore_errors=True)


def claimed(output: Path) -> Path:
    """The folder of a run's own files, ``OUTPUT/work``, marked as that."""
    work = output / "work"
    work.mkdir(parents=True, exist_ok=True)
    (work / CLAIMED).touch()
    return work


if __name__ == "__main__":
    sys.exit(main())
