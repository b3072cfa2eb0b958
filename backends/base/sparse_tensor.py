"""Sparse features as torch's own CSR tensors, the input of peers whose layers take one."""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from backends.contract import Unsupported
from datasets.features import Features, SparseFeatures


def sparse_of(features: Features, backend: str) -> SparseFeatures:
    """Return sparse features; raises Unsupported for dense ones."""
    if not isinstance(features, SparseFeatures):
        raise Unsupported(
            f"backend {backend} reads dense features of this data set: set backend.input=dense, or "
            "dataset.options.features=sparse where the data set has that option"
        )
    return features


def csr_tensor(features: SparseFeatures, kind: type[np.integer] = np.int64) -> Tensor:
    """A CSR tensor [nodes, width] with indices of one integer type."""
    indptr, indices = (torch.from_numpy(np.array(part, dtype=kind)) for part in features.arrays[:2])
    values = torch.from_numpy(np.array(features.values))
    return torch.sparse_csr_tensor(indptr, indices, values, features.shape, check_invariants=False)


def drop(hidden: Tensor, rate: float) -> Tensor:
    """Torch's dropout, of a CSR tensor on its values."""
    if hidden.layout is not torch.sparse_csr:
        return functional.dropout(hidden, rate)
    values = functional.dropout(hidden.values(), rate)
    starts, columns = hidden.crow_indices(), hidden.col_indices()
    return torch.sparse_csr_tensor(starts, columns, values, hidden.shape, check_invariants=False)
