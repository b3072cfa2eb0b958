"""The arithmetic of GraphInfer's rounds (AGL, section 3.4) as pure functions of one partition: send, receive, score.

Local runs and Ray tasks call these; they differ in how messages move between them.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from backends.agl.infer.slices import Slice
from backends.base.layered import LayerMatrix
from backends.base.sparse_rows import input_rows, tensor
from datasets.features import Features

Floats = NDArray[np.float32]
Messages = dict[str, Floats]
SENT, KEPT = "sent.", "kept."


def send(model_slice: Slice, layer: int, embeddings: Features) -> Messages:
    """Messages from embeddings [nodes, width]: ``sent.*`` for out-neighbours, ``kept.*`` for the nodes themselves.

    The first layer's embeddings are the features, which may be sparse.
    """
    with torch.inference_mode():
        sent, own = model_slice.send(layer, input_rows(embeddings), len(embeddings))
    named = {SENT + name: value for name, value in sent.items()} | {KEPT + name: value for name, value in own.items()}
    return {name: value.numpy() for name, value in named.items()}


def receive(model_slice: Slice, layer: int, matrix: LayerMatrix, messages: Messages) -> Floats:
    """Embeddings [rows, width] of a partition from the messages of its matrix's columns and of its rows."""
    sent, own = (
        {key.removeprefix(mark): tensor(value) for key, value in messages.items() if key.startswith(mark)}
        for mark in (SENT, KEPT)
    )
    with torch.inference_mode():
        activation = "none" if model_slice.spec.is_last(layer) else model_slice.spec.activation()
        out = model_slice.receive(layer, sent, own, matrix, activation)
    embeddings: Floats = out.numpy()
    return embeddings


def score(model_slice: Slice, embeddings: Floats) -> Floats:
    """Logits [nodes, classes] of the last layer's embeddings, by the last slice."""
    with torch.inference_mode():
        logits: Floats = model_slice.logits_of(tensor(embeddings)).numpy()
    return logits


def width_of(model_slice: Slice, layer: int) -> int:
    """Width of a layer's embeddings with heads concatenated, as stored."""
    spec = model_slice.spec
    return spec.width_out(layer) * (1 if spec.is_last(layer) else spec.heads_of(layer))
