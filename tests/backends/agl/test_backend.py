"""Training on samples: equal to the definition, from memory and from shards, on any number of threads."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backends.ablation import resolve
from backends.batches import BatchPlan
from backends.contract import Unsupported
from backends.kernels import native
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.reference.definition import loss_and_gradients
from backends.reference.minibatch import train
from backends.registry import config_class, runtime
from harness.verify.comparison import TRIES
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph

MODELS = st.sampled_from(["gcn", "sage", "gat"])
FANOUTS = st.lists(st.integers(1, 6), min_size=1, max_size=3)
FORMS = st.sampled_from([("true", "tight"), ("true", "paper"), ("false", "tight")])
STRATEGIES = ["uniform(2);uniform(3)", "uniform(3, replacement=true)", "weighted(2)", "topk(2, reverse=true)", "full()"]


def trainer_of(graph, model, fanouts, size=7, training=None, layers=None, state=0, **options):
    spec = ModelSpec(model, layers or len(fanouts), graph.width, 5, graph.classes, heads=2, fanouts=tuple(fanouts))
    engine = runtime(resolve(config_class("agl")(**options), []), "train")
    plan = BatchPlan(graph.nodes_of("train"), size)
    engine.prepare(graph, spec, training or TrainingSpec(threads=1), initial_state(spec, state), plan, PlainClock())
    return engine


def few_of(graph, seed, count=9):
    """Some labelled targets, in no order."""
    return np.random.default_rng(seed).permutation(graph.nodes_of("train"))[:count]


def assert_close(actual, expected):
    """Within the bounds of the parity gate; an attention vector's gradient may vanish, and is then float32's noise."""
    assert np.abs(actual[0] - expected[0]).max() <= 1e-5 * np.abs(expected[0]).max()
    assert abs(actual[1] - expected[1]) <= 1e-5 * abs(expected[1])
    largest = max(np.abs(value).max() for value in expected[2].values())
    for name, value in expected[2].items():
        np.testing.assert_allclose(actual[2][name], value, rtol=2e-5, atol=2e-6 * largest, err_msg=name)


@settings(max_examples=40)
@given(model=MODELS, fanouts=FANOUTS, seed=st.integers(0, 99), form=FORMS)
@example(model="gcn", fanouts=[2, 5, 2], seed=82, form=("true", "tight"))  # a ReLU flips in float32 from state 0
def test_a_sampled_batch_equals_the_definition(model, fanouts, seed, form):
    graph = awkward_graph(seed, weighted=model == "gcn" and seed % 2 == 1)
    targets = few_of(graph, seed)
    for state in range(TRIES):
        actual, expected, other = sampled_batch(graph, model, fanouts, seed, form, targets, state)
        if state + 1 == TRIES or is_close(actual, expected):
            assert_close(actual, expected)
            break
    assert max(fanouts) > 1 or not np.allclose(other[0], expected[0], rtol=1e-3)


def sampled_batch(graph, model, fanouts, seed, form, targets, state):
    """A batch's answers from one state: the engine's, the definition's, and the definition's for another draw."""
    training, (pruning, shape) = TrainingSpec(threads=1, seed=seed), form
    engine = trainer_of(graph, model, fanouts, training=training, state=state, pruning=pruning, form=shape)
    begin = initial_state(engine.spec, state)
    expected, other = (loss_and_gradients(graph, engine.spec, begin, targets, draw) for draw in (seed, seed + 1))
    return engine.loss_and_gradients(targets), expected, other


def is_close(actual, expected):
    """Whether ``assert_close`` would pass."""
    with suppress(AssertionError):
        assert_close(actual, expected)
        return True
    return False


@settings(max_examples=20)
@given(model=MODELS, layers=st.integers(1, 3), more=st.integers(0, 5), seed=st.integers(0, 99))
def test_fanouts_that_hold_every_edge_change_nothing(model, layers, more, seed):
    graph = awkward_graph(seed, weighted=model == "gcn" and seed % 2 == 1)
    most = int(graph.csr.in_degrees.max()) + more
    whole, sampled = (trainer_of(graph, model, fanouts, layers=layers) for fanouts in ((), [most] * layers))
    targets = few_of(graph, seed)
    assert_close(sampled.loss_and_gradients(targets), whole.loss_and_gradients(targets))


def as_edges(matrix):
    """A layer's edges with their weights, sorted: node order inside a row does not matter."""
    weight = np.zeros(matrix.csr.nnz) if matrix.weight is None else matrix.weight.numpy()
    return matrix.csr.shape, sorted(zip(matrix.csr.destinations, matrix.csr.indices, weight, strict=True))


