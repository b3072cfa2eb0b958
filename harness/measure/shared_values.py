"""Values that are the same for every cell of a group: the first cell that needs one computes it for all.

Measured bests are measured by several cells, each in a process of its own, until ``PROCESSES`` have.

The run carries them from process to process: it passes the ``snapshot`` of one to ``adopt`` of the next.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr

T = TypeVar("T")
PROCESSES = 5  # as many as stand behind a time that is compared with such a best
_VALUES: dict[str, Any] = {}
_MEASURED_HERE: set[str] = set()


def get_or_compute(key: str, compute: Callable[[], T]) -> T:
    """Return the value of ``key``, computed unless a cell did; it must be plain JSON, which crosses processes."""
    if key not in _VALUES:
        _VALUES[key] = compute()
    value: T = _VALUES[key]
    return value


def best_of_processes(key: str, measure: Callable[[], float], best: Callable[[list[float]], float]) -> float:
    """Return the best value of ``key`` so far, by ``best`` (``min`` or ``max``); this process measures it once, too.

    A bound is the best that was ever reached, and processes differ in their pages as samples do.
    """
    known: list[float] = _VALUES.get(key, [])
    if key not in _MEASURED_HERE and len(known) < PROCESSES:
        known = [*known, measure()]
        _VALUES[key] = known
        _MEASURED_HERE.add(key)
    return best(known)


def adopt(values: Mapping[str, Any]) -> None:
    """Take over the values of other cells."""
    _VALUES.update(values)


def snapshot() -> dict[str, Any]:
    """Return all values of this process."""
    return dict(_VALUES)


def clear() -> None:
    """Drop all values."""
    _VALUES.clear()
    _MEASURED_HERE.clear()


def digest_of_operands(operands: Sequence[Mapping[str, Any]]) -> str:
    """Hash a list of SpMMs as the model of the caches sees them: their gathers, widths and counts."""
    keys = ("name", "width", "itemsize", "count")
    parts = [(*(item[key] for key in keys), item["csr"].shape, _gathers(item)) for item in operands]
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _gathers(item: Mapping[str, Any]) -> str:
    csr: Csr = item["csr"]
    return digest_of_arrays(csr.indptr, item.get("order", csr.indices))


def digest_of_arrays(*arrays: NDArray[Any]) -> str:
    """Hash the values of arrays of integers, whatever their width."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(f"{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, dtype=np.int32 if _narrow(array) else np.int64).data)
    return digest.hexdigest()


def _narrow(array: NDArray[Any]) -> bool:
    return array.dtype == np.int32 or not len(array) or -(1 << 31) <= array.min() <= array.max() < 1 << 31
