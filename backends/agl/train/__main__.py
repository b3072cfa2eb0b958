"""``python -m backends.agl.train -m MODEL -i SHARDS -t STRATEGY -o STATE -c KEY=VALUE``: AGL's demo (section 3.5)."""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from backends.ablation import resolve
from backends.agl.backend import AglTrainer
from backends.agl.commandline import (
    TrainSettings,
    announce_small_batches,
    read_train_settings,
    run_command,
    with_remedy,
)
from backends.agl.config import STRATEGIES, AglConfig
from backends.agl.flat.reader import GraphFeatureReader, sampling_of
from backends.agl.flat.sampling_strategy import check_sampler, refuse_unused_columns
from backends.agl.infer.inputs import graph_folder
from backends.agl.model_file import BestEpoch, Checkpoints, TrainedModel, save_model
from backends.agl.networks import first_state
from backends.agl.train.shard_source import ShardSource, targets_of_shards
from backends.agl.train.source import ShardPlan, shard_plan_of
from backends.agl.train.trainer import DistributedTrainer
from backends.agl.train.worker import WorkerClock
from backends.agl.user_model import SETTINGS, UserModelSpec, code_of, is_user_model
from backends.agl.user_trial import tried
from backends.base.parameter_server import STRATEGIES as SERVED
from backends.batches import BatchPlan
from backends.folder_lock import locked
from backends.model import ModelSpec, TrainingSpec
from backends.model_names import CONVOLUTIONS
from backends.parallel import ray_cluster as cluster
from backends.places import delivered, fetched, written
from backends.progress import NotedProgress, announce, step_progress
from datasets.graph import Graph

OF_GAT = ("heads", "output_heads", "slope", "attention_dropout")
OF_STRATEGIES: dict[str, tuple[str, ...]] = {"servers": SERVED, "checkpoint_every": SERVED, "staleness": ("bounded",)}


def prepared_trainer(
    model: str, folder: Path, strategy: str, settings: TrainSettings, stated: Sequence[str] = ()
) -> AglTrainer:
    """Prepare training by one worker or many; raises ValueError for shards that the model cannot be trained on.

    ``stated`` are the settings of the command line: one that model or strategy does not use is refused likewise.
    """
    reader = GraphFeatureReader(folder)
    graph, sampling, filtering = targets_of_shards(reader), sampling_of(reader), reader.manifest["filter"]
    spec = spec_of(model, reader, graph.classes, settings, stated)
    refuse_unused_settings(spec, strategy, settings, stated)
    refuse_unused_columns(spec, sampling, filtering, reader.edge_columns, str(folder))
    if isinstance(spec, UserModelSpec):
        refuse_frozen_parameters(spec, strategy, settings.decay)
    if settings.servers and strategy in SERVED:
        cluster.require(f"-t {strategy} with -c servers={settings.servers}", "-c servers=0")
    workers = {name: getattr(settings, name) for name in ("workers", "servers", "staleness", "checkpoint_every")}
    config = resolve(AglConfig(strategy=strategy, **workers), ())
    if settings.source == "shards":
        source, plan = ShardSource(), shard_plan_of(reader, settings.batch_size, settings.seed)
    else:
        graph = Graph.load(graph_folder(folder, "flatten with --keep-graph, or leave out -c source=graph"))
        source = None
        check_sampler(sampling)
        plan = BatchPlan(graph.nodes_of("train"), settings.batch_size, None, settings.seed)
        config.sampler, config.scope, config.filter = sampling.text, sampling.scope, filtering
    trainer = (AglTrainer if strategy == "local" else DistributedTrainer)(config, source)
    training = TrainingSpec(**_options_of(TrainingSpec, settings))
    trainer.prepare(graph, spec, training, first_state(spec, settings.seed), plan, WorkerClock())
    return trainer


def _options_of(spec: type[ModelSpec | TrainingSpec], settings: TrainSettings) -> dict[str, Any]:
    """The settings that are fields of a specification."""
    names = [option.name for option in fields(spec)]
    return {name: value for name, value in asdict(settings).items() if name in names}


