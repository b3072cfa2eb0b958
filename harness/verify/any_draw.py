"""Parity gate of training on an engine's own draws: a graph on which output and loss are the same whatever is drawn.

Nodes are of two kinds, which have equal features each. All have equally many in-edges, more than are drawn, and all
from nodes of the other kind. A self loop that is lost, added or counted twice, or a weight by the drawn in place of the
whole in-degree, still changes the output.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from backends.contract import Floats
from datasets.csr import csr_from_edges
from datasets.features import SparseFeatures, dense_features, in_layout
from datasets.graph import Graph
from harness.planning.schema import RunConfig
from harness.verify.comparison import Answer, verify_all
from harness.verify.draws import DEGREE, FANOUT
from harness.verify.epochs import EPOCHS, EpochsSubject
from harness.verify.graphs import small_graph
from harness.verify.models import ModelSubject
from harness.verify.steps import verify_tried

NODES = 256
KINDS = (0, 2)  # rows of the small graph; of few features, row 1 has none
NAME = "a graph of two kinds of nodes"
OF_EPOCHS = f"{EPOCHS} epochs on {NAME}"


def verify_any_draw(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Compare an engine on nodes of two kinds, with arrays like those of ``graph``; raises Incorrect.

    Returns what ``verify_all`` returns, also of the losses of epochs; empty without fanouts, and for an engine whose
    batches and epochs are on the definition's draws.
    """
    backend = config.backend.for_parity_gate()
    parity: dict[str, Any] = {}
    if not config.model.fanouts:
        return {}
    if "train" not in backend.draws:
        parity |= verify_all(config, {NAME: AnyDrawSubject(config, graph)})
    if "train" not in backend.draws or not backend.draws_in_epochs:
        parity |= verify_tried(config, OF_EPOCHS, AnyDrawEpochs(config, graph))
    return parity


class AnyDrawSubject(ModelSubject):
    """An engine whose batches are drawn by its own sampler; logits and loss, no gradients.

    Those of attention nearly cancel there, so that little but rounding would be compared.
    """

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        super().__init__(config, two_kinds(graph))
        self.spec = self.engine_spec = replace(self.spec, fanouts=(FANOUT,) * self.spec.layers)

    def answer(self, seed: int) -> Answer:
        """Let the engine compute on its own draws."""
        return _without_gradients(super().answer(seed))

    def definition(self, seed: int, arithmetic: Any) -> Answer:
        """Compute the same on other draws."""
        return _without_gradients(super().definition(seed, arithmetic))


class AnyDrawEpochs(EpochsSubject):
    """An engine whose epochs are drawn by its own sampler; their losses."""

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        super().__init__(config, two_kinds(graph))
        self.spec = self.engine_spec = replace(self.spec, fanouts=(FANOUT,) * self.spec.layers)


def two_kinds(graph: Graph) -> Graph:
    """Even and odd nodes, each with in-edges from the others, and with columns as ``graph`` has them."""
    edge_width = 0 if graph.edge_features is None else graph.edge_features.shape[1]
    weighted = graph.edge_weights is not None
    small = small_graph(graph.task, graph.classes, weighted=weighted, nodes=NODES, edge_width=edge_width)
    assert small.features is not None
    random = np.random.Generator(np.random.Philox(key=31))
    ends = np.repeat(np.arange(NODES), DEGREE)
    csr = csr_from_edges((ends + 2 * random.integers(0, NODES // 2, len(ends)) + 1) % NODES, ends, (NODES, NODES))
    features = np.tile(dense_features(small.features, "the gate")[list(KINDS)], (NODES // 2, 1))
    return replace(
        small,
        csr=csr,
        features=in_layout(features, "sparse") if isinstance(graph.features, SparseFeatures) else features,
        edge_weights=None if small.edge_weights is None else _repeated(small.edge_weights, csr.nnz),
        edge_features=None if small.edge_features is None else _repeated(small.edge_features, csr.nnz),
    )


def _repeated(rows: Floats, count: int) -> Floats:
    """The first row, so many times."""
    return np.repeat(rows[:1], count, axis=0)


def _without_gradients(answer: Answer) -> Answer:
    output, loss, _ = answer
    return output, loss, {}
