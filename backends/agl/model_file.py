"""A trained model as a ``.safetensors`` file: its parameters, and how its neighbourhoods and tables were read."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from backends.agl.flat.sampling_strategy import DRAWS, SamplingStrategy
from backends.agl.infer.slices import check_state, read_state
from backends.model import ModelSpec, State

KEY = "agl"  # of the file's metadata


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model, its parameters, and what inference must repeat: sampling, filter, columns of the tables.

    ``strategy`` is ``None`` for a file that GraphTrainer did not write.
    """

    spec: ModelSpec
    state: State
    strategy: SamplingStrategy | None = None
    filtering: str | None = None
    tables: dict[str, Any] = field(default_factory=dict)


def save_model(path: Path, model: TrainedModel) -> None:
    """Write a model, whole or not at all; raises OSError."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    assert model.strategy is not None
    facts = {"spec": asdict(model.spec), "strategy": asdict(model.strategy)}
    facts |= {"filter": model.filtering, "tables": model.tables, "draws": DRAWS}
    unnamed = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        arrays = {name: np.ascontiguousarray(value) for name, value in model.state.items()}
        save_file(arrays, unnamed, {KEY: json.dumps(facts, sort_keys=True)})
        unnamed.replace(path)
    except SafetensorError as error:
        raise OSError(f"{path} could not be written: {error}") from error
    finally:
        unnamed.unlink(missing_ok=True)


def read_model(path: Path) -> TrainedModel | None:
    """Read a model that GraphTrainer wrote; ``None`` for parameters without a strategy. Raises ValueError."""
    from safetensors import safe_open

    state = read_state(path)
    with safe_open(path, "numpy") as file:
        text = (file.metadata() or {}).get(KEY)
    if text is None:
        return None
    try:
        facts = json.loads(text)
        spec, strategy = (_with_tuples(facts[name]) for name in ("spec", "strategy"))
        model = TrainedModel(ModelSpec(**spec), state, SamplingStrategy(**strategy), facts["filter"], facts["tables"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the metadata of {path} are damaged ({error}): train the model again") from error
    if facts["draws"] != DRAWS and strategy["method"] != "full":
        raise ValueError(f"{path} was trained on samples of version {facts['draws']}, these are {DRAWS}: train again")
    check_state(model.spec, state, str(path))
    return model


def _with_tuples(options: dict[str, Any]) -> dict[str, Any]:
    """Turn JSON's lists into the tuples that they were."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