def spec_of(
    model: str, reader: GraphFeatureReader, classes: int, settings: TrainSettings, stated: Sequence[str]
) -> ModelSpec:
    """The model's specification: one of ours by name, or a user's by its file; raises ValueError.

    A user's function has its own defaults, where it has some, for settings that are not ``stated``.
    """
    sampling, edge_width = sampling_of(reader), reader.edge_width
    fanouts = tuple(count for count in sampling.fanouts if count is not None)
    data = {"layers": sampling.hops, "in_width": reader.manifest["width"], "classes": classes, "fanouts": fanouts}
    if is_user_model(model):
        options = _options_of(UserModelSpec, settings) | code_of(model)
        edges = {"edge_width": edge_width, "weighted": reader.manifest["weighted"]}
        spec = UserModelSpec(Path(model.partition(":")[0]).name, **data, **edges, **options)
        return tried(spec.with_own_defaults(stated))
    options = _options_of(ModelSpec, settings) | {"edge_width": edge_width if model == "gat" else 0}
    return ModelSpec(model, **data, **options)


def refuse_unknown_model(model: str) -> None:
    """Raise ValueError for a model that is neither one of ours nor a user's file that can be read."""
    if is_user_model(model):
        code_of(model)
    elif model not in CONVOLUTIONS:
        raise ValueError(f"model {model!r} is unknown: allowed are {', '.join(CONVOLUTIONS)}, or a file net.py")


def refuse_frozen_parameters(spec: UserModelSpec, strategy: str, decay: float) -> None:
    """Raise ValueError where no parameter is trained, or where many workers would let one that is not trained decay."""
    parameters = dict(spec.build().named_parameters())
    frozen = [name for name, parameter in parameters.items() if not parameter.requires_grad]
    if len(frozen) == len(parameters):
        spec.refuse("no parameter is trained: give the layers or .head some, as nn.Linear has, of requires_grad=True")
    if frozen and decay and strategy != "local":
        spec.refuse(
            f"parameter {frozen[0]} has requires_grad=False, and -t {strategy} lets all parameters decay: leave out "
            "-c decay, or give -t local"
        )


def refuse_unused_settings(spec: ModelSpec, strategy: str, settings: TrainSettings, stated: Sequence[str]) -> None:
    """Raise ValueError for a ``stated`` setting that the strategy does not use, or the model does not take."""
    for name in stated:
        strategies = OF_STRATEGIES.get(name, STRATEGIES)
        if strategy not in strategies:
            others = " or ".join(strategies)
            raise ValueError(f"-t {strategy} does not use {name}: leave out -c {name}, or give -t {others}")
    if "checkpoint_every" in stated and not settings.servers:
        raise ValueError("checkpoint_every is of servers that are started again: leave it out, or give -c servers=1")
    if isinstance(spec, UserModelSpec):
        unused = [name for name in stated if name in (*SETTINGS, "head") and name not in spec.arguments()]
        if unused:
            allowed = ", ".join(SETTINGS)
            spec.refuse(f"{spec.function}() takes no {unused[0]}: leave out -c {unused[0]}, or take it (of {allowed})")
    elif spec.name != "gat" and (unused := [name for name in stated if name in OF_GAT]):
        raise ValueError(f"{spec.name} takes no {unused[0]}: leave out -c {unused[0]}, or train gat")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = argparse.ArgumentParser("python -m backends.agl.train", description=__doc__)
    options.add_argument(
        "-m",
        "--model",
        required=True,
        help=f"{', '.join(CONVOLUTIONS)}, or a file of your own: net.py, net.py:function",
    )
    options.add_argument("-i", "--input", required=True, help="folder of GraphFlat's shards, any fsspec path")
    options.add_argument(
        "-t",
        "--strategy",
        default="local",
        choices=STRATEGIES,
        help="local is one worker, the others combine the gradients of many (local)",
    )
    options.add_argument(
        "-o", "--output", required=True, help="file for the parameters, .safetensors, any fsspec path; must not exist"
    )
    options.add_argument("-c", "--config", nargs="*", action="extend", default=[], metavar="KEY=VALUE",
                      help="keys: " + ", ".join(key.name for key in fields(TrainSettings)))  # fmt: skip
    return options


def main(arguments: list[str] | None = None) -> int:
    """Train; returns the exit code of ``run_command``."""
    parsed = parser().parse_args(arguments)
    return run_command(lambda: train(parsed), partial(with_remedy, "a smaller -c batch_size"))


def train(parsed: argparse.Namespace) -> str:
    """Train on shards of any place and write the model to any place; returns the result in two lines."""
    settings = read_train_settings(parsed.config)
    if not parsed.output.endswith(".safetensors"):
        raise ValueError(f"{parsed.output} is no .safetensors file: give the name of a new .safetensors file")
    if delivered(parsed.output, None, command := str(vars(parsed))):
        return f"uploaded what was finished before: {parsed.output}"
    refuse_unknown_model(parsed.model)
    with written(parsed.output, None, command) as output, locked(output):
        if output.exists():
            raise ValueError(f"{output} exists: give the name of a new .safetensors file")
        with fetched(parsed.input, without="" if settings.source == "graph" else "graph") as shards:
            return trained(parsed, settings, shards, output)


