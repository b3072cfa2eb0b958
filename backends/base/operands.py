"""Random operands of scenario ``spmm``, the same for every engine."""

import numpy as np
from numpy.typing import NDArray

from backends.model import ModelSpec
from datasets.randomness import stream

Operands = dict[str, NDArray[np.float32]]


def draw_operands(rows: int, columns: int, spec: ModelSpec, seed: int) -> Operands:
    """Draw ``x`` and the output's ``gradient`` from ``seed``; for gat [n, heads, width], with both scores [n, heads].

    The width is ``spec.hidden``, of one head for gat; other models have no heads and get [n, width].
    """
    inner = (spec.heads, spec.hidden) if spec.name == "gat" else (spec.hidden,)
    shapes = {"x": (columns, *inner), "gradient": (rows, *inner)}
    if spec.name == "gat":
        shapes |= {"score_src": (columns, spec.heads), "score_dst": (rows, spec.heads)}
    return {
        name: np.random.Generator(np.random.Philox(key=stream(seed, name))).standard_normal(shape, dtype=np.float32)
        for name, shape in shapes.items()
    }
