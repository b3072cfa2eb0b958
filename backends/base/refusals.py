"""Refusals of columns of the edges and of fanouts, which an engine on torch would otherwise silently ignore."""

from backends.contract import Unsupported
from backends.model import ModelSpec
from backends.model_names import WEIGHTED
from datasets.graph import Graph


def refuse_columns(graph: Graph, spec: ModelSpec) -> None:
    """Raise Unsupported for weights or features of edges under a model that ignores them."""
    if graph.edge_weights is not None and "weight" not in spec.edge_columns:
        allowed = ", ".join(WEIGHTED)
        raise Unsupported(
            f"model {spec.name} takes no edge weights, which {graph.name} has: "
            f"set model to one of {allowed} (in mini batches gcn alone)"
        )
    if graph.edge_features is not None and "features" not in spec.edge_columns:
        raise Unsupported(
            f"model {spec.name} takes no edge features, which {graph.name} has: leave out dataset.options.edge_features"
        )


def refuse_fanouts(spec: ModelSpec, backend: str, advice: str = "choose backend=agl, or model.fanouts=[]") -> None:
    """Raise Unsupported for fanouts in a backend that reads all neighbours; the message ends with ``advice``."""
    if spec.fanouts:
        raise Unsupported(
            f"backend {backend} reads all neighbours here, not model.fanouts={list(spec.fanouts)}: {advice}"
        )
