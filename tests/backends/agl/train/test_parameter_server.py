"""Parameter servers in this process: equal to one worker's optimizer; waiting, staleness, checkpoints, refusals."""

import threading
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backends.ablation import resolve
from backends.agl.config import AglConfig
from backends.agl.train import pools
from backends.agl.train.trainer import DistributedTrainer, trainer_of
from backends.agl.train.worker import WorkerClock, training_job_of
from backends.base.gradient_exchange import Servers
from backends.base.parameter_server import ParameterLayout, ParameterServer, UpdateRules
from backends.batches import BatchPlan
from backends.model import ModelSpec, TrainingSpec, initial_state
from tests.graphs import awkward_graph

SPEC = ModelSpec("gcn", 2, 6, 5, 4)
PLAN = BatchPlan(np.arange(101), 7, None, 3)


def settings(**options) -> AglConfig:
    return resolve(AglConfig(**options), [])


def prepared(model, batch_size, training=None, nodes=40, seed=0, **options):
    graph = awkward_graph(seed, nodes=nodes)
    spec = ModelSpec(model, 2, graph.width, 5, graph.classes, heads=2 if model == "gat" else 1)
    trainer = trainer_of(settings(**options))
    plan = BatchPlan(graph.nodes_of("train"), batch_size)
    training = training or TrainingSpec(threads=1, rate=0.05, decay=0.01, decay_on="first")
    trainer.prepare(graph, spec, training, initial_state(spec, seed), plan, WorkerClock())
    return trainer


def same(one, other, tolerance=2e-5):
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, rtol=0, atol=tolerance, err_msg=name)


def server(strategy="sync", workers=2, size=5, **options) -> ParameterServer:
    parameter_server = ParameterServer(
        UpdateRules(workers, strategy, **options), TrainingSpec(optimizer="sgd", rate=1.0), 0
    )
    parameter_server.load(np.zeros(size, dtype=np.float32))
    return parameter_server


@given(st.integers(1, 9), st.integers(1, 9))
def test_targets_are_dealt_once_and_evenly(workers, size):
    job = training_job_of(settings(), SPEC, TrainingSpec(), {}, replace(PLAN, size=size), workers)
    dealt = [plan.nodes for plan in job.plans]
    assert sorted(np.concatenate(dealt)) == list(PLAN.nodes)
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
    trained = [node for plan in job.plans for batch in plan.targets(5) for node in batch]
    assert sorted(trained) == list(PLAN.nodes)
    assert job.steps == max(len(plan.targets(5)) for plan in job.plans)


