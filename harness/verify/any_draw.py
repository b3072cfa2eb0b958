"""Parity gate of training on an engine's own draws: a graph on which output and loss are the same whatever is drawn.

All nodes have equal features and equally many in-edges, more than are drawn. A self loop that is lost or counted twice,
or a weight by the drawn in place of the whole in-degree, still changes the output.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from backends.contract import Floats
from datasets.features import SparseFeatures, dense_features, in_layout
from datasets.graph import Graph
from harness.planning.schema import RunConfig
from harness.verify.comparison import Answer, verify_all
from harness.verify.draws import FANOUT, regular_graph
from harness.verify.graphs import small_graph
from harness.verify.models import ModelSubject

NODES = 256
NAME = "a graph of equal nodes"


def verify_any_draw(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Compare an engine on the graph of equal nodes with the kinds of arrays of ``graph``; raises Incorrect.

    Returns what ``verify_all`` returns; empty without fanouts, and for an engine that trains on the definition's draws.
    """
    if not config.model.fanouts or "train" in config.backend.for_parity_gate().draws:
        return {}
    return verify_all(config, {NAME: AnyDrawSubject(config, graph)})


class AnyDrawSubject(ModelSubject):
    """An engine with a sampler of its own on the graph of equal nodes; logits and loss, no gradients.

    Gradients of attention cancel there, so that nothing but rounding would be compared.
    """

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        super().__init__(config, equal_nodes(graph))
        self.spec = self.engine_spec = replace(self.spec, fanouts=(FANOUT,) * self.spec.layers)

    def answer(self, seed: int) -> Answer:
        """Let the engine compute on its own draws."""
        return _without_gradients(super().answer(seed))

    def definition(self, seed: int, arithmetic: Any) -> Answer:
        """Compute the same on other draws."""
        return _without_gradients(super().definition(seed, arithmetic))


def equal_nodes(graph: Graph) -> Graph:
    """A regular graph with labels, features and columns of edges of the kinds that ``graph`` has."""
    edge_width = 0 if graph.edge_features is None else graph.edge_features.shape[1]
    weighted = graph.edge_weights is not None
    small = small_graph(graph.task, graph.classes, weighted=weighted, nodes=NODES, edge_width=edge_width)
    assert small.features is not None
    csr = regular_graph(NODES).csr
    features = _repeated(dense_features(small.features, "the gate"), NODES)
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
