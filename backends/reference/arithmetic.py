"""Arithmetics in which the definition is evaluated: without rounding errors, or with random ones (Parker 1997).

Monte Carlo arithmetic: every result gets a random relative error of the unit roundoff ``u``. A sum of K terms is
rounded K - 1 times: with partial sums S_k its error has the variance ``u^2 sum(S_k^2)``, of which the mean over all
orders of the terms has a closed form. So the errors grow with the length of a sum as they do in an engine that adds
up one term after another.
"""

from typing import Any, cast

import torch
from torch import Tensor

TINY = 2.0**-126  # the smallest normal float32: an engine may flush what is below to zero
LEAST = 1e-300  # an exponential is never 0


class Arithmetic:
    """Plain torch operations in one type; remembers on which side of 0 the input of each activation was.

    Another arithmetic that gets these ``sides`` takes the same branch of each activation.
    """

    def __init__(self, dtype: torch.dtype = torch.float64, sides: list[Tensor] | None = None) -> None:
        self.dtype = dtype
        self.sides: list[Tensor] = []
        self._remembered = None if sides is None else list(sides)

    def is_positive(self, x: Tensor) -> Tensor:
        """Whether each entry is above 0, or was so in the arithmetic whose sides were given."""
        if self._remembered is not None:
            return self._remembered.pop(0)
        self.sides.append(x.detach() > 0)
        return self.sides[-1]

    def round(self, x: Tensor) -> Tensor:
        """The result of an operation on single numbers, and the gradient that arrives at it."""
        return x

    def exp(self, x: Tensor) -> Tensor:
        """Exponential."""
        return torch.exp(x)

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Matrix product."""
        return a @ b

    def gather(self, x: Tensor, index: Tensor) -> Tensor:
        """Rows of ``x``; its gradient is a sum over all places that read a row."""
        return x[index]

    def sum(self, values: Tensor, index: Tensor, rows: int) -> Tensor:
        """Add up values [n, ...] at the rows of ``index`` [n]."""
        return values.new_zeros((rows, *values.shape[1:])).index_add(0, index, values)

    def aggregate(self, weight: Tensor, x: Tensor, source: Tensor, destination: Tensor) -> Tensor:
        """Add up ``weight`` [edges, heads] times the source's row of ``x`` [nodes, heads, width] at destinations."""
        if weight.requires_grad:  # learned, so of attention, which aggregates rows of the hidden width
            return self.sum(weight[:, :, None] * x[source], destination, len(x))
        return _weighted_sums(weight, x, source, destination)


