"""Memory of an epoch over our kernels: the arrays that autograd saves for the backward pass, each counted once."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.ablation import resolve
from backends.batches import BatchPlan
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import config_class, runtime
from harness.measure.clock import Clock
from tests.graphs import awkward_graph

NODES = 600


def trainer_of(model, layers, hidden, heads=1):
    graph = awkward_graph(1, nodes=NODES, edges=1500, multilabel=True)
    spec = ModelSpec(model, layers, graph.width, hidden, graph.classes, heads=heads)
    trainer = runtime(resolve(config_class("blocksparse")(), []), "train")
    plan = BatchPlan(graph.nodes_of("train"), None)
    trainer.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, Clock())
    return trainer


def saved_floats(trainer):
    """Floats that a forward pass saves, without features, labels, parameters and edges, which live anyway."""
    batch, saved = trainer.target_batch(np.arange(NODES)), {}
    lasting = {part.untyped_storage().data_ptr() for part in (*trainer.model.parameters(), batch.features)}

    def pack(part):
        storage = part.untyped_storage()
        if storage.data_ptr() not in lasting and part.dim() > 1:
            saved[storage.data_ptr()] = part  # the reference keeps its address from being reused
        return part

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda part: part):
        trainer.loss(trainer.logits(batch), trainer.batch_labels(batch))
    return sum(part.numel() for part in saved.values())


def widths(spec):
    return [spec.width_out(layer) * spec.heads_of(layer) for layer in range(spec.layers)]


@settings(max_examples=15)
@given(st.integers(1, 4), st.integers(1, 40), st.sampled_from([1, 2]))
def test_attention_saves_its_input_and_output_per_layer_and_the_gradient_of_the_loss(layers, hidden, heads):
    trainer = trainer_of("gat", layers, hidden, heads)
    spec = trainer.spec
    scores = 4 * sum(spec.heads_of(layer) for layer in range(layers))  # of both ends, and a row's maximum and sum
    assert saved_floats(trainer) <= NODES * (2 * sum(widths(spec)) + scores + spec.classes)


@settings(max_examples=15)
@given(st.sampled_from(["gcn", "sage"]), st.integers(1, 4), st.integers(1, 40))
def test_products_save_the_input_and_the_sum_of_each_layer(model, layers, hidden):
    trainer = trainer_of(model, layers, hidden)
    spec = trainer.spec
    inputs = [min(spec.width_in(layer), 2 * spec.width_out(layer)) for layer in range(layers)]
    assert saved_floats(trainer) <= NODES * (sum(inputs) + sum(widths(spec)[:-1]) + spec.classes)


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_logits_outlive_the_backward_pass(model):
    trainer = trainer_of(model, 2, 8)
    before = trainer.predict(trainer.graph, np.arange(NODES))
    logits, _, _ = trainer.loss_and_gradients(np.arange(NODES))
    np.testing.assert_allclose(logits, before, atol=1e-5)
