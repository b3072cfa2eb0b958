"""Graph attention by the compiled extension: scores, softmax and weighted sum of a row in one pass."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backends.kernels.buffers import empty, empty_like
from backends.kernels.checks import without_second_derivative
from backends.kernels.extension import arrays, extension
from backends.kernels.native.dropout import MaskArguments
from backends.kernels.native.epilogue import bias_activation
from backends.kernels.operand import Operand


def gat(
    matrix: Operand,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    score_edge: Tensor | None,
    slope: float,
    edge_mask: Any,
) -> Tensor:
    """Attend over in-edges: [rows, heads, d]; ``edge_mask`` drops heads of edges. Heads may share one row of z."""
    return _attend(AttentionKernel(matrix, slope, edge_mask), False, z, score_src, score_dst, score_edge)


def gat_layer(
    matrix: Operand,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    bias: Tensor,
    activation: str,
    slope: float,
    edge_mask: Any,
    mask: Any,
) -> Tensor:
    """Attend, then write bias, activation and dropout over the result: [rows, heads * d]."""
    out = _attend(AttentionKernel(matrix, slope, edge_mask), True, z, score_src, score_dst, None)
    return bias_activation(out, bias, activation, True, mask)


@dataclass(frozen=True)
class AttentionKernel:
    """Calls of the extension for one matrix; ``edge_mask`` drops heads of edges by the edges' ids."""

    matrix: Operand
    slope: float
    edge_mask: Any

    @property
    def _drawing(self) -> MaskArguments | None:
        mask = self.edge_mask
        return None if mask is None else MaskArguments.of(mask.key, mask.bound, mask.scale, self.matrix.numbers)

    def forward(self, operands: list[Tensor | None], flat: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Attend with z and the scores of sources, destinations and edges: the output, row maxima and sums.

        The output is [rows, heads, d]; ``flat``: [rows, heads * d].
        """
        z, score_src, direction = operands[0], operands[1], self.matrix.forward
        assert z is not None and score_src is not None
        rows, heads, width = self.matrix.shape[0], score_src.shape[1], z.shape[2]
        out = empty((rows, heads * width) if flat else (rows, heads, width), z.dtype)
        row_max, row_sum = (empty((rows, heads), z.dtype) for _ in range(2))
        extension.gat_forward(
            direction.indptr, direction.indices, direction.bounds, direction.hubs, *arrays(*operands), self.slope,
            self._drawing, *arrays(row_max, row_sum, out), direction.workers(heads * width),
        )  # fmt: skip
        return out, row_max, row_sum

    def backward(self, saved: tuple[Tensor, ...], grad: Tensor, needed: tuple[bool, ...]) -> list[Tensor | None]:
        """Gradients of the four operands, of z and of edge scores where they are ``needed``.

        ``saved`` are the operands, row maxima and row sums of the forward pass.
        """
        if not needed[0]:
            return self._backward_fixed(saved, grad, needed[3])
        matrix, direction, heads, width = self.matrix, self.matrix.backward, saved[1].shape[1], saved[0].shape[2]
        grads = [*map(empty_like, saved[:3]), empty_like(saved[3]) if needed[3] else None]
        grad = grad.contiguous().view(len(grad), heads, width)
        scratch = empty((matrix.nnz, 2, heads), grad.dtype), empty_like(saved[5])
        extension.gat_backward(
            direction.indptr, direction.indices, direction.bounds, direction.hubs, matrix.permutation,
            matrix.forward.indptr, matrix.inverse, matrix.forward.bounds, matrix.forward.hubs, *arrays(*saved[:4]),
            self.slope, self._drawing, *arrays(*saved[4:], grad, *grads, *scratch),
            direction.workers(heads * width),
        )  # fmt: skip
        return grads

    def _backward_fixed(self, saved: tuple[Tensor, ...], grad: Tensor, edges: bool) -> list[Tensor | None]:
        """Gradients of the scores alone, which need no transpose."""
        matrix, direction, heads, width = self.matrix, self.matrix.forward, saved[1].shape[1], saved[0].shape[2]
        grads = [*map(empty_like, saved[1:3]), empty((matrix.nnz, heads), grad.dtype)]
        grad = grad.contiguous().view(len(grad), heads, width)
        scratch = empty((matrix.nnz, 2, heads), grad.dtype), empty_like(saved[5])
        extension.gat_backward_fixed(
            direction.indptr, direction.indices, direction.bounds, direction.hubs, *arrays(*saved[:4]), self.slope,
            self._drawing, *arrays(*saved[4:], grad, *grads, *scratch), direction.workers(heads * width),
        )  # fmt: skip
        return [None, *grads[:2], grads[2] if edges else None]


def _attend(kernel: AttentionKernel, flat: bool, *operands: Tensor | None) -> Tensor:
    out: Tensor = _Gat.apply(kernel, flat, *operands)
    return out


class _Gat(torch.autograd.Function):
    """Attention that saves each row's largest score and its sum of exponentials, but not its output.

    The next operation may overwrite the output.
    """

    @staticmethod
    def forward(ctx: Any, kernel: AttentionKernel, flat: bool, *inputs: Tensor | None) -> Tensor:
        operands = [None if operand is None else operand.detach().contiguous() for operand in inputs]
        out, row_max, row_sum = kernel.forward(operands, flat)
        ctx.kernel = kernel
        ctx.save_for_backward(*operands, row_max, row_sum)
        return out

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *ctx.kernel.backward(ctx.saved_tensors, grad, ctx.needs_input_grad[2:])
