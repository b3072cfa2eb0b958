"""Graph attention in Triton: a pass computes the weights of edges once, sums rows by them, and forgets them."""

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from backends.kernels.checks import without_second_derivative
from backends.kernels.operand import Operand
from backends.kernels.triton.dropout import constants, retained
from backends.kernels.triton.layout import RowPieces, side_of
from backends.kernels.triton.sums import COLUMNS, ENTRIES, UNROLLED, add_rows

_ENTRIES = 1024  # of a program that computes weights of edges


@triton.jit
def _scores(source, destination, edge, score_src, score_dst, score_edge, heads, head, live, EDGE_SCORES: tl.constexpr):
    """Scores of edges before the leaky ReLU, for one head or for a row of them."""
    raw = tl.load(score_src + source * heads + head, mask=live, other=0.0)
    raw += tl.load(score_dst + destination * heads + head, mask=live, other=0.0)
    if EDGE_SCORES:
        raw += tl.load(score_edge + edge * heads + head, mask=live, other=0.0)
    return raw


@triton.jit
def _retained(edge, live, numbers, head, key, bound, NUMBERED: tl.constexpr):
    """Whether dropout retains a head of edges."""
    number = tl.load(numbers + edge, mask=live, other=0) if NUMBERED else edge
    return retained(number, head + tl.zeros_like(number), key, bound)


@triton.jit
def _row_statistics(
    begins, ends, rows, slots, count, columns, score_src, score_dst, score_edge, constants, row_max, row_sum, part_max,
    part_sum, heads, MERGES: tl.constexpr, EDGE_SCORES: tl.constexpr, PIECES: tl.constexpr, HEADS: tl.constexpr,
    UNROLLED: tl.constexpr,
):  # fmt: skip
    """Largest score and sum of exponentials of pieces' edges, for all heads.

    It ``MERGES`` those of a hub's pieces, which are then in ``score_src`` and ``score_dst``.
    """
    piece = tl.program_id(0) * PIECES + tl.arange(0, PIECES)
    valid = piece < count
    begin, end = tl.load(begins + piece, mask=valid, other=0), tl.load(ends + piece, mask=valid, other=0)
    row = tl.load(rows + piece, mask=valid, other=0).to(tl.int64)[:, None]
    slot = tl.load(slots + piece, mask=valid, other=0).to(tl.int64)[:, None]
    slope, head = tl.load(constants), tl.arange(0, HEADS)[None, :]
    largest = tl.full([PIECES, HEADS], float("-inf"), dtype=row_max.dtype.element_ty)
    total = tl.zeros([PIECES, HEADS], dtype=row_max.dtype.element_ty)
    for first in range(0, tl.max(end - begin, 0), UNROLLED):
        for step in tl.static_range(UNROLLED):
            edge = (begin + first + step).to(tl.int64)[:, None]
            live = (edge < end[:, None]) & (head < heads)
            if MERGES:
                score = tl.load(score_src + edge * heads + head, mask=live, other=float("-inf"))
                amount = tl.load(score_dst + edge * heads + head, mask=live, other=0.0)
            else:
                column = tl.load(columns + edge, mask=edge < end[:, None], other=0).to(tl.int64)
                raw = _scores(column, row, edge, score_src, score_dst, score_edge, heads, head, live, EDGE_SCORES)
                score = tl.where(live, tl.where(raw > 0, raw, raw * slope), float("-inf"))
                amount = 1.0
            larger = tl.maximum(largest, score)
            base = tl.where(larger == float("-inf"), 0.0, larger)
            total = total * tl.exp(largest - base) + amount * tl.exp(score - base)
            largest = larger
    inside = valid[:, None] & (head < heads)
    tl.store(part_max + slot * heads + head, largest, mask=inside & (slot >= 0))
    tl.store(part_sum + slot * heads + head, total, mask=inside & (slot >= 0))
    tl.store(row_max + row * heads + head, largest, mask=inside & (slot < 0))
    tl.store(row_sum + row * heads + head, total, mask=inside & (slot < 0))


