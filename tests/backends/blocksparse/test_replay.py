"""The replay of ranks one after the other receives the bytes that real ranks receive, and adds a network's seconds."""

import weakref
from dataclasses import replace

import numpy as np
import pytest

from backends.ablation import resolve
from backends.batches import BatchPlan
from backends.blocksparse import adaptive, scaling
from backends.blocksparse.config import BlocksparseConfig
from backends.blocksparse.layout import RankLayout
from backends.blocksparse.model_check import ROUNDS, transport_of
from backends.blocksparse.replay import ModelledEpoch, RankEpochs, ReplayWorker, repeats, replay
from backends.blocksparse.slices import cut, targets_of_ranks
from backends.blocksparse.worker import RankTask
from backends.contract import Unsupported
from backends.kernels.operand import operand
from backends.kernels.panels import PanelChoice, cut_panels
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.parallel.network import NO_NETWORK, ClusterNetwork
from backends.parallel.ranks import shared_pool
from backends.registry import runtime
from datasets.adjacency import adjacency_of
from datasets.order.bounds import edge_bounds
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph

NETWORK = ClusterNetwork(1e8, 1e-3)


def pieces(graph, spec, training, **options):
    """What a replay takes: the task, the slices and the targets of all ranks, and the state."""
    config = resolve(BlocksparseConfig(**options), [])
    task = RankTask(
        RankLayout(config.ranks, config.replication), spec, training, ((graph.width, False), (5, True)), config, False
    )
    adjacency = adjacency_of(graph, "gcn", training.dtype)
    bounds = edge_bounds(adjacency.csr, task.layout.blocks)
    graph_cut, slices = cut(graph, adjacency, task.layout, bounds, config.exchange, mean=None)
    return task, slices, targets_of_ranks(graph, graph.nodes_of("train"), graph_cut), initial_state(spec, 0)


def tiny(dtype="float32"):
    graph = awkward_graph(3, nodes=60, edges=300)
    return graph, ModelSpec("gcn", 2, graph.width, 5, graph.classes), TrainingSpec(threads=1, dtype=dtype)


@pytest.mark.parametrize(("ranks", "replication"), [(2, 1), (4, 2)])
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("exchange", ["broadcast", "halo"])
def test_bytes_are_those_of_real_ranks_and_messages_take_what_the_network_would(exchange, overlap, ranks, replication):
    graph, spec, training = tiny()
    options = {"ranks": ranks, "replication": replication, "exchange": exchange, "overlap": overlap}
    trainer = runtime(resolve(BlocksparseConfig(**options), []), "train")
    state, plan = initial_state(spec, 0), BatchPlan(graph.nodes_of("train"))
    trainer.prepare(graph, spec, training, state, plan, PlainClock())
    trainer.epoch(0, PlainClock())
    traffic = trainer.facts()["ranks"]["traffic"]
    trainer.close()

    link = [NETWORK.bandwidth, NETWORK.latency]
    results = replay(*pieces(graph, spec, training, **options, link=link))
    assert [(part["rows"], part["ring"]) for part in traffic] == [(part.rows, part.ring) for part in results]
    for part in results:
        least, exposed = (part.rows + part.ring) / NETWORK.bandwidth, part.exposed.sum(1)
        assert part.messages >= least + 2 * NETWORK.latency
        assert (exposed <= part.messages * (1 + 1e-9)).all() and (part.compute > 0).all()
        assert overlap or exposed == pytest.approx(part.messages)
        assert part.compute.shape == part.exposed.shape == results[0].compute.shape
        assert (part.leaves <= part.compute).all() and (part.leaves == part.compute).all() != overlap


def epochs_of(compute, network, leaves=None, transport=0.0):
    """A rank's epochs, whose messages leave when computation ends unless ``leaves`` says otherwise."""
    compute, network = np.array(compute), np.array(network)
    leaves = compute if leaves is None else np.array(leaves)
    return RankEpochs(leaves, compute, network, np.full_like(compute, transport), float(network.sum()), 0, 0)


