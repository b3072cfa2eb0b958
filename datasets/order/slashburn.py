"""SlashBurn order: hubs first, what they held together last (Kang and Faloutsos 2011)."""

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr
from datasets.order.symmetric import symmetric


def slashburn(csr: Csr, hubs: float = 0.005) -> NDArray[np.int64]:
    """Remove hubs of the largest component of A + A^T, round by round, until no more than one round's are left.

    A round removes ``hubs`` times all nodes, at least one: those of the highest degree among what is left, ties by id.
    They come next from the front; nodes that then are outside the largest component come next from the back, larger
    components first.
    """
    if not 0 < hubs <= 1:
        raise ValueError(f"order slashburn with hubs={hubs}: allowed is a share of the nodes above 0, up to 1")
    if csr.shape[0] == 0:
        return np.zeros(0, dtype=np.int64)
    from scipy.sparse.csgraph import connected_components

    left, nodes = symmetric(csr), np.arange(csr.shape[0], dtype=np.int64)
    count = max(1, int(hubs * len(nodes)))
    front: list[NDArray[np.int64]] = []
    back: list[NDArray[np.int64]] = []
    while len(nodes) > count:
        by_degree = np.argsort(-np.diff(left.indptr), kind="stable")
        front.append(nodes[by_degree[:count]])
        rest = np.sort(by_degree[count:])
        left, nodes = left[rest][:, rest], nodes[rest]
        _, component = connected_components(left, directed=False)
        sizes = np.bincount(component)
        giant = component == np.argmax(sizes)
        spokes = np.flatnonzero(~giant)
        back.append(nodes[spokes[np.lexsort((component[spokes], -sizes[component[spokes]]))]])
        left, nodes = left[giant][:, giant], nodes[giant]
    front.append(nodes[np.argsort(-np.diff(left.indptr), kind="stable")])
    return np.concatenate([*front, *reversed(back)])
