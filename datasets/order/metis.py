"""Order by METIS clusters, numbered in METIS's sequence or so that neighbouring clusters are near each other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr
from datasets.options import unknown_name
from datasets.order.rcm import cuthill_mckee
from datasets.order.symmetric import symmetric

SEQUENCES = ("metis", "rcm")


def metis(csr: Csr, seed: int = 0, cluster: int = 200, sequence: str = "metis") -> NDArray[np.int64]:
    """Cut A + A^T into ``nodes // cluster`` parts of few crossing edges (Karypis and Kumar 1998).

    Parts are numbered one after the other in METIS's own ``sequence``, or in that of reverse Cuthill-McKee on the graph
    of the parts; ties by id. Equal seeds give equal orders on one version and platform.
    """
    if sequence not in SEQUENCES:
        raise ValueError(unknown_name("sequence", sequence, SEQUENCES))
    if cluster < 1:
        raise ValueError(f"order metis with cluster={cluster}: allowed are 1 and more nodes per cluster, such as 200")
    parts = csr.shape[0] // cluster
    if parts < 2:
        return np.arange(csr.shape[0], dtype=np.int64)
    import pymetis

    both = symmetric(csr)
    adjacency = pymetis.CSRAdjacency(both.indptr, both.indices)
    cut = pymetis.part_graph(parts, adjacency, options=pymetis.Options(seed=seed & 0x7FFFFFFF))
    part = np.asarray(cut.vertex_part)
    if sequence == "rcm":
        part = _rank_of_parts(both, part, parts)[part]
    return np.argsort(part, kind="stable")


def _rank_of_parts(both: Any, part: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """The place of each part in reverse Cuthill-McKee order of the parts, which edges between them connect."""
    from scipy.sparse import coo_matrix

    ends = part[both.indices], np.repeat(part, np.diff(both.indptr))
    between = coo_matrix((np.ones(len(both.indices), dtype=np.int32), ends), shape=(parts, parts)).tocsr()
    rank = np.empty(parts, dtype=np.int64)
    rank[cuthill_mckee(between)] = np.arange(parts)
    return rank
