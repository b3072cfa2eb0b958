"""Layout of a model's parameters in one float32 vector, and the ranges of it that servers hold."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from backends.model import ModelSpec, State, TrainingSpec

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class ParameterLayout:
    """Offsets of a model's canonical parameters in the vector: one after the other, in canonical order."""

    spec: ModelSpec

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters by canonical name."""
        return self.spec.parameters()

    @cached_property
    def size(self) -> int:
        """Length of the vector."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def join(self, state: State) -> Vector:
        """Concatenate canonical parameters, or their gradients, into one vector."""
        return np.concatenate([np.asarray(state[name], dtype=np.float32).ravel() for name in self.shapes])

    def split(self, vector: Vector) -> State:
        """The canonical parameters in a vector, as views."""
        parts = np.split(vector, np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def bounds(self, servers: int) -> list[int]:
        """First element of each server's range, and the end; ranges differ by at most one element."""
        return [self.size * server // servers for server in range(servers + 1)]

    def decayed(self, training: TrainingSpec) -> int:
        """Number of elements, from the first, that have weight decay: all, or those of the first layer."""
        if training.decay_on == "all":
            return self.size
        return sum(int(np.prod(shape)) for name, shape in self.shapes.items() if name.startswith("layers.0."))
