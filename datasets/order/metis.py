"""Order by METIS clusters, numbered one after the other."""

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr
from datasets.order.symmetric import symmetric


def metis(csr: Csr, seed: int = 0, cluster: int = 200) -> NDArray[np.int64]:
    """Cut A + A^T into ``nodes // cluster`` parts of few crossing edges (Karypis and Kumar 1998).

    Parts are numbered one after the other, ties by id. Equal seeds give equal orders on one version and platform.
    """
    if cluster < 1:
        raise ValueError(f"order metis with cluster={cluster}: allowed are 1 and more nodes per cluster, such as 200")
    parts = csr.shape[0] // cluster
    if parts < 2:
        return np.arange(csr.shape[0], dtype=np.int64)
    import pymetis

    both = symmetric(csr)
    adjacency = pymetis.CSRAdjacency(both.indptr, both.indices)
    cut = pymetis.part_graph(parts, adjacency, options=pymetis.Options(seed=seed & 0x7FFFFFFF))
    return np.argsort(np.asarray(cut.vertex_part), kind="stable")
