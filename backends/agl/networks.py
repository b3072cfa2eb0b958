"""What AGL's three parts build of a model, ours or the user's: network, builder of layer matrices, K + 1 slices.

A slice holds one layer, the last one the prediction head (AGL, section 3.4). ``send``, ``receive`` and ``score`` are
the arithmetic of GraphInfer's rounds on one partition; local runs and tasks differ in how messages move between them.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from backends.agl.user_model import UserModelSpec, initial_parameters
from backends.agl.user_network import EdgesBuilder, UserNetwork, user_slices
from backends.agl.vectorize import LayerBuilder
from backends.base.layered import LayeredNetwork, LayerMatrix
from backends.base.network import Network
from backends.base.sparse_rows import input_rows, tensor
from backends.model import ModelSpec, State, TrainingSpec, initial_state
from datasets.features import Features

_MODEL_BY_PARAMETER = {"att_src": "gat", "weight_self": "sage"}
Floats = NDArray[np.float32]
Messages = dict[str, Floats]
SENT, KEPT = "sent.", "kept."


class Slice(LayeredNetwork):
    """The network with the parameters of one slice only."""

    def __init__(self, spec: ModelSpec, state: State, sparse_input: bool) -> None:
        self.slice_state = state
        super().__init__(spec, TrainingSpec(), sparse_input=sparse_input)
        self.eval()

    def make_parameters(self) -> None:
        """Create the parameters of this slice, without gradients."""
        state = self.slice_state.items()
        values = {name.replace(".", "/"): torch.from_numpy(np.array(value)) for name, value in state}
        parameters = {name: nn.Parameter(value, requires_grad=False) for name, value in values.items()}
        self.tensors = nn.ParameterDict(parameters)

    def canonical(self) -> dict[str, tuple[nn.Parameter, bool]]:
        """The parameters of this slice by canonical name."""
        return {name: (self.tensors[name.replace(".", "/")], False) for name in self.slice_state}


def check_state(spec: ModelSpec, state: State, source: str) -> None:
    """Raise ValueError for parameters of other names or shapes than the model's, or with values that are not finite."""
    shapes, expected = {name: tuple(value.shape) for name, value in state.items()}, spec.parameters()
    for name in [*expected, *shapes]:
        if shapes.get(name) != expected.get(name):
            shape = shapes.get(name, "nothing")
            needed = expected.get(name, "nothing of that name")
            raise ValueError(f"{source} holds {shape} as {name}, the model needs {needed}: save it from this model")
    for name, value in state.items():
        if not np.isfinite(value).all():
            raise ValueError(f"{name} of {source} holds values that are not finite: train the model again")


def read_state(path: Path) -> State:
    """Read float32 parameters from ``.safetensors``; raises ValueError naming a file that is damaged or missing."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not path.is_file():
        raise ValueError(
            f"there is no file {path}: give the .safetensors that `-o` of agl.train or scenario.save_state wrote"
        )
    try:
        state = load_file(path)
    except (SafetensorError, ValueError, OSError, TypeError) as error:  # numpy has not every type of the format
        raise ValueError(f"{path} is no complete .safetensors file ({error}): save the model again") from error
    return {name: value.astype(np.float32) for name, value in state.items()}


def spec_from_state(state: State, source: str, slope: float = 0.2, fanouts: tuple[int, ...] = ()) -> ModelSpec:
    """Infer the model from its parameters' names and shapes, which do not determine ``slope`` and ``fanouts``."""
    layers = 1 + max((int(match[1]) for name in state if (match := re.match(r"layers\.(\d+)\.", name))), default=-1)
    if layers < 1:
        raise ValueError(f"{source} names no layer (layers.0.weight, ...) among {', '.join(state) or 'nothing'}")
    kind = next((model for name, model in _MODEL_BY_PARAMETER.items() if f"layers.0.{name}" in state), "gcn")
    weight = "weight_self" if kind == "sage" else "weight"
    first, last = (_shape(state, f"layers.{layer}.{weight}", source) for layer in (0, layers - 1))
    heads = [_shape(state, f"layers.{layer}.att_src", source)[0] if kind == "gat" else 1 for layer in (0, layers - 1)]
    width = last[1] // heads[1]
    head = "linear" if "head.weight" in state else "none"
    classes = _shape(state, "head.weight", source)[1] if head == "linear" else width
    hidden = first[1] // heads[0] if layers > 1 or head == "linear" else width
    edge_width = _shape(state, "layers.0.weight_edge", source)[0] if "layers.0.weight_edge" in state else 0
    return ModelSpec(kind, layers, first[0], hidden, classes, heads[0], heads[1], slope, head, fanouts, edge_width)


def _shape(state: State, name: str, source: str) -> tuple[int, int]:
    """Shape of a matrix of the state; raises ValueError where it lacks that, or holds no matrix."""
    if name not in state:
        raise ValueError(f"{source} has no {name}: the model is incomplete: save it again")
    shape = state[name].shape
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"{source} holds {name} of shape {shape}: give matrices of at least one row and column")
    return shape[0], shape[1]


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


def width_of(spec: ModelSpec, layer: int) -> int:
    """Width of a layer's embeddings with heads concatenated, as stored."""
    return spec.width_out(layer) * (1 if spec.is_last(layer) else spec.heads_of(layer))


def network_of(
    spec: ModelSpec, training: TrainingSpec, aggregation: str = "partitioned", sparse_input: bool = False
) -> Network:
    """The network of a model."""
    if isinstance(spec, UserModelSpec):
        return UserNetwork(spec, training)
    return LayeredNetwork(spec, training, aggregation, sparse_input)


def builder_of(spec: ModelSpec) -> LayerBuilder:
    """The builder of a model's layer matrices."""
    if isinstance(spec, UserModelSpec):
        return EdgesBuilder(spec.reads, spec.self_loops)
    return LayerBuilder(spec.name, spec.edge_width)


def model_slices(spec: ModelSpec, state: State, sparse_input: bool = False) -> list[Any]:
    """One slice per layer and the head's; without a head the last slice is the identity.

    ``sparse_input`` says that the first slice gets sparse features. ``check_state`` has seen the state.
    """
    if isinstance(spec, UserModelSpec):
        return user_slices(spec, state)
    prefixes = [f"layers.{layer}." for layer in range(spec.layers)] + ["head."]
    parts = [{name: value for name, value in state.items() if name.startswith(prefix)} for prefix in prefixes]
    return [Slice(spec, part, sparse_input) for part in parts]


def first_state(spec: ModelSpec, seed: int) -> State:
    """The parameters before training."""
    return initial_parameters(spec, seed) if isinstance(spec, UserModelSpec) else initial_state(spec, seed)
