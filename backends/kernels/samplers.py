"""Samplers of in-edges. Those with keys give every in-edge of a node one and keep the edges of the smallest.

Keys make samples nest, and equal wherever they are drawn, but every in-edge is read. Uniform samples are the first
elements of a shuffle, weighted ones successive draws from sums of the weights: they nest too, and cost the fanout. A
user's is named by its import path, ``package.module.sampler``, which every process can import.
"""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.extension import extension, threads
from datasets.csr import Csr
from datasets.randomness import logarithm, unit_interval

Hashes = NDArray[np.uint64]
Weights = NDArray[np.floating[Any]]
LEAST, LARGEST = 1e-290, 1e290  # weights whose keys and sums over 2^31 edges neither overflow nor lose bits


@dataclass(frozen=True)
class EdgeSampler:
    """``keys(hashes [n], weight [n])`` returns keys, of each edge by itself; the smallest are kept, ties by position.

    ``by_place``: places among a node's in-edges are drawn, without reading the edges; keys are for short rows, if any.
    ``needs_weight``: weights are required; ``positive``: from ``LEAST`` to ``LARGEST``. ``draws``: it also draws with
    replacement. ``everything``: it takes no fanout.
    """

    keys: Callable[[Hashes, Weights], NDArray[Any]] | None
    by_place: bool = False
    needs_weight: bool = False
    positive: bool = False
    draws: bool = False
    everything: bool = False


def _weighted(hashes: Hashes, weight: Weights) -> NDArray[Any]:
    return -logarithm(unit_interval(hashes)) / weight.astype(np.float64)


def _topk(hashes: Hashes, weight: Weights) -> NDArray[Any]:
    return -weight.astype(np.float64)


def _full(hashes: Hashes, weight: Weights) -> NDArray[Any]:
    return np.zeros(len(hashes))


class Samplers(dict[str, EdgeSampler]):
    """Samplers by name; a dotted name is imported. Raises ValueError for one that is not there."""

    def __missing__(self, name: str) -> EdgeSampler:
        path, _, attribute = name.rpartition(".")
        if not path:
            raise ValueError(
                f"sampler={name!r} is unknown: allowed are {', '.join(self)}, or a path as in mine.sampler"
            )
        try:
            sampler = getattr(import_module(path), attribute)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"sampler={name!r} cannot be imported: {error}") from error
        if not isinstance(sampler, EdgeSampler):
            raise ValueError(
                f"sampler={name!r} is a {type(sampler).__name__}: give an EdgeSampler, as in EdgeSampler(keys)"
            )
        self[name] = sampler
        return sampler


SAMPLERS = Samplers(
    uniform=EdgeSampler(None, by_place=True, draws=True),
    weighted=EdgeSampler(_weighted, by_place=True, needs_weight=True, positive=True, draws=True),
    topk=EdgeSampler(_topk, needs_weight=True),
    full=EdgeSampler(_full, everything=True),
)


def keys_of(name: str, sampler: EdgeSampler, hashes: Hashes, weight: Weights) -> NDArray[Any]:
    """The key of each edge, [edges]; raises ValueError where a user's sampler fails, or returns anything else."""
    assert sampler.keys is not None
    with named_failure(f"sampler={name!r} fails for {len(hashes)} edges"):
        keys = np.asarray(sampler.keys(hashes, weight))
    if keys.shape != hashes.shape or keys.dtype.kind not in "biuf":
        shape = f"{keys.dtype} of shape {keys.shape} for {len(hashes)} edges"
        raise ValueError(f"sampler={name!r} returns {shape}: give a number for each")
    return keys


@contextmanager
def named_failure(what: str) -> Iterator[None]:
    """Name type and place of what fails in a user's code, as ValueError; a want of memory stays what it is."""
    try:
        yield
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)[2:]  # this function and the one that calls the user's code
        users = [frame for frame in frames if "importlib" not in frame.filename]
        place = f"{users[0].filename}, line {users[0].lineno}: " if users else ""
        reason = " ".join(str(error).split())
        raise ValueError(f"{what}: {place}{type(error).__name__}: {reason}") from error


@dataclass(frozen=True, eq=False)
class SummedWeights:
    """Weights of edges [nnz], and their sums float64 [nnz] from the first edge of each row to each of its edges."""

    values: Weights
    sums: NDArray[np.float64]


def values_and_sums(weight: Weights | SummedWeights | None) -> tuple[Weights | None, NDArray[np.float64] | None]:
    """Weights, and their sums where there are any."""
    return (weight.values, weight.sums) if isinstance(weight, SummedWeights) else (weight, None)


def sampler_of(name: str, weight: Weights | None, edges: int, replacement: bool) -> EdgeSampler:
    """Return a registered sampler; refuses an unknown one, missing weights, and ``replacement`` if it has none."""
    sampler = SAMPLERS[name]
    if sampler.needs_weight and weight is None:
        raise ValueError(f"sampler={name!r} needs weight, one number for each of the {edges} edges")
    if weight is not None and weight.shape != (edges,):
        raise ValueError(f"weight has shape {weight.shape}: {edges} edges need ({edges},)")
    if replacement and not sampler.draws:
        able = ", ".join(key for key, value in SAMPLERS.items() if value.draws)
        raise ValueError(f"sampler={name!r} cannot draw with replacement: allowed are {able}")
    return sampler


def summed(csr: Csr, weight: Weights) -> SummedWeights:
    """Sum up the weights of each row once, so that weighted sampling reads no row; raises ValueError like it."""
    check_weights("weighted", SAMPLERS["weighted"], weight, csr.edge_ids)
    if extension is not None:
        readable = weight if weight.dtype in (np.float32, np.float64) else weight.astype(np.float64)
        indptr = csr.indptr if csr.indptr.dtype in (np.int32, np.int64) else csr.indptr.astype(np.int64)
        arrays = np.ascontiguousarray(indptr), np.ascontiguousarray(readable)
        return SummedWeights(weight, extension.weight_sums(*arrays, threads()))
    sums = np.empty(csr.nnz)
    for first, last in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
        np.cumsum(weight[first:last], dtype=np.float64, out=sums[first:last])
    return SummedWeights(weight, sums)


def check_weights(name: str, sampler: EdgeSampler, weight: Weights, ids: NDArray[np.integer] | None) -> None:
    """Refuse weights that cannot be ordered, or drawn by; the message names the first such edge."""
    bad = np.isnan(weight)
    if sampler.positive:
        wide = weight.astype(np.float64, copy=False)  # float32 holds neither bound
        bad |= ~((wide >= LEAST) & (wide <= LARGEST))
    if bad.any():
        first = np.argmax(bad)
        allowed = f"finite and above 0, from {LEAST} to {LARGEST}" if sampler.positive else "numbers"
        edge = first if ids is None else ids[first]
        raise ValueError(f"edge {edge} has weight {weight[first]}: sampler={name!r} needs weights {allowed}")
