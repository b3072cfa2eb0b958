"""Filter expressions over columns of edges and of their source nodes: ``weight * 2 > 0.5 and neighbor.type in (1, 2)``.

Columns are ``weight``, ``type``, ``feature[N]`` of an edge, ``neighbor.type``, ``neighbor.feature[N]`` of its source.
"""

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.features import Features, SparseFeatures
from datasets.graph import Graph

COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda left, right: _is_in(left, right),
    ast.NotIn: lambda left, right: ~_is_in(left, right),
}
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
NEIGHBOR = "neighbor."
COLUMNS = "weight, type, feature[N], neighbor.type, neighbor.feature[N]"


class FilterError(ValueError):
    """A filter that cannot be parsed, or names a column that the graph does not have."""


def edge_columns(graph: Graph, name: str) -> NDArray[Any]:
    """Return a column of edges, [nnz]; raises FilterError where the graph has none of that name."""
    column = _edge_column(graph, name)
    if column is None:
        raise FilterError(
            f"the graph has no column {name!r} of edges: allowed are weight, type, feature[N] where the graph has them"
        )
    return column


class EdgeFilter:
    """A filter of a graph's edges, evaluated in parts; columns are read once. Raises FilterError for a wrong text."""

    def __init__(self, graph: Graph, text: str) -> None:
        self.graph, self.text, self.tree = graph, text, _parse(text)
        self.columns: dict[str, NDArray[Any]] = {}

    def mask(self, start: int, end: int) -> NDArray[np.bool_]:
        """Whether each edge from position ``start`` to ``end`` passes, [end - start]; raises FilterError."""
        try:
            with np.errstate(all="ignore"):
                passes = np.asarray(self._evaluate(self.tree, slice(start, end)))
            return np.broadcast_to(passes.astype(bool), (end - start,))
        except FilterError:
            raise
        except (TypeError, ValueError, ArithmeticError) as error:  # as of a number and a word, or one above all floats
            problem = "compares values that cannot be compared: columns hold numbers"
            raise FilterError(f"filter {self.text!r} {problem}") from error

    def _evaluate(self, tree: ast.expr, edges: slice) -> Any:
        if isinstance(tree, ast.BoolOp):
            join = np.logical_and if isinstance(tree.op, ast.And) else np.logical_or
            return join.reduce([self._evaluate(part, edges) for part in tree.values])
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
            return np.logical_not(self._evaluate(tree.operand, edges))
        if isinstance(tree, ast.Compare) and all(type(comparison) in COMPARE for comparison in tree.ops):
            values = [self._operand(part, edges) for part in (tree.left, *tree.comparators)]
            pairs = zip(tree.ops, values, values[1:], strict=False)
            return np.logical_and.reduce([COMPARE[type(comparison)](left, right) for comparison, left, right in pairs])
        raise FilterError(f"filter {self.text!r} is not allowed: compare columns with values, joined by and, or, not")

    def _operand(self, tree: ast.expr, edges: slice) -> Any:
        """Numbers that the filter states, a column's values for some edges, or arithmetic on them."""
        if isinstance(tree, ast.BinOp) and type(tree.op) in ARITHMETIC:
            left, right = (self._operand(part, edges) for part in (tree.left, tree.right))
            return ARITHMETIC[type(tree.op)](left, right)
        try:
            literal = ast.literal_eval(tree)
        except ValueError:
            return self._values(ast.unparse(tree), edges)
        several = isinstance(literal, tuple | list | set)
        if not all(isinstance(value, int | float) for value in (literal if several else [literal])):
            problem = f"compares with {literal!r}, but columns hold numbers: give a number, or several, as in (1, 2)"
            raise FilterError(f"filter {self.text!r} {problem}")
        return list(literal) if isinstance(literal, set) else literal  # an array is never equal to a set

    def _values(self, name: str, edges: slice) -> NDArray[Any]:
        """The values of a column for some edges."""
        column = self._column(name)
        values = column[self.graph.csr.indices[edges]] if name.startswith(NEIGHBOR) else column[edges]
        return values.astype(np.float64) if values.dtype.kind == "i" else values  # types, whose sums int32 would wrap

    def _column(self, name: str) -> NDArray[Any]:
        """A column of edges, or of all nodes for the edges' neighbours; of sparse features it is copied."""
        if name not in self.columns:
            read = _node_column if name.startswith(NEIGHBOR) else _edge_column
            column = read(self.graph, name.removeprefix(NEIGHBOR))
            if column is None:
                problem = f"names {name!r}, which this graph does not have: columns are {COLUMNS}"
                raise FilterError(f"filter {self.text!r} {problem}")
            self.columns[name] = column
        return self.columns[name]


def check_filter(graph: Graph, text: str) -> None:
    """Raise FilterError unless the filter can be evaluated on the graph."""
    EdgeFilter(graph, text).mask(0, min(1, graph.csr.nnz))


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text.replace(" AND ", " and ").replace(" OR ", " or "), mode="eval").body
    except SyntaxError as error:
        raise FilterError(
            f"filter {text!r} cannot be read: write for example weight > 0.5 and type in (1, 2)"
        ) from error


def _is_in(left: Any, right: Any) -> NDArray[np.bool_]:
    """Whether values are among others, which are rounded to the type of a column as by ``==``."""
    values = np.asarray(left)
    return np.isin(values, np.asarray(right, values.dtype) if values.dtype.kind == "f" else right)


def _edge_column(graph: Graph, name: str) -> NDArray[Any] | None:
    known = {"weight": graph.edge_weights, "type": graph.edge_types}
    return known[name] if name in known else _feature(graph.edge_features, name)


def _node_column(graph: Graph, name: str) -> NDArray[Any] | None:
    return graph.node_types if name == "type" else _feature(graph.features, name)


def _feature(table: Features | None, name: str) -> NDArray[Any] | None:
    match = re.fullmatch(r"feature\[(\d+)\]", name)
    if match is None or table is None or int(match[1]) >= table.shape[1]:
        return None
    return table.column(int(match[1])) if isinstance(table, SparseFeatures) else table[:, int(match[1])]
