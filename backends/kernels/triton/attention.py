"""Graph attention in Triton: the normalised scores of edges are computed wherever they are needed and never stored."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from backends.kernels.operand import Operand
from backends.kernels.triton.dropout import retained
from backends.kernels.triton.layout import RowPieces, side_of
from backends.kernels.triton.sums import add_rows, block_of, launch_sums

_EDGES = 32  # of a program that reads scores alone


@triton.jit
def _scores(source, destination, edge, score_src, score_dst, score_edge, heads, head, live, EDGE_SCORES: tl.constexpr):
    """Scores of edges before the leaky ReLU, for one head or for a row of them."""
    raw = tl.load(score_src + source * heads + head, mask=live, other=0.0)
    raw += tl.load(score_dst + destination * heads + head, mask=live, other=0.0)
    if EDGE_SCORES:
        raw += tl.load(score_edge + edge * heads + head, mask=live, other=0.0)
    return raw


@triton.jit
def _attention_of(
    source, destination, edge, score_src, score_dst, score_edge, row_max, row_sum, slope, heads, head, live,
    EDGE_SCORES: tl.constexpr,
):  # fmt: skip
    """Scores of edges before the leaky ReLU, and their shares of their rows."""
    raw = _scores(source, destination, edge, score_src, score_dst, score_edge, heads, head, live, EDGE_SCORES)
    score = tl.where(raw > 0, raw, raw * slope)
    alpha = tl.exp(score - tl.load(row_max + destination * heads + head, mask=live, other=0.0))
    return raw, alpha / tl.load(row_sum + destination * heads + head, mask=live, other=1.0)


@triton.jit
def _retained(edge, live, numbers, head, key, bound, NUMBERED: tl.constexpr):
    """Whether dropout retains a head of edges."""
    number = tl.load(numbers + edge, mask=live, other=0) if NUMBERED else edge
    return retained(number, head + tl.zeros_like(number), key, bound)


@triton.jit
def _row_statistics(
    bounds, rows, slots, columns, score_src, score_dst, score_edge, constants, row_max, row_sum, part_max, part_sum,
    heads, EDGE_SCORES: tl.constexpr, EDGES: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    """Largest score and sum of exponentials of a piece's edges, for all heads."""
    piece = tl.program_id(0).to(tl.int64)
    row, slot = tl.load(rows + piece), tl.load(slots + piece)
    begin, end = tl.load(bounds + piece), tl.load(bounds + piece + 1)
    slope = tl.load(constants)
    head = tl.arange(0, HEADS)[None, :]
    largest = tl.full([HEADS], float("-inf"), dtype=score_src.dtype.element_ty)
    total = tl.zeros([HEADS], dtype=score_src.dtype.element_ty)
    for first in range(begin, end, EDGES):
        edge = (first + tl.arange(0, EDGES))[:, None]
        live = (edge < end) & (head < heads)
        column = tl.load(columns + edge, mask=edge < end, other=0).to(tl.int64)
        destination = row + tl.zeros_like(column)
        raw = _scores(column, destination, edge, score_src, score_dst, score_edge, heads, head, live, EDGE_SCORES)
        score = tl.where(live, tl.where(raw > 0, raw, raw * slope), float("-inf"))
        larger = tl.maximum(largest, tl.max(score, 0))
        base = tl.where(larger == float("-inf"), 0.0, larger)
        total = total * tl.exp(largest - base) + tl.sum(tl.exp(score - base[None, :]), 0)
        largest = larger
    at, inside = tl.arange(0, HEADS), tl.arange(0, HEADS) < heads
    if slot >= 0:
        tl.store(part_max + slot * heads + at, largest, mask=inside)
        tl.store(part_sum + slot * heads + at, total, mask=inside)
    else:
        tl.store(row_max + row * heads + at, largest, mask=inside)
        tl.store(row_sum + row * heads + at, total, mask=inside)


