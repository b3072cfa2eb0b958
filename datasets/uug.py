"""UUG, the industrial user-user graph of AGL (VLDB 2020), as a synthetic data set: its published form is not public."""

from typing import Any

import numpy as np

from datasets.csr import Csr, index_dtype
from datasets.graph import Graph
from datasets.synthetic import options_from, with_content_hash
from datasets.uug_stream import UugOptions, partition

PUBLISHED = {"nodes": 6_230_000_000, "edges": 338_000_000_000, "features": 656, "classes": 2}
NOTES = (
    "synthetic: power-law in-degrees, communities of about 500 nodes, labels that lean with the community",
    "labelled 60 % (train 30, validation 10, test 20); published: 2.2 %, as 1.2e8, 5e6, 1.5e7 nodes",
    "average in-degree 20 unless told; published: 54",
)


def load(name: str, options: dict[str, Any]) -> Graph:
    """Generate the whole graph: its partitions, one after the other, in one memory.

    Options are those of ``UugOptions``; raises ValueError for others. The number of partitions does not change it.
    """
    scale = options_from(UugOptions, name, options)
    parts = [partition(scale, index) for index in range(scale.partitions)]
    destinations = np.concatenate([part.destinations for part in parts])
    sources = np.concatenate([part.sources for part in parts])
    dtype = index_dtype(max(scale.nodes, len(sources)))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(destinations, minlength=scale.nodes))))
    graph = Graph(
        name=name,
        csr=Csr(indptr.astype(dtype), sources.astype(dtype), (scale.nodes, scale.nodes)),
        features=np.concatenate([part.features for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        split=np.concatenate([part.split for part in parts]),
        classes=2,
        task="multiclass",
        synthetic=True,
        published=PUBLISHED,
        notes=NOTES,
    )
    return with_content_hash(graph)