class NoisyArithmetic(Arithmetic):
    """Float64 with random errors of the unit roundoff ``unit`` in every result and every gradient.

    The ``sizes`` of the errors are those of the first evaluation: further ones may share them.
    """

    def __init__(self, unit: float, seed: int, sides: list[Tensor], sizes: dict[tuple[int, int], Tensor]) -> None:
        super().__init__(sides=sides)
        self.unit, self.sizes, self.operations = unit, sizes, 0
        self.generator = torch.Generator().manual_seed(seed)

    def round(self, x: Tensor) -> Tensor:
        """Add an error of one rounding to a result and to its gradient."""
        return self._apply(_Round, x)

    def exp(self, x: Tensor) -> Tensor:
        """Add an error of one rounding, that of underflow where the result is too small for a float64 too."""
        return self._apply(_Exp, x)

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Add the errors of sums over the inner dimension, and over outer ones to the gradients."""
        return self._apply(_Product, a, b)

    def gather(self, x: Tensor, index: Tensor) -> Tensor:
        """Copy rows; add the errors of a sum to the gradient."""
        return self._apply(_Gather, x, index)

    def sum(self, values: Tensor, index: Tensor, rows: int) -> Tensor:
        """Add the errors of the sums."""
        return self._apply(_Sum, values, index, rows)

    def aggregate(self, weight: Tensor, x: Tensor, source: Tensor, destination: Tensor) -> Tensor:
        """Add the errors of the sums over in-edges, of those over out-edges and over the width to the gradients."""
        return self._apply(_Aggregate, weight, x, source, destination)

    def _apply(self, function: Any, *operands: Any) -> Tensor:
        self.operations += 1
        return cast(Tensor, function.apply(self, self.operations, *operands))

    def rounded(self, x: Tensor) -> Tensor:
        """``x`` with an error of one rounding."""
        return x + self._normal(x) * torch.add(self.unit * x, x.sign(), alpha=TINY)

    def with_error(self, total: Tensor, key: tuple[int, int], squares_and_terms: Any) -> Tensor:
        """A sum with its error; ``squares_and_terms`` computes the sum of the squared terms, and their number."""
        if key not in self.sizes:
            squares, terms = squares_and_terms()
            self.sizes[key] = _sizes(total, self.unit * (squares + partial_sums(total, squares, terms)).sqrt())
        return total + self._normal(total) * self.sizes[key]

    def _normal(self, x: Tensor) -> Tensor:
        return torch.randn(x.shape, generator=self.generator, dtype=torch.float32)


def _sizes(x: Tensor, errors: Tensor) -> Tensor:
    """Errors of results ``x``, float32: at least that of underflow; a zero is exact, as sums of nothing are."""
    return torch.where(x == 0, 0.0, errors.clamp(min=TINY)).float()


def partial_sums(total: Tensor, squares: Tensor, terms: Tensor) -> Tensor:
    """Sum of the squares of a sum's partial sums from the second on, the mean over all orders of its terms.

    The k-th partial sum of K terms in random order has the mean ``k/K S`` and the variance of sampling without
    replacement, ``k (K - k) / (K (K - 1)) (Q - S^2 / K)`` with Q the sum of the squared terms.
    """
    count = terms.clamp(min=1.0)
    mean_squares = total**2 / count
    drift = ((count + 1) * (2 * count + 1) / 6 - 1 / count) * mean_squares
    spread = ((count + 1) / 6 - 1 / count).clamp(min=0.0) * (squares - mean_squares).clamp(min=0.0)
    return drift + spread


class _Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, arithmetic: NoisyArithmetic, _: int, x: Tensor) -> Tensor:
        ctx.arithmetic = arithmetic
        return arithmetic.rounded(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, None, ctx.arithmetic.rounded(gradients[0])


class _Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, arithmetic: NoisyArithmetic, _: int, x: Tensor) -> Tensor:
        out = arithmetic.rounded(torch.exp(x).clamp(min=LEAST))
        ctx.arithmetic = arithmetic
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, None, ctx.arithmetic.rounded(gradients[0] * ctx.saved_tensors[0])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, arithmetic: NoisyArithmetic, operation: int, a: Tensor, b: Tensor) -> Tensor:
        ctx.arithmetic, ctx.operation = arithmetic, operation
        ctx.save_for_backward(a, b)
        return _product(arithmetic, (operation, 0), a, b)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (a, b), above, operation = ctx.saved_tensors, gradients[0], ctx.operation
        of_a = _product(ctx.arithmetic, (operation, 1), above, b.mT) if ctx.needs_input_grad[2] else None
        of_b = _product(ctx.arithmetic, (operation, 2), a.mT, above) if ctx.needs_input_grad[3] else None
        return None, None, of_a, of_b


def _product(arithmetic: NoisyArithmetic, key: tuple[int, int], a: Tensor, b: Tensor) -> Tensor:
    def squares_and_terms() -> tuple[Tensor, Tensor]:
        return a**2 @ b**2, ((a != 0).float() @ (b != 0).float()).double()

    return arithmetic.with_error(a @ b, key, squares_and_terms)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, arithmetic: NoisyArithmetic, operation: int, x: Tensor, index: Tensor) -> Tensor:
        ctx.arithmetic, ctx.operation, ctx.rows = arithmetic, operation, len(x)
        ctx.save_for_backward(index)
        return x[index]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        total = _sum(ctx.arithmetic, (ctx.operation, 1), gradients[0], *ctx.saved_tensors, ctx.rows)
        return None, None, total, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, arithmetic: NoisyArithmetic, operation: int, values: Tensor, index: Tensor, rows: int
    ) -> Tensor:
        ctx.save_for_backward(index)
        return _sum(arithmetic, (operation, 0), values, index, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, None, gradients[0][ctx.saved_tensors[0]], None, None


def _sum(arithmetic: NoisyArithmetic, key: tuple[int, int], values: Tensor, index: Tensor, rows: int) -> Tensor:
    zeros = values.new_zeros((rows, *values.shape[1:]))

    def squares_and_terms() -> tuple[Tensor, Tensor]:
        terms = (values != 0).reshape(len(values), -1).any(1).to(values.dtype)
        counts = values.new_zeros(rows).index_add(0, index, terms)
        return zeros.index_add(0, index, values**2), counts.reshape(-1, *(1,) * (values.dim() - 1))

    return arithmetic.with_error(zeros.index_add(0, index, values), key, squares_and_terms)


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        arithmetic: NoisyArithmetic,
        operation: int,
        weight: Tensor,
        x: Tensor,
        source: Tensor,
        destination: Tensor,
    ) -> Tensor:
        ctx.arithmetic, ctx.operation = arithmetic, operation
        ctx.save_for_backward(weight, x, source, destination)
        return _aggregate(arithmetic, (operation, 0), weight, x, source, destination)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        weight, x, source, destination = ctx.saved_tensors
        of_weight, of_x = None, None
        if ctx.needs_input_grad[2]:
            terms = gradients[0][destination] * x[source]
            width = torch.tensor(float(x.shape[2]), dtype=x.dtype)
            of_weight = ctx.arithmetic.with_error(
                terms.sum(2), (ctx.operation, 2), lambda: (terms.square().sum(2), width)
            )
        if ctx.needs_input_grad[3]:
            of_x = _aggregate(ctx.arithmetic, (ctx.operation, 1), weight, gradients[0], destination, source)
        return None, None, of_weight, of_x, None, None


def _aggregate(
    arithmetic: NoisyArithmetic, key: tuple[int, int], weight: Tensor, x: Tensor, source: Tensor, destination: Tensor
) -> Tensor:
    def squares_and_terms() -> tuple[Tensor, Tensor]:
        terms = (x != 0).reshape(len(x), -1).any(1).to(x.dtype)[source]
        counts = x.new_zeros(len(x)).index_add(0, destination, terms)
        return _weighted_sums(weight**2, x**2, source, destination), counts[:, None, None]

    return arithmetic.with_error(_weighted_sums(weight, x, source, destination), key, squares_and_terms)


def _weighted_sums(weight: Tensor, x: Tensor, source: Tensor, destination: Tensor) -> Tensor:
    """As sparse products, which need no array over edges and columns."""
    ends, size = torch.stack([destination, source]), (len(x), len(x))
    columns = zip(weight.unbind(1), x.unbind(1), strict=True)
    heads = [torch.sparse_coo_tensor(ends, values, size) @ of_head for values, of_head in columns]
    return torch.stack(heads, 1)


def single(sides: list[Tensor]) -> Arithmetic:
    """Plain float32."""
    return Arithmetic(torch.float32, sides)
