"""``python -m backends.agl.train -m MODEL -i SHARDS -t STRATEGY -o STATE -c KEY=VALUE``: AGL's demo (section 3.5)."""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path

from backends.ablation import resolve
from backends.agl.config import STRATEGIES, AglConfig
from backends.agl.flat.reader import GraphFeatureReader, sampling_of
from backends.agl.flat.sampling_strategy import refuse_unused_weights
from backends.agl.model_file import TrainedModel, save_model
from backends.agl.places import fetched, written
from backends.agl.settings import TrainSettings, read_train_settings
from backends.agl.train.checkpoint import BestEpoch, Checkpoints
from backends.agl.train.shard_trainer import ShardTrainer, labelled_targets, shard_plan_of
from backends.agl.train.trainer import DistributedShardTrainer
from backends.agl.train.worker import WorkerClock
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.model_names import CONVOLUTIONS
from backends.parallel import ray_cluster as cluster

ReportEpoch = Callable[[int, float, float | None], None]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = argparse.ArgumentParser("python -m backends.agl.train", description=__doc__)
    options.add_argument("-m", "--model", required=True, choices=CONVOLUTIONS)
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
    """Train; 0 done, 1 the disk is full, a file cannot be read or a worker is lost, 2 the arguments are wrong."""
    parsed = parser().parse_args(arguments)
    try:
        settings = read_train_settings(parsed.config)
        if not parsed.output.endswith(".safetensors"):
            raise ValueError(f"{parsed.output} is no .safetensors file: give the name of a new .safetensors file")
        with written(parsed.output) as output, fetched(parsed.input) as shards:
            if output.exists():
                raise ValueError(f"{parsed.output} exists: give the name of a new .safetensors file")
            result = trained(parsed, settings, shards, output)
        print(result)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"error: {root_cause(error)}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    return 0


def trained(parsed: argparse.Namespace, settings: TrainSettings, shards: Path, output: Path) -> str:
    """Train on shards and write the best model; returns the result in two lines."""
    start = time.perf_counter()
    trainer = prepared_trainer(parsed.model, shards, parsed.strategy, settings)
    manifest = trainer.reader.manifest
    inputs = {"model": parsed.model, "settings": asdict(settings), "shards": manifest}
    checkpoints = Checkpoints(output, inputs) if parsed.strategy == "local" else None
    try:
        with epoch_progress(settings.epochs) as progress:
            best = train_to_best(trainer, settings.epochs, progress, checkpoints)
    finally:
        trainer.close()
    columns = manifest.get("tables", {})
    save_model(output, TrainedModel(trainer.spec, best.state, trainer.strategy, manifest["filter"], columns))
    if checkpoints is not None:
        checkpoints.remove()
    return summary(trainer, best, time.perf_counter() - start, parsed.output)


def prepared_trainer(model: str, folder: Path, strategy: str, settings: TrainSettings) -> ShardTrainer:
    """Prepare training by one worker or many; raises ValueError for shards that the model cannot be trained on."""
    reader = GraphFeatureReader(folder)
    graph, sampled = labelled_targets(reader), sampling_of(reader)
    refuse_unused_weights(reader.manifest["weighted"], model, sampled, reader.manifest["filter"], str(folder))
    fanouts = tuple(count for count in sampled.fanouts if count is not None)
    shape = {name: getattr(settings, name) for name in ("hidden", "heads", "output_heads", "slope", "head")}
    spec = ModelSpec(model, sampled.hops, reader.manifest["width"], classes=graph.classes, fanouts=fanouts, **shape)
    names = ("optimizer", "rate", "decay", "dropout", "attention_dropout", "epochs", "threads", "seed")
    training = TrainingSpec(**{name: getattr(settings, name) for name in names})
    workers = {name: getattr(settings, name) for name in ("workers", "servers", "staleness", "checkpoint_every")}
    config = resolve(AglConfig(strategy=strategy, **workers), ())
    if settings.servers and strategy not in ("local", "allreduce"):
        cluster.require(f"-t {strategy} with -c servers={settings.servers}", "-c servers=0")
    trainer = ShardTrainer(config) if strategy == "local" else DistributedShardTrainer(config)
    plan = shard_plan_of(reader, settings.batch_size, settings.seed)
    trainer.prepare(graph, spec, training, initial_state(spec, settings.seed), plan, WorkerClock())
    return trainer


def root_cause(error: BaseException) -> BaseException:
    """The error that another process raised, without the error and trace that Ray wraps around it."""
    cause = getattr(error, "cause", None)
    return error if cause is None else root_cause(cause)


def train_to_best(
    trainer: ShardTrainer, epochs: int, progress: ReportEpoch, checkpoints: Checkpoints | None = None
) -> BestEpoch:
    """Train all epochs, or those after a checkpoint, and return the best; raises ValueError for an infinite loss."""
    done, best = (0, BestEpoch({})) if checkpoints is None else checkpoints.read(trainer)
    for epoch in range(done, epochs):
        loss = trainer.epoch(epoch, WorkerClock())
        if not math.isfinite(loss):
            raise ValueError(f"the loss of epoch {epoch + 1} is {loss}: lower -c rate={trainer.training.rate}")
        validated = trainer.validation_loss()
        progress(epoch + 1, loss, validated)
        if best.validated is None or validated is None or validated < best.validated:
            best = BestEpoch(trainer.state(), loss, validated, epoch + 1)
        if checkpoints is not None:
            checkpoints.write(trainer, epoch + 1, best)
    return best


def summary(trainer: ShardTrainer, best: BestEpoch, seconds: float, path: str) -> str:
    """The result in one line, and the command that scores with it."""
    validated = "" if best.validated is None else f", validation loss {best.validated:.4f}"
    source = "-n NODES -e EDGES" if trainer.reader.manifest.get("tables") else "-i GRAPH"
    return (
        f"{len(trainer.plan.nodes):,} targets, best epoch {best.epoch}, loss {best.loss:.4f}{validated}, in "
        f"{seconds:.1f} s: {path}\nscore with it: python -m backends.agl.infer -m {path} {source} -o SCORES"
    )


@contextmanager
def epoch_progress(epochs: int) -> Iterator[ReportEpoch]:
    """A progress bar of epochs, with the losses of the last, on stderr."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("train"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=epochs)

        def progress(done: int, loss: float, validated: float | None) -> None:
            validation = "" if validated is None else f", validation {validated:.4f}"
            bar.update(task, completed=done, description=f"loss {loss:.4f}{validation}")

        yield progress
