"""Workers on ranks that average their gradients: equal to synchronous servers, and ended with a reason."""

import os
import subprocess
import sys

import numpy as np
import pytest

from backends.agl.train.worker import WorkerClock
from backends.parallel.ranks import RankFailed
from tests.backends.agl.train.test_parameter_server import prepared, same
from tests.cells import mark_processes

EPOCHS = 2


@pytest.mark.parametrize("batch_size", [3, None])
def test_allreduce_equals_synchronous_servers(batch_size):
    many = [prepared("gcn", batch_size, workers=2, strategy=strategy, servers=0) for strategy in ("sync", "allreduce")]
    for epoch in range(EPOCHS):
        losses = [trainer.epoch(epoch, WorkerClock()) for trainer in many]
        np.testing.assert_allclose(*losses, rtol=1e-5)
    same(many[0].state(), many[1].state())
    targets = np.arange(4, 30)
    answers = [trainer.loss_and_gradients(targets) for trainer in many]
    np.testing.assert_allclose(answers[0][0], answers[1][0], atol=1e-5)
    same(answers[0][2], answers[1][2])
    for trainer in many:
        trainer.close()


def test_trainers_share_the_ranks_of_this_process():
    first, second = (prepared("gcn", batch_size, workers=2, strategy="allreduce") for batch_size in (3, None))
    assert first.pool.ranks is second.pool.ranks
    second.epoch(0, WorkerClock())
    second.close()
    assert np.isfinite(first.epoch(0, WorkerClock()))
    first.close()


def test_a_killed_worker_is_an_error_that_says_what_to_do():
    trainer = prepared("gcn", 3, workers=2, strategy="allreduce")
    trainer.pool.ranks.processes[1].process.kill()
    with pytest.raises(RankFailed, match=r"rank 1 of 2 ended.*strategy=sync"):
        trainer.epoch(0, WorkerClock())
    trainer.close()


def test_what_a_worker_raises_reaches_the_caller():
    trainer = prepared("gcn", 3, workers=2, strategy="allreduce")
    with pytest.raises(RankFailed, match=r"rank 1 of 2 failed in 'probe': .*target 9999 is not in the graph"):
        trainer.loss_and_gradients(np.array([0, 9999]))
    trainer.close()


PROGRAM = """
from backends.agl.train.worker import WorkerClock
from tests.backends.agl.train.test_parameter_server import prepared
trainer = prepared("gcn", 3, workers=2, strategy="allreduce")
print(trainer.epoch(0, WorkerClock()))
"""


def test_no_process_is_left_at_the_end():
    with mark_processes("allreduce"):
        ended = subprocess.run([sys.executable, "-c", PROGRAM], env=dict(os.environ), capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
