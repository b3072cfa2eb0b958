"""Parity gate of dropout: its rate, its scale, the gradient under the masks that were drawn, none in prediction.

Epochs must drop too, after a prediction as before it, and each other entries.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from backends.batches import BatchPlan
from backends.contract import Nodes
from backends.model import TrainingSpec, initial_state
from backends.registry import load_object, runtime
from datasets.randomness import permutation
from harness.measure.clock import Clock
from harness.planning.schema import RunConfig
from harness.scenario.setup import training_of
from harness.verify.comparison import ALLOWED, TRIES, UNITS, Answer, compare, expected_of, raise_if_wrong
from harness.verify.masks import DEFINITION, Probe, Recovered, moved, pairs_graph, pairs_spec
from harness.verify.models import state_of
from harness.verify.outcome import Incorrect

SIGMAS = 6.0
NEAR = 1e-3  # at least, as a multiple of the scale: logits further from those of every mask have another scale
FEW = 64  # entries: as many must be dropped, and retained, for masks to show in every epoch's loss
DRAWS = 4  # of masks, by which the spread of losses is estimated
CLEAR = 16.0  # times what rounding may do to a loss: of such a spread two epochs seldom are that near by chance


def verify_dropout(config: RunConfig, sparse: bool = False) -> dict[str, Any]:
    """Check the dropout of the layers' inputs and that of attention, each alone; raises Incorrect.

    ``sparse`` gives the engine sparse features. Returns per kind what ``compare`` returns, the share of the entries
    that were dropped, and their number.
    """
    training = training_of(config)
    parity: dict[str, Any] = {}
    kinds = {"dropout": training.dropout}
    if config.model.name == "gat":
        kinds["attention_dropout"] = training.attention_dropout
    for kind, rate in kinds.items():
        if rate > 0:
            without = training.without_dropout()
            only = replace(without, dropout=rate) if kind == "dropout" else replace(without, attention_dropout=rate)
            parity |= _verify_kind(config, kind.replace("_", " "), DropoutSubject(config, only, sparse), rate, parity)
    return parity


def _verify_kind(
    config: RunConfig, kind: str, subject: "DropoutSubject", rate: float, parity: dict[str, Any]
) -> dict[str, Any]:
    """Recover the masks of one kind, then compare under them, and without them in prediction."""
    try:
        probe = Probe(subject.engine, subject.graph, subject.spec, rate)
        drawn = probe.attention() if kind.startswith("attention") else probe.inputs()
        if wrong := _wrong_rate(drawn, rate, UNITS[config.training.dtype]):
            parity[kind] = {"rate": drawn.rate, "entries": drawn.entries}
            raise Incorrect(f"backend {config.backend.name} computes another {kind}: {wrong}", parity)
        subject.masks = drawn.masks
        for name, predicts in ((kind, False), (f"prediction after {kind}", True)):
            subject.predicts = predicts
            parity[name] = compare(subject, config.seed, UNITS[config.training.dtype])
            raise_if_wrong(config, name, parity)
        if min(rate, 1 - rate) * drawn.entries >= FEW and (wrong := _wrong_epochs(subject, config)):
            raise Incorrect(f"backend {config.backend.name} computes another {kind}: {wrong}", parity)
    finally:
        subject.engine.close()
    parity[kind] |= {"rate": drawn.rate, "entries": drawn.entries}
    return parity


def _wrong_rate(drawn: Recovered, rate: float, unit: float) -> str:
    """A sentence on how the masks differ from those of a rate, empty if they do not.

    Where rounding takes logits further than to the next mask, those under the masks are compared all the same.
    """
    near = max(NEAR, ALLOWED * unit * drawn.largest)
    if not (drawn.entries and drawn.distance <= near):
        return f"an entry is neither 0 nor multiplied by 1 / (1 - {rate:g}), or its mask does not repeat after load"
    if abs(drawn.rate - rate) > SIGMAS * (rate * (1 - rate) / drawn.entries) ** 0.5:
        return f"{drawn.rate:.3f} of {drawn.entries} entries are dropped, {rate:g} is the rate"
    return ""


def _wrong_epochs(subject: "DropoutSubject", config: RunConfig) -> str:
    """A sentence on how epochs after a prediction drop nothing or the same, empty if they do not, from some state.

    Which entries an epoch drops is not known, as batches may be composed otherwise than ``loss_and_gradients`` does. A
    state tells nothing where rounding may change the loss nearly as much as other masks do, which is so in bf16.
    """
    masks, engine, wrong = subject.masks, subject.engine, ""
    subject.masks, subject.predicts = None, False
    for state in range(config.seed, config.seed + TRIES):
        without = expected_of(subject, state, UNITS[config.training.dtype])
        near = ALLOWED * without.deviations["loss"]
        if subject.spread(state, masks) < CLEAR * near:
            continue
        engine.load(state_of(subject.spec, state, subject.graph))
        engine.predict(subject.graph, subject.targets)
        first, second = (engine.epoch(index, Clock()) for index in range(2))
        if not abs(first - without.tensors["loss"]) > near:
            wrong = "an epoch after a prediction drops nothing"
        elif not abs(first - second) > near:
            wrong = "two epochs drop the same entries"
        else:
            return ""
    return wrong


class DropoutSubject:
    """One trainer on the graph of pairs; the state's seed draws its parameters, its masks are the same in all calls.

    Its steps are 0, so that epochs differ by their masks alone.
    """

    def __init__(self, config: RunConfig, training: TrainingSpec, sparse: bool) -> None:
        self.graph, self.spec = pairs_graph(sparse), pairs_spec(config.model.name, config.model.layers)
        self.targets = self.graph.nodes_of("train")
        self.predicted = self.targets[permutation(config.seed, "predicted nodes", len(self.targets))]
        self.masks: Any = None
        self.predicts = False
        self.engine = runtime(config.backend.for_parity_gate(), "train")
        size = None if config.training.batch_size is None else len(self.targets)
        plan = BatchPlan(self.targets, size, None, config.seed)
        training = replace(training, rate=0.0)
        self.engine.prepare(self.graph, self.spec, training, initial_state(self.spec, 0), plan, Clock())

    def answer(self, seed: int) -> Answer:
        """Let the trainer compute, or predict after it has trained."""
        self.engine.load(state_of(self.spec, seed, self.graph))
        logits, loss, gradients = self.engine.loss_and_gradients(self.targets)
        if self.predicts:
            return self.engine.predict(self.graph, self.predicted), None, {}
        return logits, float(loss), gradients

    def definition(self, seed: int, arithmetic: Any) -> Answer:
        """Compute the same from the definition, under the masks."""
        if self.predicts:
            return self._defined("scores", seed, self.predicted, arithmetic, None), None, {}
        answer: Answer = self._defined("loss_and_gradients", seed, self.targets, arithmetic, self.masks)
        return answer

    def spread(self, seed: int, masks: Any) -> float:
        """How far apart the definition's losses are under masks as epochs might draw them, ``masks`` among them."""
        draws = [moved(masks, rows) for rows in range(DRAWS)]
        losses = [self._defined("loss_and_gradients", seed, self.targets, None, draw)[1] for draw in draws]
        return float(np.ptp(losses))

    def _defined(self, function: str, seed: int, nodes: Nodes, arithmetic: Any, masks: Any) -> Any:
        state = state_of(self.spec, seed, self.graph)
        return load_object(f"{DEFINITION}:{function}")(self.graph, self.spec, state, nodes, 0, arithmetic, masks)
