"""Sparse features in plain torch with a kept transpose: the fastest form of the first product found in torch alone."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from datasets.csr import index_dtype
from datasets.features import SparseFeatures


@dataclass(frozen=True, eq=False)
class CachedRows:
    """Feature rows that multiply weights; the backward pass multiplies with the transpose that was built beforehand."""

    starts: Tensor
    columns: Tensor
    values: Tensor
    back_starts: Tensor
    back_columns: Tensor
    permutation: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, features: SparseFeatures, device: torch.device) -> "CachedRows":
        """Build the transpose, on a device; indices are int32 while they fit."""
        kind = index_dtype(max(features.csr.nnz, *features.shape))
        back, permutation = features.csr.transpose
        starts, columns, back_starts, back_columns = (
            torch.from_numpy(np.array(part, dtype=kind)).to(device)
            for csr in (features.csr, back)
            for part in (csr.indptr, csr.indices)
        )
        values, places = (torch.from_numpy(np.array(part)).to(device) for part in (features.values, permutation))
        return cls(starts, columns, values, back_starts, back_columns, places, features.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def dropped(self, rate: float) -> "CachedRows":
        """Torch's dropout on the values."""
        return replace(self, values=functional.dropout(self.values, rate))

    def __matmul__(self, weight: Tensor) -> Tensor:
        out: Tensor = _Product.apply(weight, self)
        return out

    def forward(self, weight: Tensor) -> Tensor:
        """Multiply with weights [width, f]."""
        matrix = torch.sparse_csr_tensor(self.starts, self.columns, self.values, self.shape, check_invariants=False)
        return torch.sparse.mm(matrix, weight)

    def backward(self, gradient: Tensor) -> Tensor:
        """Multiply the transpose with a gradient [nodes, f]."""
        values = self.values.index_select(0, self.permutation)
        size = self.shape[::-1]
        matrix = torch.sparse_csr_tensor(self.back_starts, self.back_columns, values, size, check_invariants=False)
        return torch.sparse.mm(matrix, gradient)


class _Product(torch.autograd.Function):
    """The product, with a gradient of the weight alone."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: CachedRows) -> Tensor:
        ctx.rows = rows
        return rows.forward(weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        rows: CachedRows = ctx.rows
        return rows.backward(gradients[0]), None
