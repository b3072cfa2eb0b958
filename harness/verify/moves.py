"""How far an optimizer's step moves a parameter, in float64, and how far rounding of the gradients may mislead it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.model import State, TrainingSpec
from harness.verify.comparison import ALLOWED, INFINITE

Array = NDArray[np.float64]
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam (Kingma and Ba 2015)
STEPPED = 64.0  # roundings of a step's own arithmetic
# |d step / d gradient_j| summed over the gradients of the first few steps is below this over sqrt(mean square).
ADAM_SENSITIVITY = 4.0


@dataclass
class Move(ABC):
    """The steps of one parameter by one optimizer: what the newest one should be, and its bound of error."""

    rate: float
    decay: float
    unit: float
    step: Array = field(init=False)
    bound: Array = field(init=False)

    def take(self, before: Any, gradient: Any, deviation: float) -> None:
        """Compute the step from ``before`` by a gradient; its deviation is what rounding may do to an entry."""
        position = np.asarray(before, dtype=np.float64)
        decayed = gradient + self.decay * position
        self.step, sensitivity = self.direction(decayed, deviation)
        rounding = STEPPED * self.unit * (np.abs(position) + np.abs(self.step) + self.rate)
        self.bound = ALLOWED * self.rate * sensitivity + rounding

    @abstractmethod
    def direction(self, gradient: Array, deviation: float) -> tuple[Array, Array]:
        """The step, and how far an entry's deviation moves it in units of the rate."""

    def multiple(self, before: Any, after: Any) -> float:
        """The largest error of a step as a multiple of what rounding does; allowed are ``ALLOWED``."""
        if after is None or np.shape(after) != np.shape(before):
            return INFINITE
        error = np.abs(np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64) - self.step)
        worst = float((error / self.bound).max(initial=0.0)) * ALLOWED
        return worst if np.isfinite(worst) else INFINITE


@dataclass
class Sgd(Move):
    """Plain descent."""

    def direction(self, gradient: Array, deviation: float) -> tuple[Array, Array]:
        """Down the gradient."""
        return -self.rate * gradient, np.full(gradient.shape, deviation)


@dataclass
class Adam(Move):
    """Adam: running means of the gradients and of their squares, both corrected for their start at 0."""

    steps: int = 0
    mean: Any = 0.0
    square: Any = 0.0
    largest_deviation: float = 0.0

    def direction(self, gradient: Array, deviation: float) -> tuple[Array, Array]:
        """Down the running mean, in units of the root of the mean square; small gradients are mostly rounding."""
        self.steps += 1
        self.mean = BETA1 * self.mean + (1 - BETA1) * gradient
        self.square = BETA2 * self.square + (1 - BETA2) * gradient**2
        self.largest_deviation = max(self.largest_deviation, deviation)
        size = np.sqrt(self.square / (1 - BETA2**self.steps)) + EPSILON
        step = -self.rate * self.mean / (1 - BETA1**self.steps) / size
        return step, ADAM_SENSITIVITY * self.largest_deviation / size


OPTIMIZERS: dict[str, Callable[[float, float, float], Move]] = {"sgd": Sgd, "adam": Adam}


def moves_of(training: TrainingSpec, unit: float, state: State) -> dict[str, Move]:
    """A ``Move`` per parameter, with decay on all of them or on the first layer's alone."""
    decayed = {name: training.decay_on == "all" or name.startswith("layers.0.") for name in state}
    build = OPTIMIZERS[training.optimizer]
    return {name: build(training.rate, training.decay * decayed[name], unit) for name in state}