@triton.jit(do_not_specialize=["key", "bound"])
def _edge_weights(
    edge_rows, columns, permutation, score_src, score_dst, score_edge, row_max, row_sum, constants, key, bound, numbers,
    out, edges, heads, TRANSPOSED: tl.constexpr, SIGNED: tl.constexpr, EDGE_SCORES: tl.constexpr, DROPS: tl.constexpr,
    NUMBERED: tl.constexpr, EDGES: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    """What attention multiplies edges by, [nnz, heads]; transposed, in the order of the out-edges.

    ``SIGNED``: negative where the leaky ReLU multiplied the score by its slope.
    """
    place = (tl.program_id(0).to(tl.int64) * EDGES + tl.arange(0, EDGES))[:, None]
    head = tl.arange(0, HEADS)[None, :]
    known = place < edges
    live = known & (head < heads)
    row = tl.load(edge_rows + place, mask=known, other=0).to(tl.int64)
    column = tl.load(columns + place, mask=known, other=0).to(tl.int64)
    if TRANSPOSED:
        edge = tl.load(permutation + place, mask=known, other=0).to(tl.int64)
        source, destination = row, column
    else:
        edge = place
        source, destination = column, row
    raw = _scores(source, destination, edge, score_src, score_dst, score_edge, heads, head, live, EDGE_SCORES)
    score = tl.where(raw > 0, raw, raw * tl.load(constants))
    alpha = tl.exp(score - tl.load(row_max + destination * heads + head, mask=live, other=0.0))
    alpha /= tl.load(row_sum + destination * heads + head, mask=live, other=1.0)
    if DROPS:
        survives = _retained(edge, known, numbers, head, key, bound, NUMBERED)
        alpha = tl.where(survives, alpha * tl.load(constants + 1), 0.0)
    if SIGNED:
        alpha = tl.where(raw > 0, alpha, -alpha)
    tl.store(out + place * heads + head, alpha, mask=live)


@triton.jit(do_not_specialize=["key", "bound"])
def _edge_products(
    begins, ends, rows, count, columns, constants, key, bound, numbers, z, grad, out, heads, width,
    DROPS: tl.constexpr, NUMBERED: tl.constexpr, WHOLE: tl.constexpr, PIECES: tl.constexpr, HEADS: tl.constexpr,
    COLUMNS: tl.constexpr, UNROLLED: tl.constexpr,
):  # fmt: skip
    """Inner products of both ends of edges, [nnz, heads]: the source's row and the destination's gradient.

    A program takes some heads of some pieces, one edge of each at a time; ``WHOLE``: all their columns at once, so that
    the row's gradient stays in registers.
    """
    piece = tl.program_id(0) * PIECES + tl.arange(0, PIECES)
    valid = piece < count
    begin, end = tl.load(begins + piece, mask=valid, other=0), tl.load(ends + piece, mask=valid, other=0)
    row = tl.load(rows + piece, mask=valid, other=0).to(tl.int64)[:, None]
    head = (tl.program_id(1) * HEADS + tl.arange(0, HEADS))[None, :]
    at = tl.arange(0, COLUMNS)[None, None, :]
    inside = (head < heads)[:, :, None] & (at < width)
    place = (row * heads + head)[:, :, None] * width + at
    flow = tl.load(grad + place, mask=valid[:, None, None] & inside, other=0.0)
    for start in range(0, tl.max(end - begin, 0), UNROLLED):
        for step in tl.static_range(UNROLLED):
            edge = (begin + start + step).to(tl.int64)[:, None]
            known = edge < end[:, None]
            column = tl.load(columns + edge, mask=known, other=0).to(tl.int64)
            source = (column * heads + head)[:, :, None] * width + at
            inner = tl.sum(flow * tl.load(z + source, mask=known[:, :, None] & inside, other=0.0), 2)
            if not WHOLE:
                for first in range(COLUMNS, width, COLUMNS):
                    both = known[:, :, None] & inside & (at < width - first)
                    part = tl.load(grad + place + first, mask=both, other=0.0)
                    inner += tl.sum(part * tl.load(z + source + first, mask=both, other=0.0), 2)
            if DROPS:
                survives = _retained(edge, known, numbers, head, key, bound, NUMBERED)
                inner = tl.where(survives, inner * tl.load(constants + 1), 0.0)
            tl.store(out + edge * heads + head, inner, mask=known & (head < heads))


@triton.jit
def _score_gradients(
    edge_rows, weights, products, inner, constants, edges, heads, EDGES: tl.constexpr, HEADS: tl.constexpr
):
    """Gradients of scores before the leaky ReLU over the ``products`` [nnz, heads]; ``weights`` are signed.

    From each product the row's ``inner`` [rows, heads] is subtracted, the sum of its weights times products.
    """
    edge = (tl.program_id(0).to(tl.int64) * EDGES + tl.arange(0, EDGES))[:, None]
    head = tl.arange(0, HEADS)[None, :]
    known = edge < edges
    live = known & (head < heads)
    row = tl.load(edge_rows + edge, mask=known, other=0).to(tl.int64)
    weight = tl.load(weights + edge * heads + head, mask=live, other=0.0)
    excess = tl.load(products + edge * heads + head, mask=live, other=0.0)
    excess -= tl.load(inner + row * heads + head, mask=live, other=0.0)
    tl.store(
        products + edge * heads + head, tl.where(weight > 0, weight, -weight * tl.load(constants)) * excess, mask=live
    )


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
        return constants(like.dtype, like.device, self.slope, scale)

    def statistics(self, scores: tuple[Tensor | None, ...]) -> tuple[Tensor, Tensor]:
        """Largest score and sum of exponentials of each row's edges, [rows, heads]."""
        score_src = scores[0]
        assert score_src is not None
        side = side_of(self.matrix, score_src.device)
        row_max, row_sum = (score_src.new_empty((side.count, score_src.shape[1])) for _ in range(2))
        self._reduce(side.pieces, side.columns, scores, row_max, row_sum)
        return row_max, row_sum

    def _reduce(
        self,
        pieces: RowPieces,
        columns: Tensor | None,
        scores: tuple[Tensor | None, ...],
        row_max: Tensor,
        row_sum: Tensor,
    ) -> None:
        """Write the statistics of rows; those of hubs from their pieces', ``scores`` without ``columns``."""
        heads = row_max.shape[1]
        if row_max.numel() == 0:
            return
        part_max, part_sum = (row_max.new_empty((pieces.partials, heads)) for _ in range(2))
        wide = triton.next_power_of_2(heads)
        block = max(1, ENTRIES // wide)
        _row_statistics[(triton.cdiv(len(pieces), block),)](
            pieces.begins, pieces.ends, pieces.rows, pieces.slots, len(pieces), columns, *scores,
            self.constants(row_max), row_max, row_sum, part_max, part_sum, heads, columns is None,
            scores[2] is not None, block, wide, UNROLLED,
        )  # fmt: skip
        if pieces.hubs is not None:
            self._reduce(pieces.hubs, None, (part_max, part_sum, None), row_max, row_sum)

    def weights(
        self, scores: tuple[Tensor | None, ...], rows: tuple[Tensor, Tensor], back: bool, signed: bool
    ) -> Tensor:
        """What edges are multiplied by, [nnz, heads]: ``back`` by out-edge, ``signed`` without dropout."""
        row_max, heads = rows[0], rows[0].shape[1]
        side, edges = side_of(self.matrix, row_max.device, transposed=back), self.matrix.nnz
        weights = row_max.new_empty((edges, heads))
        if weights.numel() == 0:
            return weights
        permutation = self.matrix.on(row_max.device).permutation if back else None
        drawing, drops = self.drawing(row_max.device), self.edge_mask is not None and not signed
        block, wide = _edges_of_program(heads)
        _edge_weights[(triton.cdiv(edges, block),)](
            side.edge_rows, side.columns, permutation, *scores, *rows, self.constants(row_max), *drawing, weights,
            edges, heads, back, signed, scores[2] is not None, drops, drawing[2] is not None, block, wide,
        )  # fmt: skip
        return weights

    def products(self, z: Tensor, grad: Tensor) -> Tensor:
        """Inner products of rows of z with their destinations' gradients, after dropout, [nnz, heads]."""
        heads, width = z.shape[1:]
        out = z.new_empty((self.matrix.nnz, heads))
        if out.numel() == 0:
            return out
        columns = min(COLUMNS, triton.next_power_of_2(width))
        together = min(COLUMNS // columns, triton.next_power_of_2(heads))
        block = ENTRIES // (columns * together)
        side, drawing = side_of(self.matrix, z.device), self.drawing(z.device)
        pieces = side.pieces
        _edge_products[(triton.cdiv(len(pieces), block), triton.cdiv(heads, together))](
            pieces.begins, pieces.ends, pieces.rows, len(pieces), side.columns, self.constants(z), *drawing, z, grad,
            out, heads, width, self.edge_mask is not None, drawing[2] is not None, width <= columns, block, together,
            columns, 2, num_warps=2,
        )  # fmt: skip
        return out

    def score_gradients(
        self, z: Tensor, scores: tuple[Tensor | None, ...], rows: tuple[Tensor, Tensor], grad: Tensor
    ) -> Tensor:
        """Gradients of the scores [nnz, heads] before the leaky ReLU."""
        side, products = side_of(self.matrix, z.device), self.products(z, grad)
        if products.numel() == 0:
            return products
        weights = self.weights(scores, rows, back=False, signed=True)
        inner = add_rows(side, products.unsqueeze(2), weights.abs(), listed=False)
        block, wide = _edges_of_program(z.shape[1])
        _score_gradients[(triton.cdiv(len(products), block),)](
            side.edge_rows, weights, products, inner, self.constants(z), *products.shape, block, wide
        )
        return products


def _edges_of_program(heads: int) -> tuple[int, int]:
    """Edges of a program that computes a number for each head of an edge, and its heads: powers of two."""
    wide = triton.next_power_of_2(heads)
    return max(1, _ENTRIES // wide), wide


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
    z = z.expand(-1, score_src.shape[1], -1)
    out: Tensor = _Gat.apply(_Attention(matrix, slope, edge_mask), z, score_src, score_dst, score_edge)
    return out


class _Gat(torch.autograd.Function):
    """Attention that saves each row's largest score and its sum of exponentials."""

    @staticmethod
    def forward(ctx: Any, attention: _Attention, z: Tensor, *inputs: Tensor | None) -> Tensor:
        z = z.detach().contiguous()
        scores = tuple(None if part is None else part.detach().contiguous() for part in inputs)
        rows = attention.statistics(scores)
        ctx.attention = attention
        ctx.save_for_backward(z, *scores, *rows)
        weights = attention.weights(scores, rows, back=False, signed=False)
        return add_rows(side_of(attention.matrix, z.device), z, weights)

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, *inputs, row_max, row_sum = ctx.saved_tensors
        attention, scores, rows, grad = ctx.attention, tuple(inputs), (row_max, row_sum), grad.contiguous()
        matrix = attention.matrix
        by_edge = attention.score_gradients(z, scores, rows, grad)
        sources, destinations = side_of(matrix, z.device, transposed=True), side_of(matrix, z.device)
        return (
            None,
            add_rows(sources, grad, attention.weights(scores, rows, back=True, signed=False)),
            add_rows(sources, by_edge, columns=matrix.on(z.device).permutation),
            add_rows(destinations, by_edge, listed=False),
            by_edge if scores[2] is not None else None,
        )
