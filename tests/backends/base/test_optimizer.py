"""Our Adam of a network against torch's: decay on some parameters, steps without a gradient."""

import numpy as np
import pytest
import torch

from backends.base.layered import LayeredNetwork
from backends.base.optimizer import KernelAdam, optimizer_of
from backends.model import ModelSpec, TrainingSpec, initial_state


@pytest.mark.parametrize("decay_on", ["all", "first"])
def test_a_network_takes_torchs_steps_also_where_a_gradient_is_missing(decay_on):
    spec, training = ModelSpec("gat", 2, 9, 8, 3, heads=2), TrainingSpec(decay=0.05, decay_on=decay_on, rate=0.02)
    networks = [LayeredNetwork(spec, training) for _ in range(2)]
    for network in networks:
        network.load(initial_state(spec, 0))
    optimizers = [KernelAdam(networks[0], training), optimizer_of(networks[1], training)]
    draw = np.random.default_rng(0)
    for step in range(5):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        for number, pair in enumerate(zip(*(network.parameters() for network in networks), strict=True)):
            gradient = torch.from_numpy(draw.normal(size=pair[0].shape).astype(np.float32))
            for parameter in pair:
                parameter.grad = None if (number + step) % 3 == 0 else gradient.clone()
        for optimizer in optimizers:
            optimizer.step()
    ours, torchs = (network.state() for network in networks)
    for name, values in ours.items():
        np.testing.assert_allclose(values, torchs[name], rtol=1e-5, atol=1e-6, err_msg=name)