def test_a_message_arrives_its_seconds_after_the_last_rank_sent():
    slow, far = epochs_of([[10.0, 1.0]], [[1.0, 0.0]]), epochs_of([[1.0, 2.0]], [[8.0, 0.0]])
    # what the far rank waits for leaves after 10 seconds and takes 8
    assert ModelledEpoch.of([slow, far], together=True) == ModelledEpoch(compute=12.0, exposed=8.0)
    # with overlap it leaves after 2 and arrives when the slow rank's own columns are done
    slow, far = epochs_of([[10.0]], [[1.0]], [[2.0]]), epochs_of([[1.0]], [[8.0]], [[0.5]])
    assert ModelledEpoch.of([slow, far], together=True) == ModelledEpoch(compute=10.0, exposed=0.0)
    # cores that carry a message compute nothing meanwhile
    slow = epochs_of([[10.0]], [[1.0]], [[2.0]], transport=0.5)
    assert ModelledEpoch.of([slow, far], together=True) == ModelledEpoch(compute=10.0, exposed=0.5)


def test_a_modelled_epoch_is_the_median_one_of_ranks_timed_together_and_of_medians_otherwise():
    first = epochs_of([[5.0, 1.0], [2.0, 2.0], [9.0, 9.0]], [[1.0, 0.0]] * 3)
    second = epochs_of([[1.0, 4.0], [3.0, 2.0], [8.0, 8.0]], [[3.0, 0.0]] * 3)
    # stretches of 5 + 3 and 4, 3 + 3 and 2, 9 + 3 and 9 seconds
    assert ModelledEpoch.of([first, second], together=True) == ModelledEpoch(compute=9.0, exposed=3.0)
    assert ModelledEpoch.of([first, second], together=False) == ModelledEpoch(compute=9.0, exposed=3.0)
    calm = epochs_of([[1.0, 1.0], [1.0, 9.0], [9.0, 1.0]], np.zeros((3, 2)))
    assert ModelledEpoch.of([calm] * 64, together=False).seconds == 2.0
    assert ModelledEpoch.of([calm] * 64, together=True).seconds == 10.0


def test_short_epochs_are_timed_more_often():
    assert [repeats(seconds) for seconds in (0.0, 0.01, 0.1, 0.4, 100.0)] == [15, 15, 10, 3, 3]


def test_the_transport_of_this_machine_has_a_latency_and_a_bandwidth():
    transport = transport_of(shared_pool(2))
    assert 0 < transport.latency < 1
    assert transport.seconds(1, 1 << 24) > transport.latency


def test_an_epoch_models_all_numbers_of_ranks_that_are_asked_for():
    graph, spec, training = tiny()
    trainer = runtime(resolve(BlocksparseConfig(replay=[2, 4], link=[1e8, 1e-3]), []), "train")
    trainer.prepare(graph, spec, training, initial_state(spec, 0), BatchPlan(graph.nodes_of("train")), PlainClock())
    trainer.epoch(0, PlainClock())
    before = trainer.state()["layers.0.weight"].copy()
    rows = trainer.facts()["replay"]
    assert [row["ranks"] for row in rows] == [2, 4]
    assert all(row["seconds"] >= row["exposed"] > 0 for row in rows)
    assert np.array_equal(before, trainer.state()["layers.0.weight"])  # the model trains copies
    trainer.close()


def test_an_epoch_is_modelled_where_a_part_is_empty():
    graph, spec, training = tiny()
    graph = replace(graph, part_bounds=np.array([0, 20, 20, graph.nodes]))
    trainer = runtime(resolve(BlocksparseConfig(replay=[3], bounds="parts", link=[1e8, 1e-3]), []), "train")
    trainer.prepare(graph, spec, training, initial_state(spec, 0), BatchPlan(graph.nodes_of("train")), PlainClock())
    (row,) = trainer.facts()["replay"]
    assert row["ranks"] == 3 and row["seconds"] >= row["exposed"] > 0
    trainer.close()


def test_what_kernels_keep_of_a_rank_ends_before_the_next_one_is_timed(monkeypatch):
    operands, timed = [], ReplayWorker.timed

    def watched(worker, *arguments):
        assert not any(reference() for reference in operands)
        answer = timed(worker, *arguments)
        operands.append(weakref.ref(operand(worker.structure[0].csr)))
        return answer

    monkeypatch.setattr(ReplayWorker, "timed", watched)
    graph, spec, training = tiny()
    task, slices, targets, state = pieces(graph, spec, training, ranks=4)
    assert len(replay(task, slices, targets, state)) == len(operands) == 4
    assert not any(reference() for reference in operands) and len(slices) == 4


