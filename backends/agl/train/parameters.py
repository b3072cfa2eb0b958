"""All parameters as one float32 vector, cut into ranges for the servers."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from backends.model import ModelSpec, State, TrainingSpec

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """Where each canonical parameter of a model lies in the vector: one after the other, in canonical order."""

    spec: ModelSpec

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Canonical names and shapes."""
        return self.spec.parameters()

    @cached_property
    def size(self) -> int:
        """Length of the vector."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def join(self, state: State) -> Vector:
        """Put canonical parameters, or their gradients, into one vector."""
        return np.concatenate([np.asarray(state[name], dtype=np.float32).ravel() for name in self.shapes])

    def split(self, vector: Vector) -> State:
        """Return the canonical parameters of a vector, as views."""
        parts = np.split(vector, np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def bounds(self, servers: int) -> list[int]:
        """First element of each server's range, and the end; ranges differ by at most one element."""
        return [self.size * server // servers for server in range(servers + 1)]

    def decayed(self, training: TrainingSpec) -> int:
        """How many elements, from the first, take weight decay: all, or those of the first layer."""
        if training.decay_on == "all":
            return self.size
        return sum(int(np.prod(shape)) for name, shape in self.shapes.items() if name.startswith("layers.0."))
