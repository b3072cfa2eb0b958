"""Recovers the masks that an engine's dropout drew, from its logits alone.

The graph has pairs of nodes: a target and the source of its two parallel in-edges. The parameters of a probe copy
single entries of a layer's input to the logits. What the definition says for each value that the masks may have is
compared with what the engine says. Masks repeat after ``Trainer.load``, which seeds the random numbers again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.model import ModelSpec, State
from backends.registry import load_object
from datasets.csr import csr_from_edges
from datasets.features import in_layout
from datasets.graph import Graph

DEFINITION = "backends.reference.definition"
PAIRS = 256
WIDTH = 8  # of the input of every layer, and of the logits
HEADS = 2
LAST_VALUES = range(3), range(2)  # kept parallel edges, kept self loop
Array = NDArray[np.floating]


@dataclass
class Recovered:
    """Masks, the share of entries that were dropped, their number, and the logits' largest distance from any masks'.

    ``largest`` is the definition's largest logit; it and ``distance``, which may be NaN, are multiples of the scale.
    """

    masks: Any
    rate: float
    entries: int
    distance: float
    largest: float


def pairs_graph(sparse: bool = False) -> Graph:
    """Pairs of a source (even) and a target (odd), joined by two parallel edges; the targets have labels.

    ``sparse`` stores all features in compressed rows.
    """
    random = np.random.Generator(np.random.Philox(key=23))
    nodes, target = 2 * PAIRS, np.arange(2 * PAIRS) % 2 == 1
    ends = np.repeat(np.arange(PAIRS), 2)
    features = random.uniform(1.0, 1.5, (nodes, WIDTH)) * np.where(target, 1.0, 3.0)[:, None]
    return Graph(
        "pairs",
        csr_from_edges(2 * ends, 2 * ends + 1, (nodes, nodes)),
        features=in_layout(features.astype(np.float32), "sparse" if sparse else "dense"),
        labels=np.where(target, random.integers(0, WIDTH, nodes), -1),
        split=np.where(target, 0, 3).astype(np.int8),
        classes=WIDTH,
        task="multiclass",
    )


def pairs_spec(model: str, layers: int) -> ModelSpec:
    """A model of one or two layers whose inputs have ``WIDTH`` columns."""
    hidden, heads = (WIDTH // HEADS, HEADS) if model == "gat" else (WIDTH, 1)
    return ModelSpec(model, min(layers, 2), WIDTH, hidden, WIDTH, heads=heads)


def _copying_state(spec: ModelSpec, shift: int, shifted: int, bias: tuple[int, float] = (-1, 0.0)) -> State:
    """Layers that copy columns, layer ``shifted`` to columns ``shift`` further; no attention scores.

    ``bias`` is a layer's number and its biases.
    """
    state = {name: np.zeros(shape, dtype=np.float32) for name, shape in spec.parameters().items()}
    if spec.name == "ngcn":
        return state | _summing_instances(spec, shift)
    for layer in range(spec.layers):
        copy = np.roll(np.eye(WIDTH, dtype=np.float32), shift if layer == shifted else 0, axis=1)
        for name, factor in (("weight", 1), ("weight_self", 1), ("weight_neigh", 2)):
            if f"layers.{layer}.{name}" in state:
                state[f"layers.{layer}.{name}"] = factor * copy
        if layer == bias[0]:
            state[f"layers.{layer}.bias"] += bias[1]
    return state


def _summing_instances(spec: ModelSpec, shift: int) -> State:
    """Weights of ngcn that copy columns in every instance and add the instances up."""
    eye = np.eye(WIDTH, dtype=np.float32)
    weights = {f"layers.{k}.weight": np.roll(eye, shift, axis=1) for k in range(spec.layers)}
    outputs = {f"layers.{k}.weight_out": eye for k in range(spec.layers)}
    return weights | outputs | {f"layers.{spec.layers - 1}.combine": np.tile(eye, (spec.layers, 1))}


def _constant_input(spec: ModelSpec, layer: int, state: State) -> State:
    """The same state, but the input of ``layer`` is 1 everywhere."""
    if layer == 0:
        return state
    below = f"layers.{layer - 1}."
    zeros = {name: np.zeros_like(value) for name, value in state.items() if name.startswith(below)}
    return state | zeros | {f"{below}bias": np.ones_like(state[f"{below}bias"])}


class Probe:
    """An engine's trainer and the definition on the pairs, asked for the logits of the targets."""

    def __init__(self, engine: Any, graph: Graph, spec: ModelSpec, rate: float) -> None:
        self.engine, self.graph, self.spec, self.scale = engine, graph, spec, 1.0 / (1.0 - rate)
        self.targets = graph.nodes_of("train")
        self.distance = self.largest = 0.0

    def logits(self, state: State) -> Array:
        """What the engine computes while it trains, by the masks that it draws first."""
        self.engine.load(state)
        logits: Array = self.engine.loss_and_gradients(self.targets)[0]
        return logits

    def differences(self, state: State, guesses: Iterator[Any]) -> Array:
        """Distances of the engine's logits [guesses, targets, classes] from the definition's under each guess."""
        logits, scores = self.logits(state), load_object(f"{DEFINITION}:scores")
        guessed = np.stack([scores(self.graph, self.spec, state, self.targets, masks=masks) for masks in guesses])
        self.largest = max(self.largest, float(np.abs(guessed).max()) / self.scale)
        away: Array = np.abs(logits - guessed)
        return away

    def _keep_distance(self, away: Array) -> None:
        """Remember the largest distance of an entry from the nearest guess."""
        # not Python's max, which may drop a NaN
        self.distance = float(np.maximum(self.distance, away.min(0).max() / self.scale))

    def inputs(self) -> Recovered:
        """The masks of the layers' inputs, from the last layer to the first."""
        masks = [np.full((self.graph.nodes, WIDTH), self.scale) for _ in range(self.spec.drops)]
        dropped = []
        for layer in reversed(range(self.spec.drops)):
            retained, sure = self._input(layer, masks)
            masks[layer] = retained * self.scale
            dropped.append(~retained[sure])
        every = np.concatenate(dropped)
        rate = float(every.sum()) / max(len(every), 1)  # NaN among the logits may tell of no entry
        return Recovered(_masks(inputs=tuple(masks)), rate, len(every), self.distance, self.largest)

    def _input(self, layer: int, masks: list[Array]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which entries of a layer's input [nodes, width] are retained, and for which of them the logits tell it.

        An entry that reaches no logit by one shift of the columns may do so by another.
        """
        retained = np.ones((self.graph.nodes, WIDTH), dtype=bool)
        margin = np.zeros(retained.shape)
        values = list(product((0.0, self.scale), repeat=2))  # of a pair's source, of its target
        for shift in range(WIDTH):
            state = _constant_input(self.spec, layer, _copying_state(self.spec, shift, layer))
            away = self.differences(state, (_masks(inputs=self._guess(masks, layer, pair)) for pair in values))
            self._keep_distance(away)
            away = np.roll(away, -shift, axis=2).reshape(2, 2, PAIRS, WIDTH)
            for first, axis in ((0, 1), (1, 0)):  # rows of the sources, of the targets
                if_dropped, if_retained = away.min(axis)
                rows = slice(first, None, 2)
                clearer = np.abs(if_dropped - if_retained) > margin[rows]
                retained[rows] = np.where(clearer, if_dropped > if_retained, retained[rows])
                margin[rows] = np.maximum(margin[rows], np.abs(if_dropped - if_retained))
        return retained, margin > 1e-2

    def _guess(self, masks: list[Array], layer: int, pair: tuple[float, ...]) -> tuple[Array, ...]:
        guess = np.tile(np.array(pair)[:, None], (PAIRS, WIDTH))
        return tuple(guess if number == layer else mask for number, mask in enumerate(masks))

    def attention(self) -> Recovered:
        """The masks of attention, [edges and self loops, heads] per layer, all layers at once.

        The scores of the last layer depend on one head of the first layer at a time.
        """
        if self.spec.layers == 1:
            guesses = np.array(list(product(range(3), range(2))))
            away = self._attention_differences(guesses, _copying_state(self.spec, 0, 0)).max(3)
            self._keep_distance(away)
            best = guesses[away.argmin(0)]
            masks = self._attention_masks(best[:, :, 0], best[:, :, 1])
            entries = 3 * best[:, :, 0].size
            return Recovered(masks, float(1 - best.sum() / entries), entries, self.distance, self.largest)
        guesses = np.array(list(product(range(3), range(2), range(2), *LAST_VALUES)))
        per_head = np.stack(
            [
                self._attention_differences(guesses, self._scored_state(head))[:, :, head].max(2)
                for head in range(HEADS)
            ],
            2,
        )
        last_values = np.array(list(product(*LAST_VALUES)))
        together = np.array([per_head[(guesses[:, 3:] == last).all(1)].min(0).max(1) for last in last_values])
        last = last_values[together.argmin(0)]
        self._keep_distance(together)
        agrees = (guesses[:, None, 3:] == last).all(2)
        first = guesses[np.where(agrees[:, :, None], per_head, np.inf).argmin(0)]
        return self._recovered(first[:, :, :2], first[:, :, 2], last)

    def _scored_state(self, head: int) -> State:
        """Layers that copy columns; in the last one, scores of the columns that a head of the first one wrote."""
        state = _copying_state(self.spec, 0, 0, (0, 1.0))
        width = WIDTH // HEADS
        state["layers.1.att_src"][:, head * width : (head + 1) * width] = np.linspace(0.05, 0.2, width)
        return state

    def _attention_differences(self, guesses: NDArray[np.integer], state: State) -> Array:
        """Distances [guesses, targets, heads of the first layer, columns] under guessed masks of attention."""
        away = self.differences(state, (self._attention_masks(*guess) for guess in guesses))
        return away.reshape(len(guesses), PAIRS, self.spec.heads_of(0), -1)

    def _recovered(self, first: Any, loops: Any, last: Any) -> Recovered:
        """The masks of two layers; counts those entries of the first that the last one lets through."""
        masks = self._attention_masks(first[:, :, 0], first[:, :, 1], loops, last[:, :1], last[:, 1:])
        visible, visible_loops = first[last[:, 1] == 1], loops[last[:, 0] > 0]
        entries = 3 * visible[:, :, 0].size + visible_loops.size + 3 * len(last)
        retained = visible.sum() + visible_loops.sum() + last.sum()
        return Recovered(masks, float(1 - retained / entries), entries, self.distance, self.largest)

    def _attention_masks(
        self, edges: Any, own: Any, source: Any = 1, last_edges: Any = None, last_own: Any = None
    ) -> Any:
        """Masks from how many of each target's two edges are kept, and whether the self loops of each pair are."""
        masks = [self._layer_masks(edges, own, source, self.spec.heads_of(0))]
        if last_edges is not None:
            masks.append(self._layer_masks(last_edges, last_own, 1, 1))
        return _masks(attention=tuple(masks))

    def _layer_masks(self, edges: Any, own: Any, source: Any, heads: int) -> Array:
        shape = (PAIRS, heads)
        edges, own, source = (np.broadcast_to(np.asarray(values), shape) for values in (edges, own, source))
        parallel = np.stack((edges > 0, edges > 1), 1).reshape(2 * PAIRS, heads)
        loops = np.stack((source, own), 1).reshape(2 * PAIRS, heads)
        return np.concatenate((parallel, loops)) * self.scale


def moved(masks: Any, rows: int) -> Any:
    """The same masks some rows further, which might as well have been drawn."""
    parts = {"inputs": masks.inputs, "attention": masks.attention}
    return _masks(**{name: tuple(np.roll(mask, rows, axis=0) for mask in part) for name, part in parts.items()})


def _masks(**masks: Any) -> Any:
    return load_object(f"{DEFINITION}:Masks")(**masks)
