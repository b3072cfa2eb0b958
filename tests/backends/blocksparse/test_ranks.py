"""Ranks in 1D and 1.5D train as one process does: real gloo ranks, float64, dropout on."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.ablation import resolve
from backends.base.propagation import steps_of
from backends.batches import BatchPlan
from backends.blocksparse.config import BlocksparseConfig
from backends.blocksparse.layout import RankLayout
from backends.blocksparse.ranks import RanksTrainer
from backends.contract import Unsupported
from backends.memory_errors import is_out_of_memory
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.model_names import MODELS, WEIGHTED
from backends.parallel.network import ClusterNetwork
from backends.parallel.ranks import RankFailed, shared_pool
from backends.registry import runtime
from datasets.order import apply_order, undo
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph

EPOCHS, EXACT = 5, 1e-10
LAYOUTS = [
    (2, 1),
    (4, 1),
    (4, 2),
    pytest.param(8, 1, marks=pytest.mark.slow),
    pytest.param(8, 2, marks=pytest.mark.slow),
]


def spec_of(model, graph):
    return ModelSpec(model, 2, graph.width, 5, graph.classes, heads=2 if model == "gat" else 1)


def trained(graph, spec, training, **options):
    """Losses of some epochs, gradients and logits after them, all predictions, and the facts."""
    trainer = runtime(resolve(BlocksparseConfig(**options), []), "train")
    plan = BatchPlan(graph.nodes_of("train"))
    trainer.prepare(graph, spec, training, initial_state(spec, 0), plan, PlainClock())
    losses = [trainer.epoch(index, PlainClock()) for index in range(EPOCHS)]
    facts = trainer.facts()
    targets = np.random.default_rng(1).permutation(graph.nodes)[:11]
    logits, loss, gradients = trainer.loss_and_gradients(targets)
    results = {
        "losses": losses,
        "logits": logits,
        "loss": loss,
        "state": trainer.state()["layers.0.weight" if spec.propagates else "layers.1.bias"],
    }
    results["predictions"] = trainer.predict(graph, np.arange(graph.nodes)[::-1])
    parts = None if graph.part_bounds is None else np.minimum(graph.part_bounds, 23)
    other = replace(awkward_graph(9, nodes=23), part_bounds=parts)
    results["other graph"] = trainer.predict(other, np.arange(23))
    trainer.close()
    return results | gradients, facts


@pytest.mark.parametrize("exchange", ["broadcast", "halo"])
@pytest.mark.parametrize("bounds", ["rows", "edges"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("ranks", "replication"), LAYOUTS)
def test_ranks_train_as_one_process_does(ranks, replication, model, bounds, exchange):
    graph = awkward_graph(2, weighted=model in WEIGHTED, multilabel=model == "sage")
    dropout = {"dropout": 0.4, "attention_dropout": 0.3 if model == "gat" else 0.0}
    spec, training = spec_of(model, graph), TrainingSpec(dtype="float64", threads=2, **dropout)
    options = {"ranks": ranks, "replication": replication, "exchange": exchange, "bounds": bounds}
    if model == "gat" and replication > 1:
        assert "1D" in BlocksparseConfig(**options).unsupported("train", "gat", "cpu", True)
        return
    expected, _ = trained(graph, spec, training)
    actual, facts = trained(graph, spec, training, **options)
    assert expected.keys() == actual.keys()
    for name, value in expected.items():
        assert np.abs(np.asarray(value) - actual[name]).max() <= EXACT, name
    assert sum(facts["ranks"]["edges"]) == facts["spmm"][0]["nnz"]
    assert len(facts["ranks"]["phases"]) == len(facts["ranks"]["forms"]) == ranks
    assert all(phases["aggregate"] > 0 for phases in facts["ranks"]["phases"])
    check_bytes(facts["ranks"], RankLayout(ranks, replication), spec, graph, exchange, bounds)


@pytest.mark.parametrize("exchange", ["broadcast", "halo"])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(
    ("bounds", "replication"),
    [([0, 0, 40], 1), ([0, 17, 17, 40], 1), ([0, 40, 40], 1), ([0, 17, 17, 40, 40], 2)],
    ids=["first", "between", "last", "replicated"],
)
def test_a_rank_whose_part_is_empty_changes_nothing(bounds, replication, model, exchange):
    """METIS leaves parts of small graphs empty."""
    graph = replace(awkward_graph(2, nodes=40, weighted=model in WEIGHTED), part_bounds=np.array(bounds))
    ranks = (len(bounds) - 1) * replication
    if model == "gat" and replication > 1:
        return
    spec, training = spec_of(model, graph), TrainingSpec(dtype="float64", dropout=0.4, threads=2)
    expected, _ = trained(graph, spec, training)
    options = {"ranks": ranks, "replication": replication, "exchange": exchange, "bounds": "parts"}
    for overlap in (False, True) if model != "gat" else (False,):
        actual, facts = trained(graph, spec, training, **options, overlap=overlap)
        for name, value in expected.items():
            assert np.abs(np.asarray(value) - actual[name]).max() <= EXACT, name
        assert min(facts["ranks"]["edges"]) == 0


@pytest.mark.parametrize("exchange", ["broadcast", "halo"])
@pytest.mark.parametrize("model", ["gcn", "sage", "sgc", "ngcn"])
@pytest.mark.parametrize(("ranks", "replication"), LAYOUTS)
def test_overlap_changes_nothing_but_the_time(ranks, replication, model, exchange):
    graph = awkward_graph(2, weighted=model in WEIGHTED, multilabel=model == "sage")
    spec, training = spec_of(model, graph), TrainingSpec(dtype="float64", dropout=0.4, threads=2)
    options = {"ranks": ranks, "replication": replication, "exchange": exchange}
    expected, whole = trained(graph, spec, training, **options)
    actual, facts = trained(graph, spec, training, **options, overlap=True)
    for name, value in expected.items():
        assert np.abs(np.asarray(value) - actual[name]).max() <= EXACT, name
    assert [traffic["rows"] for traffic in facts["ranks"]["traffic"]] == [
        traffic["rows"] for traffic in whole["ranks"]["traffic"]
    ]


def check_bytes(facts, layout, spec, graph, exchange, bounds):
    """Received bytes are those of the formula: rows of other blocks forward, their gradients back."""
    widths = {  # (forward, backward) of both layers: layer 0 aggregates the constant input, or sends what it transforms
        "gcn": [(spec.in_width, 0), (graph.classes, graph.classes)],
        "sage": [(spec.in_width, 0), (graph.classes, graph.classes)],
        "gat": [(2 * 5 + 2, 2 * 5 + 2), (graph.classes + 1, graph.classes + 1)],
    }
    if spec.propagates:
        widths[spec.name] = [(step.width, step.width * step.has_backward) for step in steps_of(spec, is_sparse=False)]
    forward, backward = (sum(width) for width in zip(*widths[spec.name], strict=True))
    for rank, traffic in enumerate(facts["traffic"]):
        block, column = layout.place(rank)
        received = facts["received_rows"][rank]
        if exchange == "broadcast" and bounds == "rows":
            cuts = [k * graph.nodes // layout.blocks for k in range(layout.blocks + 1)]
            sizes = np.diff(cuts)
            assert received == sum(sizes[k] for k in layout.stages(column) if k != block)
            returned = (layout.blocks - 1) * sizes[block] * (block in layout.stages(column))
            assert traffic["rows"] == 8 * (received * forward + returned * backward)


def test_ranks_infer_as_one_process_does():
    graph = awkward_graph(5)
    spec = spec_of("sage", graph)
    scores = []
    for options in ({}, {"ranks": 2, "exchange": "broadcast"}, {"ranks": 4, "replication": 2}):
        inferrer = runtime(resolve(BlocksparseConfig(**options), []), "infer")
        plan = BatchPlan(np.arange(graph.nodes)[::2])
        inferrer.prepare(graph, spec, TrainingSpec(dtype="float64"), initial_state(spec, 0), plan, PlainClock())
        scores.append(inferrer.infer(PlainClock()))
        assert ("ranks" in inferrer.facts()) == bool(options)
        inferrer.close()
    assert all(np.abs(scores[0] - other).max() <= EXACT for other in scores[1:])


def test_ranks_that_infer_try_no_form_of_a_backward_product():
    graph = awkward_graph(5)
    spec = spec_of("gcn", graph)
    for scenario, directions in (("train", {"forward", "backward"}), ("infer", {"forward"})):
        engine = runtime(resolve(BlocksparseConfig(ranks=2, forms="panels"), []), scenario)
        plan = BatchPlan(graph.nodes_of("train"))
        engine.prepare(graph, spec, TrainingSpec(), initial_state(spec, 0), plan, PlainClock())
        forms = engine.facts()["ranks"]["forms"]
        engine.close()
        assert len(forms) == 2
        assert all({name.split()[-1] for name in of_rank["panels"]} == directions for of_rank in forms)


@pytest.mark.parametrize("scenario", ["train", "infer"])
def test_the_matrix_of_the_whole_graph_is_built_once_for_facts_and_operands(monkeypatch, scenario):
    graph = awkward_graph(2)
    spec = spec_of("gcn", graph)
    engine = runtime(resolve(BlocksparseConfig(ranks=2), []), scenario)
    plan = BatchPlan(graph.nodes_of("train"))
    engine.prepare(graph, spec, TrainingSpec(), initial_state(spec, 0), plan, PlainClock())
    trainer, graphs = engine if scenario == "train" else engine.trainer, []
    structure = trainer.structure
    monkeypatch.setattr(trainer, "structure", lambda of: (graphs.append(of), structure(of))[-1])
    facts, operands = engine.facts(), engine.spmm_operands()
    engine.close()
    assert [operand["csr"].nnz for operand in operands] == [product["nnz"] for product in facts["spmm"]]
    assert graphs == [graph]


@pytest.mark.parametrize(("ranks", "widths"), [(1, [6]), (2, [8 * 64] * 2)])
def test_facts_have_the_width_that_is_gathered_of_a_narrow_input(ranks, widths):
    graph = awkward_graph(5, nodes=60, edges=4000)
    spec = ModelSpec("gat", 2, graph.width, 64, graph.classes, heads=8)
    engine = runtime(resolve(BlocksparseConfig(ranks=ranks), []), "train")
    engine.prepare(
        graph, spec, TrainingSpec(), initial_state(spec, 0), BatchPlan(graph.nodes_of("train")), PlainClock()
    )
    products = engine.facts()["spmm"]
    engine.close()
    assert graph.width == 6
    assert [product["width"] for product in products if "layers.0" in product["name"]] == widths


@pytest.mark.parametrize("ended_in", ["forms", "phases"])
def test_ranks_that_run_out_of_memory_in_the_pass_after_the_epochs_say_so_in_the_facts(monkeypatch, tmp_path, ended_in):
    monkeypatch.setattr("backends.memory_errors.VMSTAT", tmp_path / "none")  # so that SIGKILL may be the kernel's
    graph = awkward_graph(2)
    spec = spec_of("gcn", graph)
    trainer = runtime(resolve(BlocksparseConfig(ranks=2), []), "train")
    trainer.prepare(
        graph, spec, TrainingSpec(), initial_state(spec, 0), BatchPlan(graph.nodes_of("train")), PlainClock()
    )
    trainer.epoch(0, PlainClock())
    each = trainer.each

    def killed(method, *arguments):
        if method == ended_in:
            trainer.ranks.pool.processes[1].process.kill()  # as the kernel does when memory runs out
        return each(method, *arguments)

    monkeypatch.setattr(trainer, "each", killed)
    ranks = trainer.facts()["ranks"]
    assert ranks["status"].startswith(f"not measured, oom: rank 1 of 2 ended in '{ended_in}' by SIGKILL")
    assert len(ranks["edges"]) == len(ranks["traffic"]) == 2 and "phases" not in ranks
    assert ("forms" in ranks) == (ended_in == "phases")
    with pytest.raises(RankFailed, match="prepare again") as later:
        trainer.epoch(1, PlainClock())
    assert is_out_of_memory(later.value)
    trainer.close()


def test_ranks_have_no_loss_where_no_target_has_a_label():
    graph = replace(awkward_graph(1), labels=np.full(40, -1))
    spec = spec_of("gcn", graph)
    for options in ({}, {"ranks": 2}):
        trainer = runtime(resolve(BlocksparseConfig(**options), []), "train")
        plan = BatchPlan(np.arange(10))
        trainer.prepare(graph, spec, TrainingSpec(), initial_state(spec, 0), plan, PlainClock())
        assert np.isnan(trainer.epoch(0, PlainClock()))
        trainer.close()


def test_more_row_blocks_than_nodes_are_unsupported():
    graph = awkward_graph(0, nodes=7, edges=4)
    spec = spec_of("gcn", graph)
    with pytest.raises(Unsupported, match="8 row blocks, the graph has 7 nodes"):
        trained(graph, spec, TrainingSpec(), ranks=8)
    trainer = RanksTrainer(BlocksparseConfig(ranks=8))
    with pytest.raises(Unsupported):
        trainer.prepare(graph, spec, TrainingSpec(), initial_state(spec, 0), BatchPlan(np.arange(7)), PlainClock())
    trainer.close()


@pytest.mark.parametrize(("ranks", "replication"), [(6, 4), (4, 4), (8, 3), (0, 1)])
def test_layouts_that_cannot_be_are_refused(ranks, replication):
    with pytest.raises(ValueError, match="is not allowed"):
        BlocksparseConfig(ranks=ranks, replication=replication)


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_no_order_changes_what_is_dropped(model):
    graph = awkward_graph(4, weighted=model == "gcn")
    order = np.random.default_rng(0).permutation(graph.nodes)
    spec = spec_of(model, graph)
    training = TrainingSpec(dtype="float64", dropout=0.4, attention_dropout=0.3 if model == "gat" else 0.0)
    runs = []
    for ordered, options in ((graph, {}), (apply_order(graph, order), {}), (apply_order(graph, order), {"ranks": 2})):
        trainer = runtime(resolve(BlocksparseConfig(**options), []), "train")
        plan = BatchPlan(ordered.nodes_of("train"))
        trainer.prepare(ordered, spec, training, initial_state(spec, 0), plan, PlainClock())
        losses = [trainer.epoch(index, PlainClock()) for index in range(EPOCHS)]
        scores = trainer.predict(ordered, np.arange(graph.nodes))
        runs.append((losses, scores if ordered is graph else undo(scores, order)))
        trainer.close()
    for losses, scores in runs[1:]:
        assert np.abs(np.subtract(losses, runs[0][0])).max() <= EXACT
        assert np.abs(scores - runs[0][1]).max() <= EXACT


def test_messages_are_held_back_for_a_slow_link():
    graph = awkward_graph(2)
    spec = spec_of("gcn", graph)
    _, facts = trained(graph, spec, TrainingSpec(), ranks=2, link=[1e6, 0.002])
    traffic = facts["ranks"]["traffic"][0]
    # forward and backward of two layers, and the sum of gradients, whose ring has two messages
    assert traffic["seconds"] >= 0.002 * (2 + 1 + 2) + (traffic["rows"] + traffic["ring"]) / 1e6
    assert "0.008 Gbit/s" in facts["ranks"]["network"]


@pytest.mark.parametrize("method", ["fetched", "added"])
def test_an_assumed_network_carries_nothing_before_the_last_rank_sends(method):
    delay, latency = 0.2, 0.15
    ranks = shared_pool(2).build(
        "tests.backends.blocksparse.rank_objects:LateRank",
        [(rank, ClusterNetwork(1e9, latency), delay) for rank in range(2)],
    )
    begun = time.perf_counter()
    answers = ranks.each(method, [(), ()])
    ranks.close()
    # the second rank's rows leave after its delay: the first one, which sends at once, waits as long
    assert all(there - begun >= delay + latency for _, there in answers)
    assert [rows for rows, _ in answers] == ([[1.0] * 6, [0.0] * 6] if method == "fetched" else [[1.0] * 6] * 2)


@pytest.mark.parametrize(("ranks", "replication"), [(2, 1), (4, 1), (4, 2)])
@pytest.mark.parametrize("exchange", ["broadcast", "halo"])
def test_the_loopback_device_counts_what_the_facts_say(ranks, replication, exchange):
    graph = awkward_graph(4, nodes=6000, edges=60000, width=200)
    spec = ModelSpec("gcn", 2, graph.width, 64, graph.classes)
    trainer = runtime(resolve(BlocksparseConfig(ranks=ranks, replication=replication, exchange=exchange), []), "train")
    plan = BatchPlan(graph.nodes_of("train"))
    trainer.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
    counted, expected, begun = [], 0, time.monotonic()
    # other tests may use the device beside this one for a while
    while len(counted) < 5 or (min(counted) > 1.05 * expected and time.monotonic() - begun < 90):
        before = loopback_bytes()
        trainer.epoch(len(counted), PlainClock())
        counted.append(loopback_bytes() - before)
        expected = sum(part["rows"] + part["ring"] for part in trainer.facts()["ranks"]["traffic"])
    trainer.close()
    assert min(counted) == pytest.approx(expected, rel=0.05)


def loopback_bytes():
    lines = Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == "lo:")
