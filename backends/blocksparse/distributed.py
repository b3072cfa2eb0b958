"""Operations over ranks with gradients: fetch rows, fetch and multiply at the same time, add up partial sums."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.base.layered import LayerMatrix
from backends.blocksparse.exchange import Links
from backends.blocksparse.phases import AGGREGATION
from backends.kernels import product
from backends.kernels.profiling import named
from datasets.csr import Csr


def fetch(x: Tensor, links: Links) -> Tensor:
    """Fetch the rows [received, width] that a rank multiplies with; ``x`` [rows, width] are its own."""
    out: Tensor = _Fetch.apply(x, links)
    return out


def add_up(x: Tensor, links: Links) -> Tensor:
    """Sum over the ranks that hold the same rows, where there are several."""
    if links.layout.replication == 1:
        return x
    out: Tensor = _AddUp.apply(x, links)
    return out


@dataclass
class SplitMatrix(LayerMatrix):
    """A slice in two parts: ``csr`` over rows that others send, ``own`` over the rank's own rows, with its weights."""

    own: Csr | None = None
    own_weight: Tensor | None = None

    @classmethod
    def of(cls, csr: Csr, weight: Tensor | None, first: int, own_rows: NDArray[np.int64], rows: int) -> "SplitMatrix":
        """Split a slice whose columns from ``first`` on are ``own_rows`` of this rank's ``rows`` rows."""
        count, columns = len(own_rows), csr.indices.astype(np.int64)
        is_own = (columns >= first) & (columns < first + count)
        parts = []
        own_places = own_rows[(columns - first) * is_own] if count else columns
        places = np.where(columns >= first, columns - count, columns), own_places
        for inside, place, size in ((~is_own, places[0], csr.shape[1] - count), (is_own, places[1], rows)):
            starts = np.concatenate(([0], np.cumsum(inside)))[csr.indptr].astype(csr.indptr.dtype)
            part = Csr(starts, place[inside].astype(csr.indices.dtype), (csr.shape[0], size))
            parts.append((part, None if weight is None else weight[torch.from_numpy(inside)]))
        (others, others_weight), (own, own_weight) = parts
        return cls(others, others_weight, own=own, own_weight=own_weight)


def fetch_and_sum(x: Tensor, matrix: SplitMatrix, links: Links) -> Tensor:
    """Sum over a slice's edges; own columns multiply while the rows of others are on their way."""
    out: Tensor = _FetchAndSum.apply(x, matrix, links)
    return out


class _Fetch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, links: Links) -> Tensor:
        ctx.links = links
        return links.finish(links.start(x))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        links: Links = ctx.links
        returned = links.finish(links.start_return(grad))
        return links.add_returned(grad.new_zeros((links.rows, grad.shape[1])), returned), None


class _FetchAndSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: SplitMatrix, links: Links) -> Tensor:
        ctx.matrix, ctx.links = matrix, links
        pending = links.start(x.detach())
        assert matrix.own is not None
        with named(AGGREGATION):
            own = product(matrix.own, x.detach(), matrix.own_weight)
        received = links.finish(pending, overlapped=True)
        with named(AGGREGATION):
            return product(matrix.csr, received, matrix.weight, addend=own)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        matrix, links = ctx.matrix, ctx.links
        with named(AGGREGATION):
            returned = product(matrix.csr, grad, matrix.weight, transposed=True)
        pending = links.start_return(returned)
        with named(AGGREGATION):
            own = product(matrix.own, grad, matrix.own_weight, transposed=True)
        return links.add_returned(own, links.finish(pending, overlapped=True)), None, None


class _AddUp(torch.autograd.Function):
    """Replicas compute the same from the sum, so that each has its whole gradient already."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, links: Links) -> Tensor:
        return links.sum_of_replicas(x.clone())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None
