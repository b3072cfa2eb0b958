"""Refusals of edge weights and fanouts, which an engine on torch would otherwise silently ignore."""

from backends.contract import Unsupported
from backends.model import ModelSpec
from backends.model_names import WEIGHTED
from datasets.graph import Graph


def refuse_weights(graph: Graph, spec: ModelSpec) -> None:
    """Raise Unsupported for edge weights under a model that ignores them."""
    if graph.edge_weights is not None and spec.name not in WEIGHTED:
        allowed = ", ".join(WEIGHTED)
        raise Unsupported(f"model {spec.name} takes no edge weights, which {graph.name} has: choose model={allowed}")


def refuse_fanouts(spec: ModelSpec, backend: str, advice: str = "choose backend=agl, or model.fanouts=[]") -> None:
    """Raise Unsupported for fanouts in a backend that reads all neighbours; the message ends with ``advice``."""
    if spec.fanouts:
        raise Unsupported(
            f"backend {backend} reads all neighbours here, not model.fanouts={list(spec.fanouts)}: {advice}"
        )
