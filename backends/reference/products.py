"""Products of edges with rows as a user without a graph library writes them: torch, SciPy, or scatters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datasets.adjacency import Adjacency
from datasets.csr import Csr, index_dtype

Multiply = Callable[[Tensor], Tensor]
Device = torch.device | str


@dataclass
class Matrix:
    """The edges, and for gcn and sage the product with them: a weighted sum, or a mean, over in-edges."""

    csr: Csr
    multiply: Multiply


@dataclass
class EdgeList:
    """The edges, and both of their ends, int64 [nnz]."""

    csr: Csr
    source: Tensor
    destination: Tensor


class TransposedProduct(torch.autograd.Function):
    """A product whose backward pass multiplies with a transpose built beforehand."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, product: Multiply, transposed: Multiply) -> Tensor:
        """Multiply."""
        ctx.transposed = transposed
        return product(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Multiply with the transpose."""
        return ctx.transposed(gradients[0]), None, None


def matrix_of(adjacency: Adjacency, variant: str, device: Device = "cpu") -> Matrix:
    """Build the product of a variant on a device; sage's mean becomes weights of 1 / in-degree.

    ``csr`` and ``reduce`` are torch's defaults: int64 indices and autograd's backward pass, which transposes in every
    call. ``cached`` and ``reduce_cached`` use a stored transpose and int32. ``scipy`` runs on one thread.
    """
    csr, weight = adjacency.csr, adjacency.weight
    if weight is None:
        weight = (1.0 / np.maximum(csr.in_degrees, 1))[csr.destinations].astype(np.float32)
    weight = np.array(weight, dtype=np.float32)
    if variant == "scatter":
        edges, alpha = edge_list(csr, device), torch.from_numpy(weight).to(device)
        return Matrix(csr, lambda x: scatter(edges, alpha, x))
    product = _scipy if variant == "scipy" else _reduced if variant.startswith("reduce") else _product
    if variant in ("csr", "reduce"):
        return Matrix(csr, product(csr, weight, np.int64, device))
    back, permutation = csr.transpose
    kind = index_dtype(max(csr.nnz, *csr.shape))
    both = product(csr, weight, kind, device), product(back, weight[permutation], kind, device)
    return Matrix(csr, lambda x: TransposedProduct.apply(x, *both))


def sparse_matrix(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A CSR matrix of torch over these arrays, unchecked."""
    return torch.sparse_csr_tensor(indptr, indices, values, shape, check_invariants=False)


def _sparse(csr: Csr, weight: Any, kind: Any, device: Device) -> Tensor:
    indptr, indices = (torch.from_numpy(np.array(array, dtype=kind)).to(device) for array in (csr.indptr, csr.indices))
    return sparse_matrix(indptr, indices, torch.from_numpy(weight).to(device), csr.shape)


def _product(csr: Csr, weight: Any, kind: Any, device: Device) -> Multiply:
    sparse = _sparse(csr, weight, kind, device)
    return lambda x: torch.sparse.mm(sparse, x)


def _reduced(csr: Csr, weight: Any, kind: Any, device: Device) -> Multiply:
    sparse = _sparse(csr, weight, kind, device)
    return lambda x: torch.sparse.mm(sparse, x, "sum")


def _scipy(csr: Csr, weight: Any, kind: Any, device: Device) -> Multiply:
    # Only this variant needs SciPy.
    from scipy.sparse import csr_matrix

    matrix = csr_matrix((weight, csr.indices.astype(kind), csr.indptr.astype(kind)), csr.shape)
    return lambda x: torch.from_numpy(matrix @ x.detach().numpy())


def edge_list(csr: Csr, device: Device = "cpu") -> EdgeList:
    """Both ends of every edge."""
    ends = (torch.from_numpy(np.array(array, dtype=np.int64)).to(device) for array in (csr.indices, csr.destinations))
    return EdgeList(csr, *ends)


def scatter(edges: EdgeList, alpha: Tensor, z: Tensor) -> Tensor:
    """Gather a message per edge, weigh it, add it to its destination."""
    messages = alpha.unsqueeze(-1) * z[edges.source]
    return z.new_zeros((edges.csr.shape[0], *z.shape[1:])).index_add(0, edges.destination, messages)
