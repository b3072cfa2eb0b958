"""Specification of a model without any framework: its shape, its parameters and how it is trained."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.model_names import PROPAGATIONS, WEIGHTED
from datasets.adjacency import SELF_LOOP_MODELS
from datasets.randomness import stream

State = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class ModelSpec:
    """A model's shape, the same for every engine.

    gcn (Kipf and Welling 2017), sage with mean aggregation and the "add" combine (AGL, section 4.1.2), gat (GATv1,
    Velickovic et al. 2018). ``hidden`` is the width of a layer, for gat the width of one head; inner gat layers
    concatenate ``heads`` heads, the last averages ``output_heads``. ``head="linear"`` adds a linear layer at the end.
    gat scores edges by their ``edge_width`` features too: head h adds ``<e W_edge, att_edge>``, of a self loop 0.

    Others multiply by gcn's matrix S without a weight between two products (``backends.base.propagation``). With L
    ``layers``: sgc is ``S^L X W + b`` (Wu et al. 2019); lightgcn the mean of ``S^k X W`` over k = 0..L with S without
    self loops (He et al. 2020, over features in place of an embedding); ngcn has L instances, the k-th, from 0, is
    ``S^k relu(S^k X W) W'``, and a linear layer over all of them (Abu-El-Haija et al. 2018).
    """

    name: str
    layers: int
    in_width: int
    hidden: int
    classes: int
    heads: int = 1
    output_heads: int = 1
    slope: float = 0.2
    head: str = "none"
    fanouts: tuple[int, ...] = ()
    edge_width: int = 0

    @property
    def propagates(self) -> bool:
        """Whether the model is one of propagations, not of convolutions."""
        return self.name in PROPAGATIONS

    @property
    def has_loops(self) -> bool:
        """Whether each node gets an edge from itself."""
        return self.name in SELF_LOOP_MODELS

    @property
    def reads_edges(self) -> bool:
        """Whether layers read values of single edges, beside gcn's weights."""
        return self.edge_width > 0

    @property
    def edge_columns(self) -> tuple[str, ...]:
        """Which columns of the edges the layers read: ``weight``, ``features``."""
        columns = {"weight": self.name in WEIGHTED, "features": self.edge_width > 0}
        return tuple(name for name, is_read in columns.items() if is_read)

    @property
    def drops(self) -> int:
        """How many inputs fall under dropout: each layer's, or the features alone."""
        return 1 if self.propagates else self.layers

    def heads_of(self, layer: int) -> int:
        """Heads of a layer (1 for models without attention)."""
        if self.name != "gat":
            return 1
        return self.output_heads if self.is_last(layer) else self.heads

    def is_last(self, layer: int) -> bool:
        """Whether ``layer`` (0-based) is the deepest convolution, whose output gets no activation."""
        return layer == self.layers - 1

    def width_in(self, layer: int) -> int:
        """Width of a layer's input."""
        if layer == 0:
            return self.in_width
        return self.hidden * (self.heads if self.name == "gat" else 1)

    def width_out(self, layer: int) -> int:
        """Width of a layer's output, of one head for gat; sgc and lightgcn propagate what they put out."""
        if self.name in ("sgc", "lightgcn"):
            return self.hidden if self.head == "linear" else self.classes
        return self.classes if self.is_last(layer) and self.head == "none" else self.hidden

    def activation(self) -> str:
        """Name of the activation between layers."""
        return "elu" if self.name == "gat" else "relu"

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """Canonical names and shapes of all parameters, in order."""
        shapes: dict[str, tuple[int, ...]] = {}
        for layer in range(self.layers):
            shapes |= {f"layers.{layer}.{name}": shape for name, shape in self._layer_parameters(layer).items()}
        if self.head == "linear":
            shapes |= {"head.weight": (self.width_out(self.layers - 1), self.classes), "head.bias": (self.classes,)}
        return shapes

    def _layer_parameters(self, layer: int) -> dict[str, tuple[int, ...]]:
        if self.propagates:
            return self._propagation_parameters(layer)
        in_width, out, heads = self.width_in(layer), self.width_out(layer), self.heads_of(layer)
        if self.name == "gcn":
            return {"weight": (in_width, out), "bias": (out,)}
        if self.name == "sage":
            return {"weight_self": (in_width, out), "weight_neigh": (in_width, out), "bias": (out,)}
        bias = out if self.is_last(layer) else heads * out
        vectors = dict.fromkeys(("att_src", "att_dst"), (heads, out))
        edge = {"weight_edge": (self.edge_width, heads * out), "att_edge": (heads, out)} if self.edge_width else {}
        return {"weight": (in_width, heads * out), **vectors, **edge, "bias": (bias,)}

    def _propagation_parameters(self, layer: int) -> dict[str, tuple[int, ...]]:
        out = self.width_out(self.layers - 1)
        if self.name == "ngcn":
            last = {"combine": (self.layers * out, out), "bias": (out,)} if self.is_last(layer) else {}
            return {"weight": (self.in_width, self.hidden), "weight_out": (self.hidden, out), **last}
        if layer > 0:
            return {}
        return {"weight": (self.in_width, out)} | ({"bias": (out,)} if self.name == "sgc" else {})


def dense_multiplications(spec: ModelSpec) -> list[tuple[int, int, bool]]:
    """Depth and columns of the dense products of a model of propagations, and whether their input has a gradient."""
    out = spec.width_out(spec.layers - 1)
    if spec.name != "ngcn":
        return [(spec.in_width, out, False)]
    instances = [(spec.hidden, out, True)] * spec.layers
    return [(spec.in_width, spec.layers * spec.hidden, False), *instances, (spec.layers * out, out, True)]


@dataclass(frozen=True)
class TrainingSpec:
    """How a model is trained; ``decay`` is L2 on all parameters, or on those of the first layer only.

    ``dropout`` falls on the input of every layer, ``attention_dropout`` on gat's normalised scores.
    """

    optimizer: str = "adam"
    rate: float = 0.01
    decay: float = 0.0
    decay_on: str = "all"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    epochs: int = 200
    patience: int = 0
    threads: int = 2
    device: str = "cpu"
    dtype: str = "float32"
    seed: int = 0

    def without_dropout(self) -> "TrainingSpec":
        """The same training without any dropout, for what the parity gate compares without it."""
        return TrainingSpec(**(asdict(self) | {"dropout": 0.0, "attention_dropout": 0.0}))


def initial_state(spec: ModelSpec, seed: int) -> State:
    """Draw the canonical parameters: Glorot uniform weights and attention vectors, zero biases (Glorot 2010)."""
    state: State = {}
    for name, shape in spec.parameters().items():
        if name.endswith("bias"):
            state[name] = np.zeros(shape, dtype=np.float32)
            continue
        generator = np.random.Generator(np.random.Philox(key=stream(seed, name)))
        bound = (6.0 / sum(shape)) ** 0.5
        state[name] = generator.uniform(-bound, bound, shape).astype(np.float32)
    return state


def model_spec(values: dict[str, Any], in_width: int, classes: int, edge_width: int = 0) -> ModelSpec:
    """Complete a configured model with the widths of its data set; gat alone reads the features of edges."""
    widths = {"in_width": in_width, "classes": classes, "edge_width": edge_width if values["name"] == "gat" else 0}
    return ModelSpec(**(values | widths | {"fanouts": tuple(values["fanouts"])}))
