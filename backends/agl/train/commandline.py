"""``python -m backends.agl.train -m MODEL -i SHARDS -t STRATEGY -o STATE -c KEY=VALUE``: AGL's demo (section 3.5)."""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from backends.ablation import resolve
from backends.agl.config import STRATEGIES, AglConfig
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.train.settings import Settings, settings_of
from backends.agl.train.shards import ShardTrainer, plan_of, strategy_in, targets_in
from backends.agl.train.trainer import DistributedShardTrainer
from backends.agl.train.worker import Phases
from backends.model import MODELS, ModelSpec, State, TrainingSpec, initial_state
from backends.parallel import ray_cluster as cluster

Shown = Callable[[int, float, float | None], None]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser("python -m backends.agl.train", description=__doc__)
    made.add_argument("-m", "--model", required=True, choices=MODELS)
    made.add_argument("-i", "--input", type=Path, required=True, help="folder of shards that GraphFlat wrote")
    made.add_argument("-t", "--strategy", default="local", choices=STRATEGIES, help="one worker, or how many agree")
    made.add_argument(
        "-o", "--output", type=Path, required=True, help="file of parameters, .safetensors; must not exist"
    )
    made.add_argument("-c", "--config", nargs="*", action="extend", default=[], metavar="KEY=VALUE",
                      help="keys: " + ", ".join(item.name for item in fields(Settings)))  # fmt: skip
    return made


@dataclass
class Course:
    """Where training stands: the epoch of the least validation loss, of the last where none is validated."""

    state: State
    loss: float = math.inf
    validated: float | None = None
    epoch: int = 0


def main(arguments: list[str] | None = None) -> int:
    """Train; 0 done, 1 the disk is full, a file cannot be read or a worker is lost, 2 what was given does not fit."""
    given = parser().parse_args(arguments)
    try:
        settings = settings_of(given.config)
        if given.output.suffix != ".safetensors" or given.output.exists():
            wrong = "exists" if given.output.exists() else "is no .safetensors file"
            raise ValueError(f"{given.output} {wrong}: give the name of a new .safetensors file")
        start = time.perf_counter()
        trainer = trainer_of(given.model, given.input, given.strategy, settings)
        try:
            with shown(settings.epochs) as progress:
                course = train(trainer, settings.epochs, progress)
        finally:
            trainer.close()
        save(given.output, course.state)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"error: {said_by(error)}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    print(told(trainer, course, time.perf_counter() - start, given.output))
    return 0


def trainer_of(model: str, folder: Path, strategy: str, settings: Settings) -> ShardTrainer:
    """Prepare one worker, or many; raises ValueError for shards that do not serve the model."""
    reader = GraphFeatureReader(folder)
    graph, sampled = targets_in(reader), strategy_in(reader)
    if reader.manifest["weighted"] and model != "gcn":
        raise ValueError(f"{folder} holds edge weights, which {model} would drop: train gcn, or flatten without them")
    fanouts = tuple(count for count in sampled.fanouts if count is not None)
    shape = {name: getattr(settings, name) for name in ("hidden", "heads", "output_heads", "slope", "head")}
    spec = ModelSpec(model, sampled.hops, reader.manifest["width"], classes=graph.classes, fanouts=fanouts, **shape)
    names = ("optimizer", "rate", "decay", "dropout", "attention_dropout", "epochs", "threads", "seed")
    training = TrainingSpec(**{name: getattr(settings, name) for name in names})
    many = {name: getattr(settings, name) for name in ("workers", "servers", "staleness", "checkpoint_every")}
    config = resolve(AglConfig(strategy=strategy, **many), ())
    if settings.servers and strategy not in ("local", "allreduce"):
        cluster.require(f"-t {strategy} with -c servers={settings.servers}", "-c servers=0")
    trainer = ShardTrainer(config) if strategy == "local" else DistributedShardTrainer(config)
    plan = plan_of(reader, settings.batch, settings.seed)
    trainer.prepare(graph, spec, training, initial_state(spec, settings.seed), plan, Phases())
    return trainer


def said_by(error: BaseException) -> BaseException:
    """What another process raised, without the trace that Ray puts around it."""
    inner = getattr(error, "cause", None)
    return error if inner is None else said_by(inner)


def train(trainer: ShardTrainer, epochs: int, progress: Shown) -> Course:
    """Train to the last epoch and return the best; raises ValueError where the loss is no number."""
    best = Course({})
    for epoch in range(epochs):
        loss = trainer.epoch(epoch, Phases())
        if not math.isfinite(loss):
            raise ValueError(f"the loss of epoch {epoch + 1} is {loss}: lower -c rate={trainer.training.rate}")
        validated = trainer.validation_loss()
        progress(epoch + 1, loss, validated)
        if best.validated is None or validated is None or validated < best.validated:
            best = Course(trainer.state(), loss, validated, epoch + 1)
    return best


def save(path: Path, state: State) -> None:
    """Write the parameters, whole or not at all."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    unnamed = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        save_file({name: np.ascontiguousarray(value) for name, value in state.items()}, unnamed)
        unnamed.replace(path)
    except SafetensorError as error:
        raise OSError(f"{path} could not be written: {error}") from error
    finally:
        unnamed.unlink(missing_ok=True)


def told(trainer: ShardTrainer, course: Course, spent: float, path: Path) -> str:
    """What was done, and how to score with it."""
    validated = "" if course.validated is None else f", validation loss {course.validated:.4f}"
    settings = [f"fanouts={','.join(map(str, trainer.spec.fanouts))}"] if trainer.spec.fanouts else []
    settings += [f"seed={trainer.strategy.seed}", f"sampler={trainer.strategy.method}"] if trainer.spec.fanouts else []
    settings += ["replace=true"] if trainer.strategy.replacement else []
    settings += [f"slope={trainer.spec.slope}"] if trainer.spec.name == "gat" else []
    score = " ".join(
        ["python -m backends.agl.infer -m", str(path), "-i GRAPH -o SCORES", *(["-c"] if settings else [])]
    )
    return (
        f"{len(trainer.plan.nodes):,} targets, epoch {course.epoch} kept, loss {course.loss:.4f}{validated}, in "
        f"{spent:.1f} s: {path}\nscore with it: {' '.join([score, *settings])}"
    )


@contextmanager
def shown(epochs: int) -> Iterator[Shown]:
    """Show on stderr the epochs that are done and their losses."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("train"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=epochs)

        def progress(done: int, loss: float, validated: float | None) -> None:
            held = "" if validated is None else f", validation {validated:.4f}"
            bar.update(task, completed=done, description=f"loss {loss:.4f}{held}")

        yield progress