@triton.jit(do_not_specialize=["key", "bound"])
def _attend(
    bounds, rows, slots, columns, permutation, score_src, score_dst, score_edge, row_max, row_sum, constants,
    key, bound, numbers, x, out, partial, heads, width, TRANSPOSED: tl.constexpr, EDGE_SCORES: tl.constexpr,
    DROPS: tl.constexpr, NUMBERED: tl.constexpr, EDGES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum rows of x by attention over a piece's edges; transposed, its rows are the sources."""
    piece, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inside = at < width
    row, slot = tl.load(rows + piece), tl.load(slots + piece)
    begin, end = tl.load(bounds + piece), tl.load(bounds + piece + 1)
    slope = tl.load(constants)
    total = tl.zeros([COLUMNS], dtype=x.dtype.element_ty)
    for first in range(begin, end, EDGES):
        place = first + tl.arange(0, EDGES)
        live = place < end
        column = tl.load(columns + place, mask=live, other=0).to(tl.int64)
        if TRANSPOSED:
            edge = tl.load(permutation + place, mask=live, other=0).to(tl.int64)
            source, destination = row + tl.zeros_like(column), column
        else:
            edge = place
            source, destination = column, row + tl.zeros_like(column)
        _, alpha = _attention_of(
            source, destination, edge, score_src, score_dst, score_edge, row_max, row_sum, slope, heads, head, live,
            EDGE_SCORES,
        )  # fmt: skip
        if DROPS:
            survives = _retained(edge, live, numbers, head, key, bound, NUMBERED)
            alpha = tl.where(survives, alpha * tl.load(constants + 1), 0.0)
        alpha = tl.where(live, alpha, 0.0)
        from_row = x + (column[:, None] * heads + head) * width + at[None, :]
        total += tl.sum(alpha[:, None] * tl.load(from_row, mask=live[:, None] & inside[None, :], other=0.0), 0)
    if slot >= 0:
        tl.store(partial + (slot * heads + head) * width + at, total, mask=inside)
    else:
        tl.store(out + (row * heads + head) * width + at, total, mask=inside)


@triton.jit(do_not_specialize=["key", "bound"])
def _edge_gradients(
    destinations, columns, score_src, score_dst, score_edge, row_max, row_sum, constants, key, bound, numbers,
    products, grad, z, out, edges, heads, width, EDGE_SCORES: tl.constexpr, DROPS: tl.constexpr, NUMBERED: tl.constexpr,
    EDGES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Gradients of scores before the leaky ReLU, [nnz, heads]."""
    edge, head = tl.program_id(0).to(tl.int64) * EDGES + tl.arange(0, EDGES), tl.program_id(1)
    live = edge < edges
    source = tl.load(columns + edge, mask=live, other=0).to(tl.int64)
    destination = tl.load(destinations + edge, mask=live, other=0)
    inner = tl.zeros([EDGES], dtype=z.dtype.element_ty)
    for first in range(0, width, COLUMNS):
        at = first + tl.arange(0, COLUMNS)
        both = live[:, None] & (at < width)[None, :]
        flow = tl.load(grad + (destination[:, None] * heads + head) * width + at[None, :], mask=both, other=0.0)
        inner += tl.sum(
            flow * tl.load(z + (source[:, None] * heads + head) * width + at[None, :], mask=both, other=0.0), 1
        )
    slope = tl.load(constants)
    raw, alpha = _attention_of(
        source, destination, edge, score_src, score_dst, score_edge, row_max, row_sum, slope, heads, head, live,
        EDGE_SCORES,
    )  # fmt: skip
    if DROPS:
        survives = _retained(edge, live, numbers, head, key, bound, NUMBERED)
        inner = tl.where(survives, inner * tl.load(constants + 1), 0.0)
    gradient = alpha * (inner - tl.load(products + destination * heads + head, mask=live, other=0.0))
    tl.store(out + edge * heads + head, tl.where(raw > 0, gradient, gradient * slope), mask=live)


@dataclass(frozen=True)
class _Attention:
    """Launches of the kernels for one matrix."""

    matrix: Operand
    slope: float
    edge_mask: Any

    def drawing(self, device: torch.device) -> tuple[int, int, Tensor | None]:
        """Key, the bound below which a word drops its edge, and the edges' ids unless they are positions."""
        mask = self.edge_mask
        return (0, 0, None) if mask is None else (mask.key, mask.bound, self.matrix.on(device).numbers)

    def constants(self, like: Tensor) -> Tensor:
        """Slope of the leaky ReLU and scale of what dropout retains, in the type of the tensors."""
        scale = 1.0 if self.edge_mask is None else self.edge_mask.scale
        return _constants(self.slope, scale, like.dtype, like.device)

    def statistics(self, scores: tuple[Tensor | None, ...]) -> tuple[Tensor, Tensor]:
        """Largest score and sum of exponentials of each row's edges, [rows, heads]."""
        score_src, score_dst, score_edge = scores
        assert score_src is not None and score_dst is not None
        side, heads = side_of(self.matrix, score_src.device), score_src.shape[1]
        results = [score_src.new_empty((rows, heads)) for rows in (side.count, side.pieces.partials) for _ in range(2)]
        pieces, (row_max, row_sum, part_max, part_sum) = side.pieces, results
        _row_statistics[(len(pieces),)](
            pieces.bounds, pieces.rows, pieces.slots, side.columns, score_src, score_dst, score_edge,
            self.constants(score_src), *results, heads, score_edge is not None, _EDGES, triton.next_power_of_2(heads),
            num_warps=1,
        )  # fmt: skip
        if pieces.hubs is not None:
            _merge(pieces.hubs, row_max, row_sum, part_max, part_sum)
        return row_max, row_sum

    def attend(self, x: Tensor, scores: tuple[Tensor | None, ...], rows: tuple[Tensor, Tensor], back: bool) -> Tensor:
        """Sum rows of x [n, heads, width] by attention, over in-edges or ``back`` over out-edges."""
        heads, width = x.shape[1:]
        side = side_of(self.matrix, x.device, transposed=back)
        pieces, shape = side.pieces, (heads, width)
        out, partial = x.new_empty((side.count, *shape)), x.new_empty((pieces.partials, *shape))
        if out.numel() == 0:
            return out
        permutation = self.matrix.on(x.device).permutation if back else None
        columns, edges = block_of(width)
        drawing = self.drawing(x.device)
        _attend[(len(pieces), heads, triton.cdiv(width, columns))](
            pieces.bounds, pieces.rows, pieces.slots, side.columns, permutation, *scores, *rows, self.constants(x),
            *drawing, x, out, partial, heads, width, back, scores[2] is not None, self.edge_mask is not None,
            drawing[2] is not None, edges, columns, num_warps=1,
        )  # fmt: skip
        if pieces.hubs is not None:
            launch_sums(pieces.hubs, partial.flatten(1), out.flatten(1), partial)
        return out

    def edge_gradients(
        self, z: Tensor, scores: tuple[Tensor | None, ...], rows: tuple[Tensor, Tensor], grad: Tensor, products: Tensor
    ) -> Tensor:
        """Gradients of the scores [nnz, heads] before the leaky ReLU."""
        heads, width = z.shape[1:]
        out = z.new_empty((self.matrix.nnz, heads))
        if out.numel() == 0:
            return out
        columns, edges = block_of(width)
        destinations, side = self.matrix.on(z.device).destinations, side_of(self.matrix, z.device)
        drawing = self.drawing(z.device)
        _edge_gradients[(triton.cdiv(self.matrix.nnz, edges), heads)](
            destinations, side.columns, *scores, *rows, self.constants(z), *drawing, products, grad, z, out,
            self.matrix.nnz, heads, width, scores[2] is not None, self.edge_mask is not None, drawing[2] is not None,
            edges, columns, num_warps=1,
        )  # fmt: skip
        return out


def _merge(hubs: RowPieces, row_max: Tensor, row_sum: Tensor, part_max: Tensor, part_sum: Tensor) -> None:
    """Write the statistics of hubs from those of their pieces."""
    heads = row_max.shape[1]
    hub = torch.arange(len(hubs), device=row_max.device).repeat_interleave(hubs.bounds.diff())
    place = hub[:, None].expand_as(part_max)
    largest = part_max.new_full((len(hubs), heads), -torch.inf).scatter_reduce(0, place, part_max, "amax")
    row_max[hubs.rows] = largest
    base = largest.masked_fill(largest == -torch.inf, 0.0)
    launch_sums(hubs, part_sum * (part_max - base[hub]).exp(), row_sum, part_sum)


@lru_cache(maxsize=16)
def _constants(slope: float, scale: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    # a tensor, as a number would be rounded to float32
    return torch.tensor([slope, scale], dtype=dtype, device=device)


def gat(
    matrix: Operand,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    score_edge: Tensor | None,
    slope: float,
    edge_mask: Any,
) -> Tensor:
    """Attend over in-edges: [rows, heads, d]; ``edge_mask`` drops heads of edges by their ids."""
    out: Tensor = _Gat.apply(_Attention(matrix, slope, edge_mask), z, score_src, score_dst, score_edge)
    return out


class _Gat(torch.autograd.Function):
    """Attention that saves its output, each row's largest score and its sum of exponentials."""

    @staticmethod
    def forward(ctx: Any, attention: _Attention, z: Tensor, *inputs: Tensor | None) -> Tensor:
        z, scores = (
            z.detach().contiguous(),
            tuple(None if part is None else part.detach().contiguous() for part in inputs),
        )
        rows = attention.statistics(scores)
        out = attention.attend(z, scores, rows, back=False)
        ctx.attention = attention
        ctx.save_for_backward(z, *scores, *rows, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, *scores, row_max, row_sum, out = ctx.saved_tensors
        attention, rows, grad = ctx.attention, (row_max, row_sum), grad.contiguous()
        matrix, products = attention.matrix, (out * grad).sum(-1)
        by_edge = attention.edge_gradients(z, tuple(scores), rows, grad, products)
        sources, destinations = side_of(matrix, z.device, transposed=True), side_of(matrix, z.device)
        return (
            None,
            attention.attend(grad, tuple(scores), rows, back=True),
            add_rows(sources, by_edge, columns=matrix.on(z.device).permutation),
            add_rows(destinations, by_edge, listed=False),
            by_edge if scores[2] is not None else None,
        )
