"""Workers and servers as Ray actors: equal to those of one process, killed and restarted, gone at the end."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from backends.agl.train.pools import RayPool
from backends.agl.train.worker import WorkerClock
from backends.parallel import ray_cluster as cluster
from backends.parallel.executor import RayExecutor
from harness.launcher.process import end_tree
from tests.backends.agl.train.test_parameter_server import prepared, same
from tests.cells import eventually, mark_processes, marked

pytestmark = pytest.mark.needs_ray
EPOCHS = 2


@pytest.fixture(scope="module", autouse=True)
def ray():
    """One Ray for this file: starting it takes longer than the tests."""
    module = cluster.acquire()
    yield module
    cluster.release()


def trained(model="gcn", epochs=EPOCHS, **options):
    trainer = prepared(model, 3, **options)
    losses = [trainer.epoch(epoch, WorkerClock()) for epoch in range(epochs)]
    state = trainer.state()
    trainer.close()
    return losses, state


@pytest.fixture(scope="module")
def launched(ray):
    """Two synchronous workers and two servers as actors, and the same two workers in this process."""
    options = {"nodes": 900, "workers": 2, "strategy": "sync", "checkpoint_every": 5}
    trainer, here = prepared("gcn", 1, servers=2, **options), prepared("gcn", 1, servers=0, **options)
    yield trainer, here
    trainer.close()
    here.close()


@pytest.fixture
def pair(launched):
    """Both trainers at their start."""
    for trainer in launched:
        trainer.load(trainer.job.state)
    return launched


def test_actors_equal_the_servers_of_this_process(pair):
    trainer, here = pair
    for epoch in range(EPOCHS):
        np.testing.assert_allclose(trainer.epoch(epoch, WorkerClock()), here.epoch(epoch, WorkerClock()), rtol=1e-4)
    same(here.state(), trainer.state(), 1e-4)
    nodes = np.arange(50)
    np.testing.assert_allclose(trainer.predict(trainer.graph, nodes), here.predict(here.graph, nodes), atol=1e-3)


def pid_of(ray, actor) -> int:
    return ray.get(actor.__ray_call__.remote(lambda self: os.getpid()))


def test_a_server_killed_between_epochs_comes_back_from_its_checkpoint(ray, pair):
    trainer, _ = pair
    losses = [trainer.epoch(0, WorkerClock())]
    before = trainer.pool.servers.call_all("facts")[0]["updates"]
    os.kill(pid_of(ray, trainer.pool.actors[0]), signal.SIGKILL)
    losses += [trainer.epoch(epoch, WorkerClock()) for epoch in range(1, 4)]
    killed, spared = trainer.pool.servers.call_all("facts")
    assert before - 5 < killed["restored_at_update"] <= before
    assert 0 <= spared["updates"] - killed["updates"] <= 5, "what came after the checkpoint, nothing else"
    assert spared["restored_at_update"] is None
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("who", ["server", "worker"])
def test_training_goes_on_when_one_is_killed_inside_an_epoch(ray, pair, who):
    trainer, here = pair
    actors = trainer.pool.actors if who == "server" else trainer.pool.workers
    timer = threading.Timer(0.2, os.kill, (pid_of(ray, actors[1]), signal.SIGKILL))
    timer.start()
    for epoch in range(2):
        assert np.isfinite(trainer.epoch(epoch, WorkerClock()))
        here.epoch(epoch, WorkerClock())
    timer.join()
    spared, killed = trainer.pool.servers.call_all("facts")
    assert spared["updates"] == 2 * trainer.job.steps
    assert (killed["restored_at_update"] is not None) == (who == "server")
    assert 0 <= spared["updates"] - killed["updates"] <= (6 if who == "server" else 0)
    if who == "worker":
        same(here.state(), trainer.state(), 1e-3)


def test_a_server_killed_after_one_worker_has_finished_its_epoch_lets_the_other_go_on(ray):
    trainer = prepared("gcn", 1, nodes=900, workers=2, strategy="sync", servers=1, checkpoint_every=10**6)
    ray.get(trainer.pool.workers[0].__ray_call__.remote(few_targets))
    timer = threading.Timer(0.3, os.kill, (pid_of(ray, trainer.pool.actors[0]), signal.SIGKILL))
    timer.start()
    assert all(np.isfinite(trainer.epoch(epoch, WorkerClock())) for epoch in range(2))
    timer.join()
    assert trainer.pool.servers.call_all("facts")[0]["restored_at_update"] is not None
    trainer.close()


def few_targets(worker) -> None:
    """Leave a worker one batch; in the other steps it is idle."""
    worker.plan = replace(worker.plan, nodes=worker.plan.nodes[:1])


def damaged(path: Path) -> None:
    """Cut a file in two, and keep the first half."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("every", "message"),
    [
        (0, "^a parameter server ended, and with checkpoint_every=0 it has no checkpoint"),
        (5, "^Ray gave up on a parameter server or a worker, .*: ValueError: .* is no complete checkpoint"),
    ],
)
def test_a_server_that_cannot_go_on_ends_the_training_with_a_reason(ray, every, message):
    """One without a checkpoint, and one whose checkpoint is damaged; nobody waits for ever."""
    trainer = prepared("gcn", 3, workers=2, strategy="sync", servers=2, checkpoint_every=every)
    trainer.epoch(0, WorkerClock())
    for path in trainer.pool.folder.glob("*.checkpoint"):
        damaged(path)
    os.kill(pid_of(ray, trainer.pool.actors[1]), signal.SIGKILL)
    with pytest.raises(RuntimeError, match=message):
        trainer.epoch(1, WorkerClock())
    folder = trainer.pool.folder
    trainer.close()
    assert not folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["async", "bounded"])
