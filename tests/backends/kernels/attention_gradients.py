"""Attention's gradients where rounding decides: what every implementation of ``gat`` is held to."""

import numpy as np
import torch

from backends.kernels import gat, plain
from backends.kernels.operand import operand
from datasets.csr import Csr


def results(call, inputs, flow):
    """Output and gradients of a call, on the CPU in float64."""
    operands = [part.clone().requires_grad_() for part in inputs]
    out = call(*operands)
    return [part.detach().cpu().double() for part in (out, *torch.autograd.grad(out, operands, flow))]


def check_as_exact_as_plain_torch(csr, inputs, flow, device="cpu", **options):
    """Errors against float64 are at most 4 times those of plain torch in float32, or 1e-5 of the largest entry.

    An entry that cancels exactly is measured by what plain torch makes of it, not by the largest product of its sum.
    """
    single = [part.float() for part in inputs]

    def definition(*parts):
        return plain.gat(operand(csr), *parts, *([None] if len(parts) == 3 else []), 0.2, None)

    exact = results(definition, [part.double() for part in single], flow.float().double())
    in_torch = results(definition, single, flow.float())
    actual = results(
        lambda *parts: gat(csr, *parts, **options), [part.to(device) for part in single], flow.float().to(device)
    )
    for one, torch_one, other in zip(actual, in_torch, exact, strict=True):
        assert one.isfinite().all()
        allowed = max(4 * float((torch_one - other).abs().max()), 1e-5 * float(other.abs().max()))
        assert float((one - other).abs().max()) <= allowed


def check_parallel_edges(copies, device="cpu"):
    """Edges of one source alone in their row have no gradients of scores, whatever the scale of the features.

    With a power of two ``copies`` their weights are exact, and so is what cancels.
    """
    csr = Csr(np.arange(7, dtype=np.int32) * copies, np.arange(6, dtype=np.int32).repeat(copies), (6, 6))
    draw = torch.Generator().manual_seed(3)
    for scale in (1.0, 1e6, 1e30):
        z, score_src, score_dst = (scale * torch.randn(6, 2, width, generator=draw) for width in (40, 1, 1))
        flow = torch.full((6, 2, 40), 1e6)
        score_edge = score_src[..., 0].flip(0).repeat_interleave(copies, 0)
        placed = [part.contiguous().to(device) for part in (z, score_src[..., 0], score_dst[..., 0], score_edge)]
        _, grad_z, *others = results(lambda *parts: gat(csr, *parts), placed, flow.to(device))
        assert torch.equal(grad_z, flow.double()) and not any(part.any() for part in others)


def large_features(seed, csr, heads, width, scale):
    """Operands whose features are ``scale`` large and whose scores are not: products cancel in a row's gradient."""
    draw = torch.Generator().manual_seed(seed)
    rows, columns = csr.shape
    shapes = (columns, heads, width), (columns, heads), (rows, heads)
    z, *scores = (torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes)
    flow = torch.randn(rows, heads, width, generator=draw, dtype=torch.float64)
    return [scale * (z + 1), *scores], flow
