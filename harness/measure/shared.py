"""What holds for every cell of a group is found once: by the first that needs it; the parent tells the others."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr

T = TypeVar("T")
_FOUND: dict[str, Any] = {}


def found(key: str, find: Callable[[], T]) -> T:
    """Return what is known under ``key``, found now if nobody did before; plain values only, as they travel."""
    if key not in _FOUND:
        _FOUND[key] = find()
    held: T = _FOUND[key]
    return held


def learn(told: Mapping[str, Any]) -> None:
    """Take over what others found."""
    _FOUND.update(told)


def known() -> dict[str, Any]:
    """Return all that is known here."""
    return dict(_FOUND)


def forget() -> None:
    """Know nothing, as at the start."""
    _FOUND.clear()


def digest_of(operands: Sequence[Mapping[str, Any]]) -> str:
    """Hash what the model of the caches makes of a list of SpMMs: their edges, widths and counts."""
    keys = ("name", "width", "itemsize", "count")
    parts = [(*(item[key] for key in keys), item["csr"].shape, _edges(item["csr"])) for item in operands]
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _edges(csr: Csr) -> str:
    return digest(csr.indptr, csr.indices)


def digest(*arrays: NDArray[Any]) -> str:
    """Hash the values of arrays of integers, whatever their width."""
    held = hashlib.blake2b(digest_size=16)
    for array in arrays:
        held.update(f"{array.shape}".encode())
        held.update(np.ascontiguousarray(array, dtype=np.int32 if _narrow(array) else np.int64).data)
    return held.hexdigest()


def _narrow(array: NDArray[Any]) -> bool:
    return array.dtype == np.int32 or not len(array) or -(1 << 31) <= array.min() <= array.max() < 1 << 31
