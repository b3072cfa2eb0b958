"""Published counts of each imitated graph, with the assumed degree skew, communities and splits."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LookalikeShape:
    """Counts of a published graph and the parameters of its imitation.

    ``pairs`` counts undirected edges once, without self loops. ``tail`` is the exponent of ``P(weight > x) ~ x^-tail``
    and ``hub`` the largest weight over the mean weight. ``inside`` is the share of edges inside a community,
    ``community`` its mean size (a multiclass graph has at least as many communities as classes). ``split`` is the
    share of training and validation nodes, or for several graphs the number of training and validation graphs.
    """

    nodes: int
    pairs: int
    features: int
    classes: int
    published_edges: int
    tail: float
    hub: float
    inside: float
    community: int
    split: tuple[float, float]
    default_scale: float
    graphs: int = 1
    task: str = "multiclass"
    counting: str = "published edges are directed and count one self loop per node; held without"

    @property
    def published(self) -> dict[str, int]:
        """The published counts, by the names that ``Graph.counts`` uses."""
        return {
            "nodes": self.nodes,
            "edges": self.published_edges,
            "features": self.features,
            "classes": self.classes,
        }


def _with_loops(nodes: int, edges: int, **options: Any) -> LookalikeShape:
    return LookalikeShape(nodes=nodes, published_edges=edges, pairs=(edges - nodes) // 2, **options)


SHAPES = {
    "lookalike_reddit": _with_loops(
        232_965, 114_848_857, features=602, classes=41, tail=1.2, hub=40, inside=0.75, community=5700,
        split=(0.66, 0.10), default_scale=0.05,
    ),
    "lookalike_proteins": _with_loops(
        132_534, 79_255_038, features=602, classes=8, tail=2.0, hub=12, inside=0.75, community=2000,
        split=(0.65, 0.16), default_scale=0.1,
    ),
    "lookalike_archaea": _with_loops(
        1_644_228, 206_436_882, features=602, classes=10, tail=2.0, hub=15, inside=0.85, community=400,
        split=(0.60, 0.20), default_scale=0.0125,
    ),
    "lookalike_products": _with_loops(
        2_449_029, 126_167_181, features=100, classes=47, tail=1.4, hub=300, inside=0.80, community=500,
        split=(0.08, 0.02), default_scale=0.01,
    ),
    "lookalike_ppi": LookalikeShape(
        nodes=56_944, published_edges=818_716, pairs=818_716 - 25_084, features=50, classes=121, tail=1.6, hub=20,
        inside=0.50, community=200, split=(20, 2), default_scale=0.35, graphs=24, task="multilabel",
        counting="published edges are undirected and hold 25,084 self loops; held directed and without",
    ),
}  # fmt: skip
