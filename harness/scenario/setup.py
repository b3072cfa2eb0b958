"""Specifications of model and training for the scenarios of a configuration; files of trained parameters."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backends.model import ModelSpec, State, TrainingSpec, initial_state, model_spec
from backends.settings import settings_in
from datasets.files import atomic_file
from datasets.graph import SPLITS, Graph
from datasets.hashes import stored_sha256
from harness.planning.schema import RunConfig


def spec_of(config: RunConfig, graph: Graph) -> ModelSpec:
    """Complete the configured model for ``graph``; raises ValueError when it has no features, or no known classes."""
    if graph.features is None:
        raise ValueError(f"data set {graph.name} has no features: choose one that has, or another scenario")
    edge_width = 0 if graph.edge_features is None else graph.edge_features.shape[1]
    classes = graph.classes if config.scenario.name != "infer" else _classes_of(config, graph)
    return model_spec(asdict(config.model), graph.width, classes, edge_width)


def _classes_of(config: RunConfig, graph: Graph) -> int:
    """Classes of the graph, or of trained parameters, which may know more; raises ValueError where both have none."""
    if config.scenario.state is None:
        if graph.classes == 0:
            raise ValueError(
                f"data set {graph.name} has no labels, so that the number of classes is unknown: "
                "give the parameters of a trained model as scenario.state"
            )
        return graph.classes
    if graph.task == "multilabel":
        return graph.classes
    one, two = (model_spec(asdict(config.model), 1, classes).parameters() for classes in (1, 2))
    widest = [name for name, shape in one.items() if shape != two[name]][-1]
    output = load_state(Path(config.scenario.state)).get(widest)
    return graph.classes if output is None or not output.ndim else max(graph.classes, output.shape[-1])


def neighbourhood_spec_of(config: RunConfig, graph: Graph) -> ModelSpec:
    """Return the model whose layers and fanouts define a neighbourhood; needs no features."""
    return model_spec(asdict(config.model), graph.width, graph.classes)


def labelled_of(graph: Graph) -> NDArray[np.int64]:
    """Labelled nodes of all splits, ascending; all nodes where there are none."""
    labelled = np.sort(np.concatenate([graph.nodes_of(split) for split in SPLITS]))
    return labelled if len(labelled) else np.arange(graph.nodes)


def product_spec_of(config: RunConfig) -> ModelSpec:
    """Return the model whose aggregation scenario ``spmm`` measures, at width ``model.hidden``; needs no features."""
    width = config.model.hidden
    return model_spec(asdict(config.model) | {"layers": 1}, in_width=width, classes=width)


def training_of(config: RunConfig) -> TrainingSpec:
    """Return the training options of an engine."""
    values = {key: value for key, setting, value in settings_in(config.training) if setting.for_engine}
    return TrainingSpec(**values, threads=config.threads, device=config.device, seed=config.seed)


def start_of(config: RunConfig, spec: ModelSpec) -> State:
    """Return the state to start from: drawn from the seed, or read from ``scenario.state``."""
    if config.scenario.state is None:
        return initial_state(spec, config.seed)
    path, planned = Path(config.scenario.state), config.scenario.state_sha256
    if planned is not None and stored_sha256(path) != planned:
        raise ValueError(f"{path} is not the file that was planned: it has another sha256 than {planned}; run it again")
    state = load_state(path)
    shapes, expected = {name: value.shape for name, value in state.items()}, spec.parameters()
    if shapes != expected:
        raise ValueError(f"{config.scenario.state} holds {shapes}, the model has {expected}: train it with this model")
    return {name: state[name] for name in expected}


def load_state(path: Path) -> State:
    """Read parameters from ``.npz`` or ``.safetensors``."""
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return dict(load_file(path))
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def save_state(path: Path, state: State) -> None:
    """Write parameters to ``.npz`` or ``.safetensors``, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary:
        if path.suffix == ".safetensors":
            from safetensors.numpy import save_file

            save_file({name: np.ascontiguousarray(value) for name, value in state.items()}, temporary)
        else:
            with temporary.open("wb") as file:
                np.savez(file, **state)  # type: ignore[arg-type]
