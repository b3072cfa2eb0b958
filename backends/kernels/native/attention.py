"""Graph attention by the compiled extension: scores, softmax and weighted sum of a row in one pass."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from backends.kernels.buffers import empty, empty_like
from backends.kernels.extension import arrays, extension, workers
from backends.kernels.native.dropout import MaskArguments
from backends.kernels.native.epilogue import bias_activation, bias_activation_in_place
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
    kernel = AttentionKernel(matrix, slope, edge_mask)
    out: Tensor = _Gat.apply(kernel, z, score_src, score_dst, score_edge)
    return out


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
    """Attend, then write bias and activation over the result: [rows, heads * d].

    With a ``mask`` the result is kept beside: what dropout scaled says less exactly what it was.
    """
    if mask is not None:
        out = gat(matrix, z, score_src, score_dst, None, slope, edge_mask)
        return bias_activation(out.flatten(1), bias, activation, False, mask)
    kernel = AttentionKernel(matrix, slope, edge_mask)
    out, products = _GatWithoutOutput.apply(kernel, z, score_src, score_dst)
    return bias_activation_in_place(out, products, bias, activation)


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

    def backward(self, saved: tuple[Tensor, ...], grad: Tensor, products: Tensor, edges: bool) -> list[Tensor | None]:
        """Gradients of the operands, of edge scores where ``edges``.

        ``saved`` are the four operands, row maxima and row sums of the forward pass; ``products`` [rows, heads] are the
        inner products of the output and its gradient.
        """
        matrix, direction, heads, width = self.matrix, self.matrix.backward, saved[1].shape[1], saved[0].shape[2]
        grads = [*map(empty_like, saved[:3]), empty_like(saved[3]) if edges else None]
        grad = grad.contiguous().view(-1, heads, width)
        extension.gat_backward(
            direction.indptr, direction.indices, direction.bounds, direction.hubs, matrix.permutation,
            matrix.forward.indptr, matrix.inverse, matrix.forward.bounds, matrix.forward.hubs, *arrays(*saved[:4]),
            self.slope, self._drawing, *arrays(*saved[4:], products, grad, *grads),
            direction.workers(heads * width),
        )  # fmt: skip
        return grads


def _detached(operands: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    return [None if operand is None else operand.detach().contiguous() for operand in operands]


class _Gat(torch.autograd.Function):
    """Attention that saves its output, each row's largest score and its sum of exponentials."""

    @staticmethod
    def forward(ctx: Any, kernel: AttentionKernel, *inputs: Tensor | None) -> Tensor:
        operands = _detached(inputs)
        out, row_max, row_sum = kernel.forward(operands, flat=False)
        ctx.kernel = kernel
        ctx.save_for_backward(*operands, row_max, row_sum, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *saved, row_max, row_sum, out = ctx.saved_tensors
        grad = grad.contiguous()
        products = empty_like(row_max)
        extension.row_products(*arrays(out, grad, products), workers(out.numel(), 1))
        edges = ctx.needs_input_grad[4]
        return None, *ctx.kernel.backward((*saved, row_max, row_sum), grad, products, edges)


class _GatWithoutOutput(torch.autograd.Function):
    """Attention that does not save its output, which the next operation may overwrite.

    The backward pass needs the inner products of the output and its gradient. The next operation computes them and
    returns them as the gradient of the second output, which has their shape and is not initialized.
    """

    @staticmethod
    def forward(ctx: Any, kernel: AttentionKernel, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        operands = [*_detached(inputs), None]
        out, row_max, row_sum = kernel.forward(operands, flat=True)
        ctx.kernel = kernel
        ctx.save_for_backward(*operands, row_max, row_sum)
        return out, torch.empty_like(row_max)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, products: Tensor) -> tuple[Tensor | None, ...]:
        return None, *ctx.kernel.backward(ctx.saved_tensors, grad, products, edges=False)[:3]