@settings(max_examples=25)
@given(
    model=MODELS,
    fanouts=FANOUTS,
    strategy=st.sampled_from(["", *STRATEGIES]),
    filtering=st.sampled_from([None, "weight > 0.8"]),
    form=FORMS,
    seed=st.integers(0, 99),
)
def test_graph_features_give_the_batch_that_the_graph_gives(model, fanouts, strategy, filtering, form, seed):
    graph = awkward_graph(seed, weighted=model == "gcn" and seed % 2 == 1)
    by_weight = strategy.startswith(("weighted", "topk"))
    if graph.edge_weights is None:
        strategy, filtering = "" if by_weight else strategy, None
    strategy = strategy if ";" not in strategy or len(fanouts) > 1 else "uniform(2)"
    options = {"sampler": strategy, "filter": filtering, "pruning": form[0], "form": form[1]}
    training, targets = TrainingSpec(threads=1, seed=seed), few_of(graph, seed)
    memory = trainer_of(graph, model, fanouts, training=training, **options)
    shards = trainer_of(graph, model, fanouts, training=training, source="graphfeature", **options)
    actual, expected = shards.target_batch(targets), memory.target_batch(targets)
    pruned = form[1] if form[0] == "true" else "full"
    neighbourhood = memory.source.neighbourhoods.search(targets, pruned == "tight")
    numbered = memory.source.neighbourhoods.matrices(
        neighbourhood, pruned
    )  # the batch may read the first layer's columns in place
    for stored, matrix_in_memory in zip(actual.structure, numbered, strict=True):
        assert stored.csr.shape == matrix_in_memory.csr.shape
        assert stored.csr.indptr.tolist() == matrix_in_memory.csr.indptr.tolist()
        assert stored.csr.indices.tolist() == matrix_in_memory.csr.indices.tolist()
        assert (stored.weight is None) == (matrix_in_memory.weight is None)
        assert stored.weight is None or stored.weight.equal(matrix_in_memory.weight)
    assert actual.features.equal(memory.source.features[torch.from_numpy(neighbourhood.nodes)])
    assert actual.targets.tolist() == expected.targets.tolist()
    assert_close(shards.loss_and_gradients(targets), memory.loss_and_gradients(targets))
    shards.close()


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_epochs_equal_the_definition(model, optimizer):
    graph = awkward_graph(3, nodes=90, edges=600, weighted=model == "gcn")
    training = TrainingSpec(optimizer, decay=1e-3, decay_on="first", threads=1, seed=4)
    engine = trainer_of(graph, model, [2, 3], training=training)
    losses = [engine.epoch(index, PlainClock()) for index in range(3)]
    expected, state = train(graph, engine.spec, training, initial_state(engine.spec, 0), engine.plan, 3)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for name, value in engine.state().items():
        np.testing.assert_allclose(value, state[name], atol=2e-4, err_msg=name)


@pytest.mark.parametrize("size", [7, None])
@pytest.mark.parametrize("pipelined", [{}, {"pipeline": "true", "pipeline_from": 1}])
@pytest.mark.parametrize("options", [{}, {"sampler": "uniform(2, replacement=true)"}])
def test_an_epoch_draws_anew_only_with_resample(size, pipelined, options):
    graph, training = awkward_graph(3, nodes=90, edges=900), TrainingSpec(threads=1, seed=5)
    arguments = {"size": size, "training": training, **pipelined, **options}
    once = trainer_of(graph, "sage", [2, 3], **arguments)
    anew = trainer_of(graph, "sage", [2, 3], resample=True, **arguments)
    later = trainer_of(graph, "sage", [2, 3], **arguments | {"training": replace(training, seed=8)})

    node = int(graph.nodes_of("train")[0])

    def of_node(engine, index):
        """Edges of the last layer into one target, by the features that they bring."""
        for batch in engine.batches(index, PlainClock()):
            places = np.flatnonzero(batch.targets == node)
            if len(places):
                row = int(places[0] if batch.rows is None else batch.rows[places[0]])
                csr, columns = batch.structure[-1].csr, batch.structure[0].own_columns
                nodes = csr.indices[csr.indptr[row] : csr.indptr[row + 1]]
                return sorted(batch.features[nodes if columns is None else columns[nodes], 0].tolist())
        raise AssertionError(node)

    assert of_node(once, 0) == of_node(once, 3) == of_node(anew, 0)
    assert of_node(anew, 3) == of_node(later, 0)
    assert len({str(of_node(anew, index)) for index in range(6)}) > 1
    targets = few_of(graph, 1)
    assert_close(anew.loss_and_gradients(targets), once.loss_and_gradients(targets))  # whatever epoch was last


