"""What AGL's three parts build of a model: network, slices and builder of layer matrices, ours or the user's."""

from typing import Any

from backends.agl.infer.slices import check_state, slices_of
from backends.agl.user.edges import EdgesBuilder
from backends.agl.user.network import UserNetwork, user_slices
from backends.agl.user.specification import UserModelSpec, initial_parameters
from backends.agl.vectorize import LayerBuilder
from backends.base.layered import LayeredNetwork
from backends.base.network import Network
from backends.model import ModelSpec, State, TrainingSpec, initial_state


def network_of(
    spec: ModelSpec, training: TrainingSpec, aggregation: str = "partitioned", sparse_input: bool = False
) -> Network:
    """The network of a model."""
    if isinstance(spec, UserModelSpec):
        return UserNetwork(spec, training)
    return LayeredNetwork(spec, training, aggregation, sparse_input)


def builder_of(spec: ModelSpec) -> LayerBuilder:
    """The builder of a model's layer matrices."""
    if isinstance(spec, UserModelSpec):
        return EdgesBuilder(spec.reads, spec.self_loops)
    return LayerBuilder(spec.name, spec.edge_width)


def model_slices(spec: ModelSpec, state: State, sparse_input: bool = False) -> list[Any]:
    """K + 1 slices of a model; raises ValueError for a state of another model, or with values that are not finite."""
    if not isinstance(spec, UserModelSpec):
        return list(slices_of(spec, state, sparse_input))
    check_state(spec, state, "the state")
    return list(user_slices(spec, state))


def first_state(spec: ModelSpec, seed: int) -> State:
    """The parameters before training."""
    return initial_parameters(spec, seed) if isinstance(spec, UserModelSpec) else initial_state(spec, seed)
