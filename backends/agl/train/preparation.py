"""What ``python -m backends.agl.train`` trains: our model or a user's, on shards or on the graph kept with them."""

from pathlib import Path

from backends.ablation import resolve
from backends.agl.backend import AglTrainer, labelled_nodes
from backends.agl.config import AglConfig
from backends.agl.flat.reader import GraphFeatureReader, sampling_of
from backends.agl.flat.sampling_strategy import SamplingStrategy, refuse_unused_columns
from backends.agl.networks import first_state
from backends.agl.settings import TrainSettings
from backends.agl.train.plans import shard_plan_of
from backends.agl.train.shard_source import ShardSource, labelled_targets
from backends.agl.train.trainer import DistributedTrainer, trainer_of
from backends.agl.train.worker import WorkerClock
from backends.agl.user.specification import SETTINGS, UserModelSpec, code_of, is_user_model
from backends.agl.user.trial import tried
from backends.batches import BatchPlan
from backends.model import ModelSpec, TrainingSpec
from backends.model_names import CONVOLUTIONS
from backends.parallel import ray_cluster as cluster
from datasets.graph import Graph

SHAPE = ("hidden", "heads", "output_heads", "slope", "head")
TRAINING = ("optimizer", "rate", "decay", "dropout", "attention_dropout", "epochs", "threads", "seed")


def prepared_trainer(model: str, folder: Path, strategy: str, settings: TrainSettings) -> AglTrainer:
    """Prepare training by one worker or many; raises ValueError for shards that the model cannot be trained on."""
    reader = GraphFeatureReader(folder)
    targets, sampling = labelled_targets(reader), sampling_of(reader)
    spec = spec_of(model, reader, sampling, targets.classes, settings)
    refuse_unused_columns(spec, sampling, reader.manifest["filter"], reader.edge_columns, str(folder))
    if settings.decay and strategy != "local" and isinstance(spec, UserModelSpec):
        refuse_frozen_parameters(spec, strategy)
    if settings.servers and strategy not in ("local", "allreduce"):
        cluster.require(f"-t {strategy} with -c servers={settings.servers}", "-c servers=0")
    training = TrainingSpec(**{name: getattr(settings, name) for name in TRAINING})
    workers = {name: getattr(settings, name) for name in ("workers", "servers", "staleness", "checkpoint_every")}
    config = resolve(AglConfig(strategy=strategy, **workers), ())
    if settings.source == "graph":
        return _from_graph(reader, config, spec, training, settings)
    trainer = (AglTrainer if strategy == "local" else DistributedTrainer)(config, ShardSource())
    plan = shard_plan_of(reader, settings.batch_size, settings.seed)
    trainer.prepare(targets, spec, training, first_state(spec, settings.seed), plan, WorkerClock())
    return trainer


def _from_graph(
    reader: GraphFeatureReader, config: AglConfig, spec: ModelSpec, training: TrainingSpec, settings: TrainSettings
) -> AglTrainer:
    """Prepare training on the graph in memory, with the samples that the shards hold."""
    folder = reader.folder / "graph"
    if not (folder / "graph.json").is_file():
        raise ValueError(f"{reader.folder} holds no graph: flatten with --keep-graph, or leave out -c source=graph")
    graph, sampling = Graph.load(folder), sampling_of(reader)
    config.sampler, config.scope, config.filter = sampling.text, sampling.scope, reader.manifest["filter"]
    trainer = trainer_of(config)
    plan = BatchPlan(labelled_nodes(graph, "train"), settings.batch_size, None, settings.seed)
    trainer.prepare(graph, spec, training, first_state(spec, settings.seed), plan, WorkerClock())
    return trainer


def spec_of(
    model: str, reader: GraphFeatureReader, sampling: SamplingStrategy, classes: int, settings: TrainSettings
) -> ModelSpec:
    """The model's specification: one of ours by name, or a user's by its file; raises ValueError."""
    width, hops, edge_width = reader.manifest["width"], sampling.hops, reader.edge_width
    fanouts = tuple(count for count in sampling.fanouts if count is not None)
    shape = {name: getattr(settings, name) for name in SHAPE}
    if not is_user_model(model):
        if model not in CONVOLUTIONS:
            raise ValueError(f"model {model!r} is unknown: allowed are {', '.join(CONVOLUTIONS)}, or a file net.py")
        shape |= {"edge_width": edge_width if model == "gat" else 0}
        return ModelSpec(model, hops, width, classes=classes, fanouts=fanouts, **shape)
    edges = {"edge_width": edge_width, "weighted": reader.manifest["weighted"]}
    dropout = {name: getattr(settings, name) for name in ("dropout", "attention_dropout")}
    name = Path(model.partition(":")[0]).name
    options = shape | edges | dropout | code_of(model)
    return tried(UserModelSpec(name, hops, width, classes=classes, fanouts=fanouts, **options))


def refuse_frozen_parameters(spec: UserModelSpec, strategy: str) -> None:
    """Raise ValueError for a parameter that is not trained, which many workers would let decay with the others."""
    frozen = [name for name, parameter in spec.build().named_parameters() if not parameter.requires_grad]
    if frozen:
        spec.refuse(
            f"parameter {frozen[0]} has requires_grad=False, and -t {strategy} lets all parameters decay: leave out "
            "-c decay, or give -t local"
        )


def refuse_unused_settings(spec: ModelSpec, stated: list[str]) -> None:
    """Raise ValueError for a setting of the command line that a user's model does not take."""
    if not isinstance(spec, UserModelSpec):
        return
    unused = [name for name in stated if name in (*SETTINGS, "head") and name not in spec.arguments()]
    if unused:
        allowed = ", ".join(SETTINGS)
        spec.refuse(f"{spec.function}() takes no {unused[0]}: leave out -c {unused[0]}, or take it (of {allowed})")