def test_stored_samples_are_not_drawn_anew():
    with pytest.raises(ValueError, match=r"backend\.resample=true cannot redraw"):
        config_class("agl")(source="graphfeature", resample=True)


@settings(max_examples=15)
@given(model=MODELS, fanouts=FANOUTS, seed=st.integers(0, 99))
def test_losses_do_not_depend_on_threads(model, fanouts, seed):
    graph = awkward_graph(seed, nodes=300, edges=3000)
    one, two = (
        trainer_of(graph, model, fanouts, size=64, training=TrainingSpec(threads=threads, seed=seed))
        for threads in (1, 2)
    )
    assert [one.epoch(index, PlainClock()) for index in range(3)] == [
        two.epoch(index, PlainClock()) for index in range(3)
    ]


@settings(max_examples=15)
@given(model=MODELS, fanouts=FANOUTS, seed=st.integers(0, 99))
def test_kernels_draw_what_their_definition_draws(model, fanouts, seed):
    graph = awkward_graph(seed, weighted=model == "gcn" and seed % 2 == 1)
    engine, targets = trainer_of(graph, model, fanouts), few_of(graph, seed)
    compiled = engine.mini_batch(targets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native.sampling, "has", lambda drawing: False)
        plain = engine.mini_batch(targets)
    assert [as_edges(matrix) for matrix in compiled.structure] == [as_edges(matrix) for matrix in plain.structure]
    assert compiled.features.equal(plain.features)


@pytest.mark.parametrize("strategy", ["sync", "allreduce"])
def test_workers_share_the_samples_of_one(strategy):
    graph = awkward_graph(2, weighted=True)
    engine = trainer_of(graph, "gcn", [2, 3], strategy=strategy, workers=2, servers=0)
    targets = few_of(graph, 2)
    expected = loss_and_gradients(graph, engine.spec, initial_state(engine.spec, 0), targets)
    assert_close(engine.loss_and_gradients(targets), expected)
    engine.close()


def test_targets_with_samples_of_their_own():
    graph, targets = awkward_graph(6, nodes=60, edges=600), np.array([5, 2, 9])
    node, target = (trainer_of(graph, "sage", [2, 2], scope=scope) for scope in ("node", "target"))
    together = target.loss_and_gradients(targets)[0]
    for place in range(len(targets)):
        np.testing.assert_allclose(
            target.loss_and_gradients(targets[place : place + 1])[0][0], together[place], rtol=1e-4
        )
    assert not np.allclose(together, node.loss_and_gradients(targets)[0], rtol=1e-3)


def test_training_on_samples_learns_and_predicts_from_all_neighbours():
    graph = awkward_graph(1)
    engine = trainer_of(graph, "sage", [2, 2], size=5)
    before = engine.predict(graph, np.arange(graph.nodes))
    whole = replace(engine.spec, fanouts=())
    expected = loss_and_gradients(graph, whole, initial_state(whole, 0), np.arange(graph.nodes))[0]
    assert np.abs(before - expected).max() <= 1e-5 * np.abs(expected).max()
    losses = [engine.epoch(index, PlainClock()) for index in range(25)]
    assert losses[-1] < losses[0]
    assert engine.facts()["spmm"][0]["nnz"] < graph.csr.nnz


def test_a_column_that_the_graph_lacks_is_unsupported():
    with pytest.raises(Unsupported, match="no column 'weight'"):
        trainer_of(awkward_graph(1), "sage", [2], sampler="weighted(3)")


@pytest.mark.parametrize("backend", ["blocksparse", "reference"])
@pytest.mark.parametrize("scenario", ["train", "infer"])
def test_engines_of_whole_graphs_refuse_fanouts(backend, scenario):
    graph = awkward_graph(1)
    spec = ModelSpec("gcn", 2, graph.width, 5, graph.classes, fanouts=(2, 3))
    engine, plan = runtime(config_class(backend)(), scenario), BatchPlan(graph.nodes_of("train"))
    with pytest.raises(Unsupported, match=rf"backend {backend} reads all neighbours here, not model.fanouts=\[2, 3\]"):
        engine.prepare(graph, spec, TrainingSpec(), initial_state(spec, 0), plan, PlainClock())
