"""A matrix prepared for the kernels: layouts, transpose, scales; computed at first use, kept while the matrix lives."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.kernels.extension import extension, threads, workers
from backends.kernels.transpose import Transpose, transposed
from datasets.csr import Csr, index_dtype

HUB_EDGES = 1 << 15
_PIECES, _PIECES_A_THREAD = 256, 16  # at most: the first, or more where there are many threads
_PIECE_EDGES, _PIECE_COST = 2048, 1 << 14  # at least one of them
_ROW_COST = 8  # of a row, in edges


def partition_rows(csr: Csr, parts: int) -> NDArray[np.int64]:
    """Cut the rows into ``parts`` consecutive pieces of about equal cost; bounds [parts + 1]."""
    if parts < 1:
        raise ValueError(f"parts={parts} is not allowed: at least 1")
    _check_starts(csr)
    if extension is not None and _fits_native(csr):
        bounds = np.empty(parts + 1, dtype=np.int64)
        extension.cut_pieces(csr.indptr, _ROW_COST, bounds)
        return bounds
    cost = csr.indptr.astype(np.int64) + _ROW_COST * np.arange(csr.shape[0] + 1)
    bounds = np.searchsorted(cost, np.linspace(0, cost[-1], parts + 1)).astype(np.int64)
    bounds[0], bounds[-1] = 0, csr.shape[0]
    return bounds


def pieces_of(edges: int, rows: int) -> int:
    """Number of pieces of so many edges, or of so many rows where these have few edges."""
    most = max(_PIECES, _PIECES_A_THREAD * threads())
    return max(1, min(most, max(edges // _PIECE_EDGES, (edges + _ROW_COST * rows) // _PIECE_COST)))


def checked(csr: Csr) -> Csr:
    """Return ``csr``; raises ValueError where a kernel would read outside the arrays."""
    if csr.edge_ids is not None and csr.edge_ids.shape != csr.indices.shape:
        raise ValueError(f"edge_ids has shape {csr.edge_ids.shape}: {csr.nnz} edges need ({csr.nnz},)")
    readable = extension is not None and _fits_native(csr) and len(csr.indptr) == csr.shape[0] + 1
    if readable and extension.is_matrix(csr.indptr, csr.indices, csr.shape[1], workers(csr.nnz, 1)):
        return csr  # any other matrix passes through the checks below, for their messages
    for name, array in (("indptr", csr.indptr), ("indices", csr.indices)):
        if array.ndim != 1 or array.dtype not in (np.int32, np.int64):
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)}: allowed is one axis of int32 or int64")
    _check_starts(csr)
    indices = csr.indices
    if len(indices) and not (indices.min() >= 0 and indices.max() < csr.shape[1]):
        raise ValueError(f"indices reach from {indices.min()} to {indices.max()}: allowed are 0 to {csr.shape[1] - 1}")
    return csr


def _fits_native(csr: Csr) -> bool:
    """Whether native code can read the arrays of ``csr`` without a copy."""
    arrays = csr.indptr, csr.indices
    contiguous = all(array.ndim == 1 and array.flags.c_contiguous and array.flags.aligned for array in arrays)
    return contiguous and csr.indptr.dtype == csr.indices.dtype and csr.indptr.dtype in (np.int32, np.int64)


def _check_starts(csr: Csr) -> None:
    indptr, rows, edges = csr.indptr, csr.shape[0], csr.nnz
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if len(falls):
        row = int(falls[0])
        raise ValueError(
            f"indptr descends from {indptr[row]} to {indptr[row + 1]} at row {row}: it tells where each row starts; "
            "where int32 overflowed, make it int64 (datasets.csr.csr_from_edges chooses by itself)"
        )
    if len(indptr) != rows + 1 or indptr[0] != 0 or indptr[-1] != edges:
        ends = f" from {indptr[0]} to {indptr[-1]}" if len(indptr) else ""
        raise ValueError(
            f"indptr has {len(indptr)} entries{ends}: {rows} rows and {edges} edges need {rows + 1} from 0 to {edges}"
        )


@dataclass(eq=False)
class Direction:
    """Rows and edges of a matrix or of its transpose, as the native kernels take them.

    ``panels`` holds, by the width of a table that is multiplied in column panels, where each row's edges of each panel
    begin, [panels + 1, rows]; ``tiles`` those that are multiplied in dense tiles and a rest (``Tiles``).
    """

    indptr: NDArray[Any]
    indices: NDArray[Any]
    bounds: NDArray[np.int64]
    hubs: NDArray[np.int64]
    rows: int
    panels: dict[int, NDArray[Any]] = field(default_factory=dict)
    tiles: dict[int, Any] = field(default_factory=dict)
    in_pieces: bool = True

    @property
    def index_dtype(self) -> torch.dtype:
        """int32 or int64, as a tensor's."""
        return torch.int32 if self.indices.dtype == np.int32 else torch.int64

    def workers(self, width: int) -> int:
        """Number of threads for a product of ``width`` columns; one where the rows are one piece of work."""
        return workers(len(self.indices) + self.rows, width) if self.in_pieces else 1

    @classmethod
    def of(cls, csr: Csr, in_pieces: bool = True) -> "Direction":
        """Lay out ``csr``: contiguous arrays of one index type, bounds of pieces of equal work, rows that are hubs."""
        dtype = np.result_type(csr.indptr.dtype, csr.indices.dtype, index_dtype(max(csr.shape)))
        hubs = np.flatnonzero(csr.in_degrees > HUB_EDGES) if csr.nnz > HUB_EDGES else np.empty(0, dtype=np.int64)
        parts = pieces_of(csr.nnz, csr.shape[0]) if in_pieces else 1
        indptr, indices = (np.ascontiguousarray(array, dtype=dtype) for array in (csr.indptr, csr.indices))
        return cls(indptr, indices, partition_rows(csr, parts), hubs, csr.shape[0], in_pieces=in_pieces)


