"""Checkpoints of a training, beside the model's file: a repeated command goes on after them."""

import hashlib
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from backends.agl.backend import AglTrainer
from backends.model import State

SECONDS = 10.0  # between checkpoints, which are written at the end of an epoch
MODEL, BEST, OPTIMIZER, RANDOM = "model.", "best.", "optimizer.", "random"


@dataclass
class BestEpoch:
    """The parameters to save: of the epoch with the least validation loss, or of the last one without validation."""

    state: State
    loss: float = math.inf
    validated: float | None = None
    epoch: int = 0


class Checkpoints:
    """The checkpoint of a training whose model will be ``output``; another training's, by ``inputs``, is not read."""

    def __init__(self, output: Path, inputs: dict[str, Any]) -> None:
        self.path = output.with_name(f".{output.name}.checkpoint")
        self.identity = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
        self.last = time.monotonic()

    def read(self, trainer: AglTrainer) -> tuple[int, BestEpoch]:
        """Take over the checkpoint, if there is one of this training; returns the epochs done and the best of them."""
        from safetensors import SafetensorError, safe_open
        from safetensors.torch import load_file

        if not self.path.is_file():
            return 0, BestEpoch({})
        try:
            with safe_open(self.path, "pt") as file:
                facts = json.loads(file.metadata()["facts"])
            identity, tensors = facts["identity"], load_file(self.path)
        except (SafetensorError, KeyError, TypeError, ValueError):
            return 0, BestEpoch({})  # cut short when the last run was killed
        if identity != self.identity:
            return 0, BestEpoch({})
        trainer.load(_numpy(tensors, MODEL))
        trainer.resume(_unflattened(tensors, facts["optimizer"]))
        torch.set_rng_state(tensors[RANDOM])
        return facts["done"], BestEpoch(_numpy(tensors, BEST), facts["loss"], facts["validated"], facts["epoch"])

    def write(self, trainer: AglTrainer, done: int, best: BestEpoch) -> None:
        """Save the training after ``done`` epochs, whole or not at all, unless that was done a moment ago.

        Raises OSError.
        """
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        if time.monotonic() - self.last < SECONDS:
            return
        numbers, tensors = _flattened(trainer.snapshot())
        tensors |= {MODEL + name: torch.from_numpy(np.array(value)) for name, value in trainer.state().items()}
        tensors |= {BEST + name: torch.from_numpy(np.array(value)) for name, value in best.state.items()}
        tensors[RANDOM] = torch.get_rng_state()
        facts = {"identity": self.identity, "done": done, "optimizer": numbers}
        facts |= {"loss": best.loss, "validated": best.validated, "epoch": best.epoch}
        unnamed = self.path.with_suffix(".tmp")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            save_file(tensors, unnamed, {"facts": json.dumps(facts)})
            unnamed.replace(self.path)
        except SafetensorError as error:
            raise OSError(f"{self.path} could not be written ({error}): make room and repeat the command") from error
        finally:
            unnamed.unlink(missing_ok=True)
        self.last = time.monotonic()

    def remove(self) -> None:
        """Remove the checkpoint: the model is written."""
        self.path.unlink(missing_ok=True)


def _numpy(tensors: dict[str, torch.Tensor], prefix: str) -> State:
    return {name.removeprefix(prefix): tensor.numpy() for name, tensor in tensors.items() if name.startswith(prefix)}


def _flattened(optimizer: dict[str, Any]) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """An optimizer's state as plain values, and its tensors by name."""
    tensors: dict[str, torch.Tensor] = {}

    def plain(value: Any, name: str) -> Any:
        if isinstance(value, torch.Tensor):
            tensors[OPTIMIZER + name] = value.detach().clone()
            return {"tensor": OPTIMIZER + name}
        if isinstance(value, dict):
            return {"items": [[key, plain(item, f"{name}.{key}")] for key, item in value.items()]}
        return [plain(item, f"{name}.{at}") for at, item in enumerate(value)] if isinstance(value, list) else value

    return plain(optimizer, "state"), tensors


def _unflattened(tensors: dict[str, torch.Tensor], value: Any) -> Any:
    """The optimizer's state that ``_flattened`` took apart."""
    if isinstance(value, list):
        return [_unflattened(tensors, item) for item in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    return {key: _unflattened(tensors, item) for key, item in value["items"]}
