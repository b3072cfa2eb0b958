"""What one round does, as pure functions of one partition: send, receive, score (AGL, section 3.4).

Every engine runs these, however it moves what is between them.
"""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.agl.infer.slices import Slice
from backends.base.layered import LayerMatrix

Floats = NDArray[np.float32]
Messages = dict[str, Floats]
SENT, KEPT = "sent.", "kept."


def tensor(array: NDArray[Any]) -> Tensor:
    """View an array as a tensor without copying it, also one that may only be read."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def send(part: Slice, layer: int, embeddings: Floats) -> Messages:
    """What each node's embedding [nodes, width] becomes: ``sent.*`` goes along its out-edges, ``kept.*`` stays."""
    with torch.inference_mode():
        sent, kept = part.send(layer, tensor(embeddings), len(embeddings))
    named = {SENT + name: value for name, value in sent.items()} | {KEPT + name: value for name, value in kept.items()}
    return {name: value.numpy() for name, value in named.items()}


def receive(part: Slice, layer: int, matrix: LayerMatrix, messages: Messages) -> Floats:
    """Embeddings [rows, width] of a partition from what its matrix's columns sent and its rows kept."""
    sent, kept = (
        {key.removeprefix(mark): tensor(value) for key, value in messages.items() if key.startswith(mark)}
        for mark in (SENT, KEPT)
    )
    with torch.inference_mode():
        activation = "none" if part.spec.is_last(layer) else part.spec.activation()
        out = part.receive(layer, sent, kept, matrix, activation)
    embeddings: Floats = out.numpy()
    return embeddings


def score(part: Slice, embeddings: Floats) -> Floats:
    """Logits [nodes, classes] of the last embeddings: the last slice."""
    with torch.inference_mode():
        logits: Floats = part.logits_of(tensor(embeddings)).numpy()
    return logits


def width_of(part: Slice, layer: int) -> int:
    """Width of a layer's embeddings, heads joined."""
    spec = part.spec
    return spec.width_out(layer) * (1 if spec.is_last(layer) else spec.heads_of(layer))