class Operand:
    """A matrix with the forms of it that kernels needed so far; ``is_checked`` skips the checks.

    Without ``in_pieces`` the rows are one piece of work, which one thread aggregates.
    """

    def __init__(self, csr: Csr, is_checked: bool = False, in_pieces: bool = True) -> None:
        csr = csr if is_checked else checked(csr)
        self.in_pieces = in_pieces
        self.shape, self.nnz = csr.shape, csr.nnz
        self._arrays = (csr.indptr, csr.indices, csr.edge_ids)
        self._tensors: dict[torch.device, EdgeTensors] = {}
        self._transposed_weight: tuple[weakref.ref[Tensor], int, Tensor] | None = None
        self._derived: tuple[weakref.ref[Tensor], int, Callable[[], Tensor]] | None = None

    @cached_property
    def _csr(self) -> Csr:
        indptr, indices, ids = self._arrays
        return Csr(indptr, indices, self.shape, ids)

    @cached_property
    def forward(self) -> Direction:
        """Rows are destinations."""
        return Direction.of(self._csr, self.in_pieces)

    @cached_property
    def transpose(self) -> Transpose:
        """The same edges by source, with the permutations between the orders."""
        return transposed(self.forward.indptr, self.forward.indices, self.shape)

    @cached_property
    def backward(self) -> Direction:
        """Rows are sources."""
        csr = Csr(self.transpose.indptr, self.transpose.indices, self.shape[::-1])
        return Direction.of(csr, self.in_pieces)

    @cached_property
    def numbers(self) -> NDArray[np.int64] | None:
        """What dropout hashes of each edge, int64 [nnz]: its id, ``None`` where that is its position."""
        ids = self._arrays[2]
        return None if ids is None else np.ascontiguousarray(ids, dtype=np.int64)

    @property
    def permutation(self) -> NDArray[Any]:
        """Position in the forward order of each transposed edge, [nnz]."""
        return self.transpose.permutation

    @property
    def inverse(self) -> NDArray[Any]:
        """Position in the transposed order of each forward edge, [nnz]."""
        return self.transpose.inverse

    def transposed_weight(self, weight: Tensor) -> Tensor:
        """Weights [nnz] in the transpose's edge order; cached for the last ones without gradient until they change."""
        if weight.is_inference():  # nothing tells whether it changed
            return weight.index_select(0, self.on(weight.device).permutation)
        if (cached := self.cached_weight(weight)) is not None:
            return cached
        if self._derived is not None:
            reference, version, compute = self._derived
            if reference() is weight and version == weight._version:
                return compute()
        with torch.inference_mode(False):
            values = weight.detach().index_select(0, self.on(weight.device).permutation)
        if not weight.requires_grad:
            self._transposed_weight = (weakref.ref(weight), weight._version, values)
        return values

    def backward_weight(self, weight: Tensor | None, mean: bool, like: Tensor) -> Tensor | None:
        """Factors of the transpose's edges in the backward pass of a sum or mean, with type and device of ``like``."""
        weights = None if weight is None else self.transposed_weight(weight)
        if not mean:
            return weights
        means = self.on(like.device).mean_weights_backward(like.dtype)
        return means if weights is None else weights * means

    def cached_weight(self, weight: Tensor) -> Tensor | None:
        """The kept weights in the transpose's edge order, if they are those of ``weight``."""
        if self._transposed_weight is None or weight.is_inference():
            return None
        reference, version, values = self._transposed_weight
        return values if reference() is weight and version == weight._version else None

    def derive_transposed(self, weight: Tensor, compute: Callable[[], Tensor]) -> None:
        """Let ``compute`` return ``weight`` in the transpose's edge order: it costs less than a random permutation."""
        self._derived = (weakref.ref(weight), weight._version, compute)

    def on(self, device: torch.device) -> "EdgeTensors":
        """The matrix's arrays as tensors on a device, where torch or Triton computes with them."""
        if device not in self._tensors:
            self._tensors[device] = EdgeTensors(self, device)
        return self._tensors[device]


