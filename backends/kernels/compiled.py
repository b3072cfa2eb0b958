"""The compiled kernels of sampling and searching, called as their definition is."""

from types import ModuleType
from typing import Any

import numpy as np

from backends.kernels import definition
from backends.kernels.definition import Drawing, Found, Kept, Nodes, Reaches
from backends.kernels.native import native, threads
from backends.kernels.samplers import SAMPLERS
from datasets.csr import Csr

_BUILT_IN = dict(SAMPLERS)
_CODES = {name: code for code, name in enumerate(("uniform", "weighted", "topk", "full"))}


class Compiled:
    """``definition.sample`` and ``definition.search`` in C++; results do not depend on the threads."""

    @staticmethod
    def sample(csr: Csr, drawing: Drawing, nodes: Nodes, keys: Any, node_ids: Nodes, fanout: int | None) -> Kept:
        """See ``definition.sample``."""
        starts, ids, positions = native.sample(
            *_arrays(csr), _weight(drawing), nodes, fanout, keys, drawing.key, node_ids, *_choice(drawing), threads()
        )
        return Kept(starts, positions, positions if ids is None else ids)

    @staticmethod
    def search(csr: Csr, drawing: Drawing, roots: Nodes, reaches: Reaches, apart: bool) -> Found:
        """See ``definition.search``."""
        numbers, layers, starts, local, ids, positions = native.khop(
            *_arrays(csr), _weight(drawing), roots, reaches, drawing.key, apart, *_choice(drawing), threads()
        )
        return Found(numbers, layers, Kept(starts, positions, positions if ids is None else ids), local)


def runner(drawing: Drawing) -> type[Compiled] | ModuleType:
    """What to run: the compiled kernels where they are built and know the sampler, else the definition."""
    known = drawing.chosen is _BUILT_IN.get(drawing.sampler)
    return Compiled if native is not None and known else definition


def _arrays(csr: Csr) -> tuple[Any, Any, Any]:
    """The graph's arrays as they lie, copied only where their type or layout cannot be read."""
    ids = None if csr.edge_ids is None else _readable(csr.edge_ids, "i", np.int64)
    return _readable(csr.indptr, "i", np.int64), _readable(csr.indices, "i", np.int64), ids


def _weight(drawing: Drawing) -> Any:
    needed = drawing.weight is not None and drawing.chosen.needs_weight
    return _readable(drawing.weight, "f", np.float64) if needed else None


def _readable(array: Any, kind: str, wide: type) -> Any:
    fits = array.dtype.kind == kind and array.dtype.itemsize in (4, 8) and array.dtype.isnative
    return np.ascontiguousarray(array, dtype=None if fits else wide)


def _choice(drawing: Drawing) -> tuple[int, bool]:
    return _CODES[drawing.sampler], drawing.replace
