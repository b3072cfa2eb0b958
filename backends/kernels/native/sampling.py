"""Sampling and searching by the compiled extension, with the functions and arguments of ``definition``.

Results do not depend on the number of threads.
"""

from typing import Any

import numpy as np

from backends.kernels.definition import Drawing, KeptEdges, Nodes, Reaches, SearchResult
from backends.kernels.extension import extension, threads
from backends.kernels.samplers import SAMPLERS
from datasets.csr import Csr

_BUILT_IN = dict(SAMPLERS)
_CODES = {name: code for code, name in enumerate(("uniform", "weighted", "topk", "full"))}


def has(drawing: Drawing) -> bool:
    """Whether the extension has the sampler; it lacks those that users registered."""
    return drawing.registered is _BUILT_IN.get(drawing.sampler)


def sample(csr: Csr, drawing: Drawing, nodes: Nodes, keys: Any, node_ids: Nodes, fanout: int | None) -> KeptEdges:
    """Sample in-edges of ``nodes``; ``keys`` [nodes] are the hash keys of the rows."""
    starts, ids, positions = extension.sample(
        *_arrays(csr), *_weights(drawing), nodes, fanout, keys, drawing.key, node_ids, *_choice(drawing), threads()
    )
    return KeptEdges(starts, positions, positions if ids is None else ids)


def search(csr: Csr, drawing: Drawing, roots: Nodes, reaches: Reaches, apart: bool) -> SearchResult:
    """Expand ``roots`` hop by hop."""
    numbers, layers, starts, local, ids, positions = extension.khop(
        *_arrays(csr), *_weights(drawing), roots, reaches, drawing.key, apart, *_choice(drawing), threads()
    )
    return SearchResult(numbers, layers, KeptEdges(starts, positions, positions if ids is None else ids), local)


def _arrays(csr: Csr) -> tuple[Any, Any, Any]:
    """The graph's arrays, copied only where native code cannot read their type or layout."""
    ids = None if csr.edge_ids is None else _readable(csr.edge_ids, "i", np.int64)
    return _readable(csr.indptr, "i", np.int64), _readable(csr.indices, "i", np.int64), ids


def _weights(drawing: Drawing) -> tuple[Any, Any]:
    """Weights and their sums, where the sampler reads them."""
    needed = drawing.weight is not None and drawing.registered.needs_weight
    return (_readable(drawing.weight, "f", np.float64), drawing.sums) if needed else (None, None)


def _readable(array: Any, kind: str, wide: type) -> Any:
    fits = array.dtype.kind == kind and array.dtype.itemsize in (4, 8) and array.dtype.isnative
    return np.ascontiguousarray(array, dtype=None if fits else wide)


def _choice(drawing: Drawing) -> tuple[int, bool]:
    return _CODES[drawing.sampler], drawing.replacement