class EdgeTensors:
    """Arrays of a matrix on one device, copied there at first use; indices are int64 where no type is named.

    None is a tensor of ``torch.inference_mode``, which training could not use.
    """

    def __init__(self, matrix: Operand, device: torch.device) -> None:
        self._matrix, self.device = weakref.proxy(matrix), device
        self.shape, self.nnz = matrix.shape, matrix.nnz
        self._means: dict[tuple[str, torch.dtype], Tensor] = {}

    def _copy(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    @cached_property
    @torch.inference_mode(False)
    def indptr(self) -> Tensor:
        """Row starts."""
        return self._copy(self._matrix.forward.indptr).long()

    @cached_property
    @torch.inference_mode(False)
    def sources(self) -> Tensor:
        """Column of each edge."""
        return self._copy(self._matrix.forward.indices).long()

    @cached_property
    @torch.inference_mode(False)
    def destinations(self) -> Tensor:
        """Row of each edge."""
        rows = torch.arange(self.shape[0], device=self.device)
        return rows.repeat_interleave(self.indptr.diff(), output_size=self.nnz)

    @cached_property
    @torch.inference_mode(False)
    def transposed_indptr(self) -> Tensor:
        """Row starts of the transpose."""
        return self._copy(self._matrix.backward.indptr).long()

    @cached_property
    @torch.inference_mode(False)
    def transposed_indices(self) -> Tensor:
        """Column of each edge of the transpose."""
        return self._copy(self._matrix.backward.indices).long()

    @cached_property
    @torch.inference_mode(False)
    def permutation(self) -> Tensor:
        """Position in the forward order of each transposed edge, int32 or int64."""
        return self._copy(self._matrix.permutation)

    @cached_property
    @torch.inference_mode(False)
    def numbers(self) -> Tensor | None:
        """What dropout hashes of each edge: its id, ``None`` where that is its position."""
        return None if self._matrix.numbers is None else self._copy(self._matrix.numbers)

    @torch.inference_mode(False)
    def inverse_in_degrees(self, dtype: torch.dtype) -> Tensor:
        """1 / in-degree of each row, 1 where it is 0; kept in each type that was asked for."""
        if ("rows", dtype) not in self._means:
            inverse = 1.0 / np.maximum(self._matrix._csr.in_degrees, 1)
            self._means["rows", dtype] = self._copy(inverse).to(dtype)
        return self._means["rows", dtype]

    @torch.inference_mode(False)
    def mean_weights_backward(self, dtype: torch.dtype) -> Tensor:
        """1 / in-degree of each transposed edge's destination: the transpose of the mean, kept as well."""
        if ("edges", dtype) not in self._means:
            destinations = self._copy(self._matrix.backward.indices)
            self._means["edges", dtype] = self.inverse_in_degrees(dtype).index_select(0, destinations)
        return self._means["edges", dtype]


_OPERANDS: "weakref.WeakKeyDictionary[Csr, Operand]" = weakref.WeakKeyDictionary()


def operand(csr: Csr) -> Operand:
    """Return the operand of ``csr``; raises ValueError for arrays that are no CSR matrix."""
    cached = _OPERANDS.get(csr)
    if cached is None:
        cached = _OPERANDS[csr] = Operand(csr)
    return cached


_UNPARTITIONED: "weakref.WeakKeyDictionary[Csr, Csr]" = weakref.WeakKeyDictionary()


def unpartitioned(csr: Csr) -> Csr:
    """The same matrix as one piece of work: the kernels are the same, and aggregate on one thread."""
    twin = _UNPARTITIONED.get(csr)
    if twin is None:
        twin = _UNPARTITIONED[csr] = Csr(csr.indptr, csr.indices, csr.shape, csr.edge_ids)
        _OPERANDS[twin] = Operand(twin, in_pieces=False)
    return twin


def build_transpose(csr: Csr, weight: Tensor | None = None, mean: torch.dtype | None = None) -> None:
    """Build what the backward passes over ``csr`` share, its transpose and the weights in that order, ahead of them.

    ``mean`` is the type of the factors of means, ``None`` for sums.
    """
    matrix = operand(csr)
    _ = matrix.backward
    if weight is not None and not weight.requires_grad:
        matrix.transposed_weight(weight)
    if mean is not None:
        matrix.on(torch.device("cpu")).mean_weights_backward(mean)


def register_rows(csr: Csr, part: Csr) -> Csr:
    """Return ``part``, a copy of rows of ``csr``, with an operand that needs no checks, as ``csr`` passes them."""
    operand(csr)
    _OPERANDS[part] = Operand(part, is_checked=True)
    return part
