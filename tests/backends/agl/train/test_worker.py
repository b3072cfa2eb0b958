"""One worker: its batches in order, resumption, its share of a limit, of decay and of randomness."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backends.agl.train.pools import server_arguments
from backends.agl.train.source import WorkerPlan
from backends.agl.train.worker import labels_in, training_job_of
from backends.base.loss import targets_of
from backends.base.parameter_server import ParameterLayout, UpdateRules
from backends.batches import BatchPlan
from backends.model import TrainingSpec
from tests.backends.agl.train.test_parameter_server import PLAN, SPEC, prepared, settings
from tests.graphs import awkward_graph


@given(st.integers(0, 30), st.integers(0, 3))
def test_a_restarted_worker_skips_the_batches_it_trained(skip, epoch):
    plan = WorkerPlan(np.arange(50), 7, None, 3)
    left = replace(plan, skip=skip).targets(epoch)
    assert [batch.tolist() for batch in left] == [batch.tolist() for batch in plan.targets(epoch)[skip:]]


@pytest.mark.parametrize("done", [0, 2])
def test_an_epoch_goes_on_where_the_servers_are(done):
    trainer = prepared("gcn", 3, workers=1, strategy="sync", servers=0)
    worker, servers = trainer.pool.workers[0], trainer.pool.servers
    for step in range(done):
        servers.push(0, step, None, 0.0)
    report = worker.epoch(0, 0)
    assert report["targets"] == sum(map(len, worker.plan.targets(0)[done:]))
    assert servers.next_step(0) == worker.plan.steps
    trainer.close()


@given(st.integers(1, 6), st.integers(1, 20), st.integers(1, 9))
def test_a_limit_counts_the_batches_of_all_workers(workers, limit, size):
    job = training_job_of(settings(), SPEC, TrainingSpec(threads=4), {}, replace(PLAN, size=size, limit=limit), workers)
    assert sum(plan.steps for plan in job.plans) < limit + workers
    assert job.training.threads == max(1, 4 // workers)


@pytest.mark.parametrize("decay_on", ["all", "first"])
@pytest.mark.parametrize("servers", [1, 2, 5, 40])
def test_every_server_decays_its_part_of_the_parameters(decay_on, servers):
    training = TrainingSpec(decay=0.1, decay_on=decay_on)
    job = training_job_of(settings(), SPEC, training, {}, BatchPlan(np.arange(9)), 1)
    layout = ParameterLayout(SPEC)
    decayed = [arguments[2] for arguments in server_arguments(job, UpdateRules(1), servers)]
    assert sum(decayed) == layout.decayed(training)
    assert all(
        0 <= count <= high - low for count, (low, high) in zip(decayed, pairwise(layout.bounds(servers)), strict=True)
    )


def test_dropout_differs_between_workers():
    trainer = prepared("gcn", 3, workers=3, strategy="sync", servers=0)
    assert len({worker.trainer.training.seed for worker in trainer.pool.workers}) == 3
    trainer.close()


def test_a_worker_that_starts_again_in_an_epoch_draws_what_it_drew():
    """Its first steps were pushed before; random numbers of the others do not depend on them."""
    trainer = prepared("gcn", 3, workers=1, strategy="async", servers=0)
    worker, server = trainer.pool.workers[0], trainer.pool.server
    begin, drawn = worker.trainer.on_batch, {}

    def begin_and_draw(batch):
        begin(batch)
        drawn[worker.exchange.next_step] = float(torch.rand(1, generator=worker.trainer.model.generator))

    worker.trainer.on_batch = begin_and_draw
    runs = []
    for first_steps in (0, 2):
        trainer.load(trainer.job.state)
        for step in range(first_steps):
            server.push(0, step, None, 0.0)
        drawn.clear()
        worker.epoch(0, 0)
        runs.append(dict(drawn))
    whole, rest = runs
    assert sorted(rest) == sorted(whole)[2:] and all(whole[step] == number for step, number in rest.items())
    assert len(set(whole.values())) == len(whole) > 3
    trainer.close()


def test_a_batch_is_weighted_by_its_labels():
    graph = awkward_graph(2)
    nodes = np.arange(graph.nodes)
    assert labels_in(targets_of(graph, nodes)) == (graph.labels >= 0).sum()
    rows = np.random.default_rng(0).integers(-1, 2, (graph.nodes, 4)).astype(np.int8)
    several = replace(graph, labels=rows, task="multilabel")
    assert labels_in(targets_of(several, nodes)) == (rows >= 0).sum()