def test_a_model_that_memory_does_not_hold_leaves_the_others_and_says_so(monkeypatch):
    def only_two(task, *arguments):
        if task.layout.ranks == 4:
            raise MemoryError("too many edges")
        return replay(task, *arguments)

    monkeypatch.setattr(scaling, "replay", only_two)
    graph, spec, training = tiny()
    trainer = runtime(resolve(BlocksparseConfig(replay=[2, 4]), []), "train")
    trainer.prepare(graph, spec, training, initial_state(spec, 0), BatchPlan(graph.nodes_of("train")), PlainClock())
    two, four = trainer.facts()["replay"]
    assert two["ranks"] == 2 and two["seconds"] > 0
    assert four == {"ranks": 4, "status": "not measured, oom: too many edges"}
    trainer.close()


@pytest.mark.parametrize(
    ("part_bounds", "words"),
    [(None, "needs a graph in the order of its parts"), ([0, 20, 60], "the graph has 2 parts for 4 row blocks")],
    ids=["no parts", "other parts"],
)
def test_blocks_that_are_no_parts_are_refused_before_an_epoch(part_bounds, words):
    graph, spec, training = tiny()
    graph = replace(graph, part_bounds=None if part_bounds is None else np.array(part_bounds))
    trainer = runtime(resolve(BlocksparseConfig(replay=[2, 4], bounds="parts"), []), "train")
    plan = BatchPlan(graph.nodes_of("train"))
    with pytest.raises(Unsupported, match=words):
        trainer.prepare(graph, spec, training, initial_state(spec, 0), plan, PlainClock())


@pytest.mark.parametrize("replication", [1, 2])
def test_real_ranks_are_compared_with_their_own_model_in_turns(replication):
    graph, spec, training = tiny()
    ranks = 2 * replication
    config = BlocksparseConfig(ranks=ranks, replication=replication, replay=[ranks], link=[1e8, 1e-3])
    trainer = runtime(resolve(config, []), "train")
    trainer.prepare(graph, spec, training, initial_state(spec, 0), BatchPlan(graph.nodes_of("train")), PlainClock())
    trainer.epoch(0, PlainClock())
    before = trainer.state()["layers.0.weight"].copy()
    (answer,) = trainer.facts()["replay"]
    assert answer["ranks"] == ranks and len(answer["rounds"]) == ROUNDS
    assert [answer["seconds"], answer["measured"]] in answer["rounds"]
    assert answer["seconds"] >= answer["exposed"] > 4e-3  # four messages at least
    assert np.array_equal(before, trainer.state()["layers.0.weight"])
    trainer.close()


@pytest.mark.parametrize(("replay", "ranks"), [([1], 1), ([4], 2), ([2, 4], 2), ([4, 0], 1)])
def test_models_that_cannot_be_are_refused(replay, ranks):
    with pytest.raises(ValueError, match="is not allowed"):
        BlocksparseConfig(replay=replay, ranks=ranks)


def test_a_rank_without_targets_adds_nothing_to_the_loss_whatever_its_scores():
    graph, spec, training = tiny()
    task, slices, targets, state = pieces(graph, spec, training, ranks=2)
    huge = {name: np.full_like(value, 1e38) for name, value in state.items()}
    worker = ReplayWorker(0, task, slices[0], huge, NO_NETWORK)
    worker.train_on(replace(targets[0], rows=targets[0].rows[:0], labels=targets[0].labels[:0], share=0.0))
    assert worker.epoch(0)[0] == 0.0


@pytest.mark.parametrize("overlap", [True, False])
def test_a_rank_multiplies_in_the_panels_that_it_chose(monkeypatch, overlap):
    graph, spec, training = tiny("float64")
    chosen = []

    def cut_in_three(csr, width, weight, transposed, **options):
        side = operand(csr).backward if transposed else operand(csr).forward
        side.panels[width] = cut_panels(side, csr.shape[0] if transposed else csr.shape[1], 3)
        chosen.append(side)
        return PanelChoice(3, {})

    losses = []
    for forced in (False, True):
        if forced:
            monkeypatch.setattr(adaptive, "choose_panels", cut_in_three)
        task, slices, targets, state = pieces(graph, spec, training, ranks=2, overlap=overlap)
        workers = [ReplayWorker(rank, task, part, state, NO_NETWORK) for rank, part in enumerate(slices)]
        for worker, own in zip(workers, targets, strict=True):
            worker.train_on(own)
        losses.append([[worker.epoch(epoch)[0] for epoch in range(3)] for worker in workers])
    assert np.abs(np.subtract(*losses)).max() <= 1e-12
    assert all(side.panels for side in chosen) and len(chosen) == 2 * 3 * (1 + overlap)
    assert all(worker.forms()["panels"] for worker in workers)
