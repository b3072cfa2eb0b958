"""A trained model as a ``.safetensors`` file that says how its data were read, and its checkpoints beside the file."""

import hashlib
import io
import json
import math
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from backends.agl.backend import AglTrainer
from backends.agl.flat.sampling_strategy import DRAWS, SamplingStrategy
from backends.agl.networks import check_state, read_state
from backends.agl.user_model import UserModelError, UserModelSpec
from backends.model import ModelSpec, State
from backends.settings import typed
from datasets.tables.options import TableOptions

KEY = "agl"  # of the file's metadata
CHECKPOINT_SECONDS = 10.0  # between checkpoints, which are written at the end of an epoch


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model, its parameters, and what inference must repeat: sampling, filter, columns of the tables.

    ``strategy`` is ``None`` for a file that GraphTrainer did not write. ``weighted`` says whether the edges of the
    training had weights, ``None`` where the file does not. ``trained_by`` is the strategy of the training where
    inference reads all in-edges.
    """

    spec: ModelSpec
    state: State
    strategy: SamplingStrategy | None = None
    filtering: str | None = None
    tables: dict[str, Any] = field(default_factory=dict)
    weighted: bool | None = None
    trained_by: SamplingStrategy | None = None


def save_model(path: Path, model: TrainedModel) -> None:
    """Write a model, whole or not at all; raises OSError."""
    from safetensors.numpy import save

    assert model.strategy is not None
    spec = asdict(model.spec)
    if isinstance(model.spec, UserModelSpec):  # by its digest: reading a model never runs code that came with it
        spec |= {"code": None, "sha256": model.spec.sha256}
    facts = {"spec": spec, "strategy": asdict(model.strategy)}
    facts |= {"filter": model.filtering, "tables": model.tables, "draws": DRAWS, "weighted": model.weighted}
    arrays = {name: np.asarray(value, order="C") for name, value in model.state.items()}
    _write_whole(path, save(arrays, {KEY: json.dumps(facts, sort_keys=True)}))


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it; raises OSError."""
    unnamed = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        unnamed.write_bytes(content)
        unnamed.replace(path)
    except OSError as error:
        raise OSError(f"{path} could not be written ({error}): make room and repeat the command") from error
    finally:
        unnamed.unlink(missing_ok=True)


def _spec_of(facts: dict[str, Any], path: Path, code: Path | None) -> ModelSpec:
    """A specification from JSON; a user's file is read from where it was in training, or from ``code``."""
    digest = facts.get("sha256")
    if digest is None:
        return typed(ModelSpec, facts)
    file = Path(facts["file"]) if code is None else code
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    others = {name: value for name, value in facts.items() if name != "sha256"}
    spec = typed(UserModelSpec, others | {"code": text, "file": str(file)})
    if spec.sha256 != digest:
        what = "is another version" if text else "is not there"
        raise UserModelError(
            f"{path} was trained with {facts['file']} of SHA-256 {digest[:12]}; {file} {what}: give that file by --code"
        )
    return spec


def read_model(path: Path, code: Path | None = None) -> TrainedModel | None:
    """Read a model that GraphTrainer wrote; ``None`` for parameters without a strategy.

    ``code`` is the file of a user's model, where it no longer lies where it was trained. Raises ValueError.
    """
    from safetensors import safe_open

    state = read_state(path)
    with safe_open(path, "numpy") as file:
        text = (file.metadata() or {}).get(KEY)
    if text is None:
        return None
    try:
        facts = json.loads(text)
        spec, strategy = _spec_of(facts["spec"], path, code), typed(SamplingStrategy, facts["strategy"])
        weighted = facts.get("weighted", facts["spec"].get("weighted"))
        stated = {"filtering": facts["filter"], "tables": facts["tables"], "weighted": weighted}
        model = typed(TrainedModel, {"spec": spec, "state": state, "strategy": strategy} | stated)
        draws = facts["draws"]
        TableOptions(**model.tables)  # raises for a name that is none of its own
    except UserModelError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the metadata of {path} are damaged ({error}): train the model again") from error
    if draws != DRAWS and strategy.method != "full":
        raise ValueError(f"{path} was trained on samples of version {draws}, these are {DRAWS}: train again")
    check_state(model.spec, state, str(path))
    return model


@dataclass
class BestEpoch:
    """The parameters to save: of the epoch with the least validation loss, or of the last one without validation."""

    state: State
    loss: float = math.inf
    validated: float | None = None
    epoch: int = 0

    @property
    def losses(self) -> str:
        """Its losses as text."""
        validated = "" if self.validated is None else f", validation loss {self.validated:.4f}"
        return f"loss {self.loss:.4f}{validated}"


class Checkpoints:
    """The checkpoint of a training whose model will be ``output``; ``inputs`` are what its result depends on."""

    def __init__(self, output: Path, inputs: dict[str, Any]) -> None:
        self.path = output.with_name(f".{output.name}.checkpoint")
        self.identity = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
        self.last = time.monotonic()

    def read(self, trainer: AglTrainer) -> tuple[int, BestEpoch]:
        """Take over the checkpoint, if there is one of this training; returns the epochs done and the best of them.

        Raises ValueError for one of another training, which the first one of this would replace.
        """
        if not self.path.is_file():
            return 0, BestEpoch({})
        try:
            saved = torch.load(self.path, weights_only=True)
            identity, done = saved["identity"], saved["done"]
        except Exception:  # of a file that is no checkpoint torch raises many kinds
            return 0, BestEpoch({})
        if identity != self.identity:
            raise ValueError(
                f"{self.path} holds {done} epochs of another training (its shards, model, strategy or "
                "settings are others): repeat that command, give another -o, or delete the file to start over"
            )
        trainer.load(_arrays(saved["model"]))
        trainer.resume(saved["optimizer"])
        torch.set_rng_state(saved["random"])
        return done, BestEpoch(**saved["best"] | {"state": _arrays(saved["best"]["state"])})

    def write(self, trainer: AglTrainer, done: int, best: BestEpoch) -> None:
        """Save the training after ``done`` epochs, whole or not at all, unless that was done a moment ago.

        Raises OSError.
        """
        if time.monotonic() - self.last < CHECKPOINT_SECONDS:
            return
        saved = {"identity": self.identity, "done": done, "random": torch.get_rng_state()}
        saved |= {"model": _tensors(trainer.state()), "optimizer": trainer.snapshot()}
        saved |= {"best": vars(best) | {"state": _tensors(best.state)}}
        buffer = io.BytesIO()
        torch.save(saved, buffer)
        _write_whole(self.path, buffer.getvalue())
        self.last = time.monotonic()

    def remove(self) -> None:
        """Remove the checkpoint: the model is written."""
        self.path.unlink(missing_ok=True)


def _tensors(state: State) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.array(value)) for name, value in state.items()}


def _arrays(tensors: dict[str, torch.Tensor]) -> State:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