@given(st.integers(1, 7), st.sampled_from(["all", "first"]))
def test_ranges_cover_the_parameters(servers, decay_on):
    layout = ParameterLayout(SPEC)
    state = initial_state(SPEC, 1)
    again = layout.split(layout.join(state))
    assert all(np.array_equal(again[name], state[name]) for name in state)
    bounds = layout.bounds(servers)
    assert bounds[0] == 0 and bounds[-1] == layout.size and max(np.diff(bounds)) - min(np.diff(bounds)) <= 1


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("decay_on", ["all", "first"])
@pytest.mark.parametrize("servers", [1, 3])
def test_servers_update_as_an_optimizer_of_one_process_does(optimizer, decay_on, servers):
    training = TrainingSpec(optimizer=optimizer, rate=0.1, decay=0.3, decay_on=decay_on)
    layout, start = ParameterLayout(SPEC), initial_state(SPEC, 2)
    bounds = layout.bounds(servers)
    parameter_server = [
        ParameterServer(UpdateRules(1), training, min(max(layout.decayed(training) - low, 0), high - low))
        for low, high in pairwise(bounds)
    ]
    group = Servers(
        lambda calls: [getattr(parameter_server[at], method)(*arguments) for at, method, arguments in calls], bounds
    )
    group.load(layout.join(start))
    parameters = {name: torch.nn.Parameter(torch.from_numpy(value.copy())) for name, value in start.items()}
    decays = [decay_on == "all" or name.startswith("layers.0.") for name in parameters]
    kinds = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    groups = [
        {"params": [value], "weight_decay": 0.3 if decayed else 0.0}
        for value, decayed in zip(parameters.values(), decays, strict=True)
    ]
    alone = kinds[optimizer](groups, lr=0.1)
    for step in range(4):
        gradient = initial_state(SPEC, 10 + step)
        for name, value in parameters.items():
            value.grad = torch.from_numpy(gradient[name])
        alone.step()
        group.push(0, step, layout.join(gradient), 3.0)
    expected = layout.join({name: value.detach().numpy() for name, value in parameters.items()})
    np.testing.assert_allclose(group.values(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("servers", [0])
def test_synchronous_workers_equal_one_worker_on_the_joined_batch(model, batch_size, servers):
    many = prepared(model, batch_size, workers=3, strategy="sync", servers=servers)
    alone = prepared(model, None)
    for epoch in range(3):
        joined = [plan.targets(epoch) for plan in many.job.plans]
        for step in range(many.job.steps):
            batch = np.sort(np.concatenate([batches[step] for batches in joined if step < len(batches)]))
            alone.plan = BatchPlan(batch, len(batch))
            expected = alone.epoch(epoch, WorkerClock())
        actual = many.epoch(epoch, WorkerClock())
        assert np.isfinite(actual) and np.isfinite(expected)
    same(alone.state(), many.state())
    many.close()


def test_a_step_waits_for_every_worker_and_weighs_by_labels():
    parameter_server = server()
    parameter_server.push(0, 0, np.full(5, 1.0, np.float32), 1.0)
    assert np.array_equal(parameter_server.values(), np.zeros(5))
    parameter_server.push(1, 0, np.full(5, 4.0, np.float32), 3.0)
    np.testing.assert_allclose(parameter_server.values(), -np.full(5, (1.0 + 3 * 4.0) / 4))


def test_a_push_may_be_repeated():
    parameter_server = server("async", workers=1)
    for _ in range(3):
        parameter_server.push(0, 0, np.ones(5, np.float32), 1.0)
    np.testing.assert_array_equal(parameter_server.values(), -np.ones(5))


@given(st.permutations(range(4)))
def test_results_do_not_depend_on_the_order_of_arrival(order):
    gradients = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    results = []
    for ranks in (range(4), order):
        parameter_server = server(workers=4)
        for rank in ranks:
            parameter_server.push(rank, 0, gradients[rank], 1.0 + rank)
        results.append(parameter_server.values())
    np.testing.assert_array_equal(*results)


def pull_or_end(parameter_server: ParameterServer, worker: int, step: int) -> None:
    with suppress(RuntimeError):
        parameter_server.pull(worker, step)


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(0, 3))
def test_no_worker_gets_further_ahead_than_the_staleness(turns, staleness):
    """A worker takes its turn if the server would let it; otherwise it would wait, which is checked by the clocks."""
    parameter_server = server("bounded", workers=3, staleness=staleness)
    steps = [0, 0, 0]
    for worker in turns:
        allowed = steps[worker] - min(steps) <= staleness
        pulled = threading.Thread(target=pull_or_end, args=(parameter_server, worker, steps[worker]), daemon=True)
        pulled.start()
        pulled.join(5.0 if allowed else 0.002)
        assert pulled.is_alive() != allowed
        if allowed:
            parameter_server.push(worker, steps[worker], np.ones(5, np.float32), 1.0)
            steps[worker] += 1
        else:
            parameter_server.abort()
            pulled.join()
            parameter_server.aborted = False
    assert max(steps) - min(steps) <= staleness + 1


def test_asynchronous_workers_never_wait():
    parameter_server = server("async")
    for step in range(50):
        assert parameter_server.pull(0, step)[1] < 5.0
        parameter_server.push(0, step, np.ones(5, np.float32), 1.0)
    assert parameter_server.facts()["updates"] == 50


@pytest.mark.parametrize("strategy", ["sync", "async", "bounded"])
def test_a_server_that_starts_again_loses_at_most_what_came_after_its_checkpoint(tmp_path: Path, strategy):
    rules = UpdateRules(1, strategy, checkpoint_every=4)
    arguments = (rules, TrainingSpec(rate=0.1), 2, str(tmp_path / "server"))
    parameter_server, values_by_step = ParameterServer(*arguments), []
    parameter_server.load(np.arange(5, dtype=np.float32))
    gradients = np.random.default_rng(1).normal(size=(14, 5)).astype(np.float32)
    for step in range(10):
        parameter_server.push(0, step, gradients[step], 1.0)
        values_by_step.append(parameter_server.values())
    again = ParameterServer(*arguments)
    assert again.facts()["restored_at_update"] == 8 and again.next_step(0) == 8
    again.push(0, 7, gradients[7], 1.0)
    np.testing.assert_array_equal(again.values(), values_by_step[7])
    np.testing.assert_array_equal(again.values(), values_by_step[7])
    for step in (8, 9):
        again.push(0, step, gradients[step], 1.0)
    np.testing.assert_array_equal(again.values(), values_by_step[9])
    assert again.facts()["oldest_gradient"] <= 2


def test_gradients_lost_by_a_restarted_server_are_not_awaited(tmp_path: Path):
    rules = UpdateRules(2, "sync", checkpoint_every=2)
    arguments = (rules, TrainingSpec(rate=0.1), 0, str(tmp_path / "server"))
    parameter_server = ParameterServer(*arguments)
    parameter_server.load(np.zeros(5, dtype=np.float32))
    for step in range(3):
        for worker in range(2):
            parameter_server.push(worker, step, np.ones(5, np.float32), 1.0)
    parameter_server.push(0, 3, np.ones(5, np.float32), 1.0)
    again = ParameterServer(*arguments)
    again.push(1, 3, np.ones(5, np.float32), 1.0)
    values, _ = again.pull(0, 4)
    assert again.facts()["updates"] == 3
    np.testing.assert_array_equal(values, again.values())


def test_a_server_that_starts_again_waits_for_no_worker_that_has_finished(tmp_path: Path):
    arguments = (UpdateRules(2, "sync", checkpoint_every=100), TrainingSpec(rate=0.1), 0, str(tmp_path / "server"))
    parameter_server = ParameterServer(*arguments)
    parameter_server.load(np.zeros(5, dtype=np.float32))
    for step in range(20):
        parameter_server.push(0, step, None, 0.0)
    again = ParameterServer(*arguments)
    finished = threading.Thread(target=again.finish, args=(0, 20), daemon=True)  # a call that Ray repeats
    finished.start()
    for step in range(3, 20):
        again.pull(1, step)
        again.push(1, step, np.ones(5, np.float32), 1.0)
    again.finish(1, 20)
    finished.join()
    after_the_epoch = ParameterServer(*arguments)
    assert [after_the_epoch.next_step(worker) for worker in range(2)] == [20, 20]
    np.testing.assert_array_equal(after_the_epoch.values(), again.values())


def test_no_checkpoint_is_written_by_default(tmp_path: Path):
    parameter_server = ParameterServer(UpdateRules(1), TrainingSpec(), 0, str(tmp_path / "server"))
    parameter_server.load(np.zeros(5, dtype=np.float32))
    parameter_server.push(0, 0, np.ones(5, np.float32), 1.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("strategy", ["async", "bounded"])
def test_workers_that_need_not_wait_learn_too(strategy):
    trainer = prepared("gcn", 3, workers=3, strategy=strategy, servers=0)
    losses = [trainer.epoch(epoch, WorkerClock()) for epoch in range(30)]
    assert losses[-1] < 0.7 * losses[0]
    updates = trainer.facts()["servers"][0]["updates"]
    assert updates == 30 * sum(plan.steps for plan in trainer.job.plans)
    trainer.close()


def test_a_worker_that_fails_ends_the_epoch_of_all():
    trainer = prepared("gcn", 3, workers=3, strategy="sync", servers=0)
    trainer.pool.workers[1].trainer.labels = None
    with pytest.raises(TypeError):
        trainer.epoch(0, WorkerClock())
    trainer.close()


def test_loading_starts_anew():
    trainer = prepared("sage", 3, workers=2, strategy="sync", servers=0)
    start = trainer.state()
    first = [trainer.epoch(epoch, WorkerClock()) for epoch in range(3)]
    trainer.load(start)
    np.testing.assert_allclose([trainer.epoch(epoch, WorkerClock()) for epoch in range(3)], first, rtol=1e-5)
    trainer.close()


def test_facts_count_bytes_steps_and_seconds():
    trainer = prepared("gcn", 3, workers=2, strategy="sync", servers=0)
    trainer.epoch(0, WorkerClock())
    trainer.epoch(1, WorkerClock())
    facts = trainer.facts()
    size, steps = 4 * facts["parameters"], [plan.steps for plan in trainer.job.plans]
    for worker, steps_of_worker in zip(facts["workers"], steps, strict=True):
        assert worker["bytes_pulled"] == worker["bytes_pushed"] == size * steps_of_worker
        assert worker["compute"] > 0 and worker["pull"] > 0 and worker["push"] > 0 and worker["wait"] >= 0
    assert sum(worker["targets"] for worker in facts["workers"]) == len(trainer.plan.nodes)
    assert facts["servers"][0]["updates"] == 2 * facts["steps"]
    trainer.load(trainer.job.state)
    assert (
        len(trainer.facts()["workers"]) == 2 and trainer.facts()["servers"][0]["updates_in_all"] == 2 * facts["steps"]
    )
    trainer.close()


def test_an_interrupt_ends_the_workers_of_this_process_at_their_next_step(monkeypatch):
    def interrupted(running):
        raise KeyboardInterrupt

    trainer = prepared("gcn", 3, workers=2, strategy="sync", servers=0)
    monkeypatch.setattr(pools, "as_completed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.epoch(0, WorkerClock())
    assert trainer.pool.server.aborted
    trainer.close()


def test_more_workers_than_targets_are_refused():
    with pytest.raises(ValueError, match=r"^workers=50 is more than"):
        prepared("gcn", 3, workers=50, strategy="sync", servers=0)


def test_more_servers_than_parameters_are_refused():
    with pytest.raises(ValueError, match=r"^servers=5000 is more than the \d+ parameters: lower it"):
        prepared("gcn", 3, workers=2, strategy="sync", servers=5000)


@pytest.mark.parametrize("share", [0, 0.5])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, share):
    path = tmp_path / "server.checkpoint"
    arguments = (UpdateRules(1, checkpoint_every=1), TrainingSpec(), 0, str(path))
    ParameterServer(*arguments).load(np.zeros(5, dtype=np.float32))
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(ValueError, match=f"{path} is no complete checkpoint"):
        ParameterServer(*arguments)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("pull", (0, 0)), ("finish", (0, 1)), ("push", (0, 0, None, 0.0)), ("values", ()), ("facts", ())],
)
def test_a_restarted_server_without_checkpoint_is_an_error(method, arguments):
    with pytest.raises(RuntimeError, match="checkpoint_every=0 it has no checkpoint"):
        getattr(ParameterServer(UpdateRules(1), TrainingSpec(), 0), method)(*arguments)


def test_one_worker_alone_needs_no_servers():
    assert not isinstance(trainer_of(settings()), DistributedTrainer)
