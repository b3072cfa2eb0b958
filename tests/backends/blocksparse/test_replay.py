"""The replay of ranks one after the other receives the bytes that real ranks receive, and adds a network's seconds."""

import numpy as np
import pytest

from backends.ablation import resolve
from backends.batches import BatchPlan
from backends.blocksparse.config import BlocksparseConfig
from backends.blocksparse.replay import epoch_seconds, replay
from backends.blocksparse.slices import cut
from backends.blocksparse.worker import RankTask
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.parallel.network import ClusterNetwork
from backends.registry import runtime
from datasets.adjacency import adjacency_of
from datasets.order.bounds import edge_bounds
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph


@pytest.mark.parametrize(("ranks", "replication"), [(2, 1), (4, 2)])
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("exchange", ["broadcast", "halo"])
def test_bytes_are_those_of_real_ranks_and_messages_take_what_the_network_would(exchange, overlap, ranks, replication):
    graph = awkward_graph(3, nodes=60, edges=300)
    spec, training = ModelSpec("gcn", 2, graph.width, 5, graph.classes), TrainingSpec(threads=1)
    options = {"ranks": ranks, "replication": replication, "exchange": exchange, "overlap": overlap}
    trainer = runtime(resolve(BlocksparseConfig(**options), []), "train")
    state, plan = initial_state(spec, 0), BatchPlan(graph.nodes_of("train"))
    trainer.prepare(graph, spec, training, state, plan, PlainClock())
    trainer.epoch(0, PlainClock())
    traffic, targets = trainer.facts()["ranks"]["traffic"], [own for (own,) in trainer.own_targets]
    trainer.close()

    adjacency = adjacency_of(graph, "gcn")
    bounds = edge_bounds(adjacency.csr, trainer.layout.blocks)
    _, slices = cut(graph, adjacency, trainer.layout, bounds, exchange, mean=False)
    network = ClusterNetwork(1e8, 1e-3)
    task = RankTask(trainer.layout, spec, training, exchange, network, overlap, "fused", sparse=False)
    results = replay(task, slices, targets, state, epochs=1)
    assert [(part["rows"], part["ring"]) for part in traffic] == [(part.rows, part.ring) for part in results]
    for part in results:
        least = (part.rows + part.ring) / network.bandwidth
        assert part.messages >= least + 2 * network.latency
        assert part.exposed <= part.messages if overlap else part.exposed == pytest.approx(part.messages)
    assert epoch_seconds(results) == max(np.add([part.compute for part in results], [part.exposed for part in results]))
