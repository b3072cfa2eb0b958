"""Generator of UUG: a synthetic stand-in for the industrial user-user graph of AGL (VLDB 2020), never published."""

from typing import Any

import numpy as np

from datasets.csr import Csr, index_dtype
from datasets.graph import Graph
from datasets.options import options_from
from datasets.synthetic.content_hash import with_content_hash
from datasets.synthetic.uug_partition import UugOptions, uug_partition

PUBLISHED = {"nodes": 6_230_000_000, "edges": 338_000_000_000, "features": 656, "classes": 2}
NOTES = (
    "synthetic: power-law in-degrees, communities of about 500 nodes, labels that lean with the community",
    "labelled 60 % (train 30, validation 10, test 20); published: 2.2 %, as 1.2e8, 5e6, 1.5e7 nodes",
    "average in-degree 20 unless told; published: 54",
)


def load(name: str, options: dict[str, Any]) -> Graph:
    """Generate the whole graph, partition by partition.

    Options are those of ``UugOptions``; raises ValueError for others. The graph does not depend on ``partitions``.
    """
    uug = options_from(UugOptions, name, options)
    parts = [uug_partition(uug, index) for index in range(uug.partitions)]
    destinations = np.concatenate([part.destinations for part in parts])
    sources = np.concatenate([part.sources for part in parts])
    dtype = index_dtype(max(uug.nodes, len(sources)))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(destinations, minlength=uug.nodes))))
    graph = Graph(
        name=name,
        csr=Csr(indptr.astype(dtype), sources.astype(dtype), (uug.nodes, uug.nodes)),
        features=np.concatenate([part.features for part in parts]),
        edge_features=None if not uug.edge_features else np.concatenate([part.edge_features for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        split=np.concatenate([part.split for part in parts]),
        classes=2,
        task="multiclass",
        synthetic=True,
        published=PUBLISHED,
        notes=NOTES,
    )
    return with_content_hash(graph)
