"""What an engine on torch refuses because it would silently ignore it."""

from backends.contract import Unsupported
from backends.model import ModelSpec
from datasets.graph import Graph


def refuse_weights(graph: Graph, spec: ModelSpec) -> None:
    """Raise Unsupported for edge weights that a model would silently drop: only gcn takes them."""
    if graph.edge_weights is not None and spec.name != "gcn":
        raise Unsupported(f"model {spec.name} takes no edge weights, which {graph.name} has: choose model=gcn")


def refuse_fanouts(spec: ModelSpec, engine: str, instead: str = "choose backend=agl, or model.fanouts=[]") -> None:
    """Raise Unsupported for fanouts that an engine would silently ignore."""
    if spec.fanouts:
        raise Unsupported(
            f"backend {engine} reads all neighbours here, not model.fanouts={list(spec.fanouts)}: {instead}"
        )