def test_actors_that_need_not_wait_learn(strategy):
    losses, _ = trained(workers=2, strategy=strategy, epochs=12)
    assert losses[-1] < losses[0]


LOST = {
    "OutOfMemoryError": ("a process was killed by the memory monitor",),
    "NodeDiedError": ("the node of the actor died",),
    "ObjectLostError": ("00ff", None, "here"),
    "RaySystemError": (OSError("the store is gone"),),
    "ActorDiedError": (),
}


@pytest.mark.parametrize("name", LOST)
@pytest.mark.parametrize("behind", [False, True], ids=["own", "of what it reads"])
def test_whatever_ray_gives_up_for_is_a_sentence_of_the_pool_and_of_the_executor(ray, name, behind):
    lost = getattr(ray.exceptions, name)(*LOST[name])
    error = ray.exceptions.RayTaskError("each", "its trace", lost) if behind else lost

    def fail(handles):
        raise error

    pool, executor = object.__new__(RayPool), object.__new__(RayExecutor)
    pool.ray = executor.ray = SimpleNamespace(get=fail, exceptions=ray.exceptions)
    pool.workers = []
    with pytest.raises(
        RuntimeError, match=r"^Ray gave up on a parameter server or a worker, .*: train again: "
    ) as of_pool:
        pool.each("traffic", [])
    with pytest.raises(
        ChildProcessError, match=r"^Ray gave up on a task: repeat the command, which resumes"
    ) as of_task:
        executor.get([])
    assert all(str(raised.value).endswith(f": {lost}") for raised in (of_pool, of_task))


def test_what_a_worker_raises_reaches_the_caller(pair):
    with pytest.raises(Exception, match="target 9999 is not in the graph"):
        pair[0].loss_and_gradients(np.array([0, 9999]))


PROGRAM = """
from tests.backends.agl.train.test_pools import trained
print(trained(workers=2, strategy={strategy!r}, servers=1)[0])
"""


def test_nothing_is_left_at_the_end(tmp_path: Path):
    with mark_processes("distributed"):
        environment = dict(os.environ) | {"TMPDIR": str(short_folder(tmp_path))}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(strategy="sync")], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert list(Path(environment["TMPDIR"]).iterdir()) == []
    Path(environment["TMPDIR"]).rmdir()


def short_folder(near: Path) -> Path:
    """A folder for temporary files whose path leaves room for sockets, as pytest's own may not."""
    folder = Path(near.anchor) / near.parts[1] / f"agl-{os.getpid()}-{time.monotonic_ns() % 100000}"
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_all_processes_end_with_the_session_of_the_program(tmp_path: Path):
    with mark_processes("killed") as mark:
        environment = dict(os.environ) | {"TMPDIR": str(short_folder(tmp_path))}
        program = PROGRAM.format(strategy="sync").replace("trained(", "trained(epochs=10**6, ")
        running = subprocess.Popen([sys.executable, "-c", program], env=environment, start_new_session=True)
        eventually(lambda: len(marked(mark)) > 8, "the start of the workers")
        assert end_tree(running.pid) == []
        running.wait()
    shutil.rmtree(environment["TMPDIR"])


def test_workers_of_any_pool_train_from_shards_of_their_own_what_they_train_in_this_process():
    options = {"nodes": 900, "workers": 2, "source": "graphfeature"}
    _, here = trained(strategy="sync", servers=0, **options)
    for strategy, servers in (("sync", 2), ("allreduce", 1)):
        same(trained(strategy=strategy, servers=servers, **options)[1], here, 1e-4)
