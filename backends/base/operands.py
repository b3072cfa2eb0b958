"""Random operands of scenario ``spmm``, the same for every engine."""

import numpy as np
from numpy.typing import NDArray

from backends.model import ModelSpec
from datasets.randomness import stream

Operands = dict[str, NDArray[np.float32]]


def draw_operands(rows: int, columns: int, spec: ModelSpec, seed: int) -> Operands:
    """Draw ``x`` [columns, hidden] and the output's ``gradient`` [rows, hidden] from ``seed``.

    For gat both have an axis of heads, [n, heads, hidden], and the scores of both ends [n, heads] are drawn too.
    """
    row_shape = (spec.heads, spec.hidden) if spec.name == "gat" else (spec.hidden,)
    shapes = {"x": (columns, *row_shape), "gradient": (rows, *row_shape)}
    if spec.name == "gat":
        shapes |= {"score_src": (columns, spec.heads), "score_dst": (rows, spec.heads)}
    return {
        name: np.random.Generator(np.random.Philox(key=stream(seed, name))).standard_normal(shape, dtype=np.float32)
        for name, shape in shapes.items()
    }
