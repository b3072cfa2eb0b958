"""The two optimizers in numpy."""

import numpy as np

from backends.contract import Floats
from backends.model import State, TrainingSpec

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam (Kingma and Ba 2015)


class NumpyOptimizer:
    """Descent or Adam, with L2 decay on all parameters or on those of the first layer, in float64."""

    def __init__(self, training: TrainingSpec) -> None:
        self.training, self.steps = training, 0
        self.means: dict[str, Floats] = {}
        self.squares: dict[str, Floats] = {}

    def step(self, parameters: State, gradients: dict[str, Floats]) -> None:
        """Move the parameters in place."""
        self.steps += 1
        for name, gradient in gradients.items():
            decays = self.training.decay_on == "all" or name.startswith("layers.0.")
            decayed = gradient + (self.training.decay if decays else 0.0) * parameters[name].astype(np.float64)
            direction = decayed if self.training.optimizer == "sgd" else self._adam(name, decayed)
            parameters[name] = (parameters[name] - self.training.rate * direction).astype(np.float32)

    def _adam(self, name: str, gradient: Floats) -> Floats:
        self.means[name] = BETA1 * self.means.get(name, 0.0) + (1 - BETA1) * gradient
        self.squares[name] = BETA2 * self.squares.get(name, 0.0) + (1 - BETA2) * gradient**2
        mean, square = self.means[name] / (1 - BETA1**self.steps), self.squares[name] / (1 - BETA2**self.steps)
        direction: Floats = mean / (np.sqrt(square) + EPSILON)
        return direction