def trained(parsed: argparse.Namespace, settings: TrainSettings, shards: Path, output: Path) -> str:
    """Train on shards and write the best model; returns the result in two lines."""
    start = time.perf_counter()
    reader = GraphFeatureReader(shards)
    manifest, stated = reader.manifest, [pair.partition("=")[0] for pair in parsed.config]
    with closing(prepared_trainer(parsed.model, shards, parsed.strategy, settings, stated)) as trainer:
        plan = trainer.plan
        if isinstance(plan, ShardPlan):
            announce_small_batches(max(plan.trained), settings.batch_size, len(plan.nodes) // settings.workers)
        announce_one_class(trainer.graph)
        checkpoints = Checkpoints(output, inputs_of(trainer.spec, parsed.strategy, settings, manifest))
        with step_progress() as progress:
            best = train_to_best(trainer, settings.epochs, progress, checkpoints)
    columns = manifest.get("tables", {})
    sampled = sampling_of(reader), manifest["filter"]
    save_model(output, TrainedModel(trainer.spec, best.state, *sampled, columns, bool(manifest["weighted"])))
    checkpoints.remove()
    source = "-n NODES -e EDGES" if columns else "-i GRAPH"
    return summary(trainer, best, time.perf_counter() - start, parsed.output, source)


def inputs_of(spec: ModelSpec, strategy: str, settings: TrainSettings, manifest: dict[str, Any]) -> dict[str, Any]:
    """What the result of a training depends on: threads change nothing."""
    code = spec.sha256 if isinstance(spec, UserModelSpec) else None
    stated = {name: value for name, value in asdict(settings).items() if name != "threads"}
    return {"model": asdict(spec), "code": code, "strategy": strategy, "settings": stated, "shards": manifest}


def announce_one_class(graph: Graph) -> None:
    """Say where all targets that are trained are of one class that nothing can be learned, and why it may be so."""
    if graph.labels is not None and graph.labels.ndim == 1:
        classes = np.unique(graph.labels[graph.nodes_of("train")])
        if len(classes) == 1:
            announce(
                f"all targets that are trained are of class {classes[0]}: the model will know no other (a label of -1 "
                "is read as missing)"
            )


def train_to_best(
    trainer: AglTrainer, epochs: int, progress: NotedProgress, checkpoints: Checkpoints | None = None
) -> BestEpoch:
    """Train all epochs, or those after a checkpoint, and return the best.

    A loss or parameters that are not finite end it: with the best so far where validation chose that, else by
    ValueError.
    """
    done, best = (0, BestEpoch({})) if checkpoints is None else checkpoints.read(trainer)
    for epoch in range(done, epochs):
        loss = trainer.epoch(epoch, WorkerClock())
        validated = trainer.validation_loss() if math.isfinite(loss) else None
        newest = BestEpoch(trainer.state(), loss, validated, epoch + 1)
        if problem := not_finite(newest):
            problem += f": lower -c rate={trainer.training.rate}"
            if best.validated is None:
                if checkpoints is not None:
                    checkpoints.remove()  # with another rate the training starts anew
                raise ValueError(problem)
            announce(f"{problem}; training ends here, and epoch {best.epoch} is the best of those before")
            break
        progress("train", epoch + 1, epochs, newest.losses)
        if best.validated is None or validated is None or validated < best.validated:
            best = newest
        if checkpoints is not None:
            checkpoints.write(trainer, epoch + 1, best)
    return best


def not_finite(epoch: BestEpoch) -> str:
    """Which loss of an epoch, or that a parameter, is not finite; nothing where all are."""
    if not math.isfinite(epoch.loss):
        return f"the loss of epoch {epoch.epoch} is {epoch.loss}"
    if epoch.validated is not None and not math.isfinite(epoch.validated):
        return f"the validation loss of epoch {epoch.epoch} is {epoch.validated}"
    is_finite = all(np.isfinite(value).all() for value in epoch.state.values())
    return "" if is_finite else f"parameters of epoch {epoch.epoch} are not finite"


def summary(trainer: AglTrainer, best: BestEpoch, seconds: float, path: str, source: str) -> str:
    """The result in one line, and the command that scores with it."""
    return (
        f"{len(trainer.plan.nodes):,} targets, best epoch {best.epoch}, {best.losses}, in "
        f"{seconds:.1f} s: {path}\nscore with it: python -m backends.agl.infer -m {path} {source} -o SCORES"
    )


if __name__ == "__main__":
    sys.exit(main())
