"""Every engine's sampling: the contract of a sampled neighbourhood, uniform draws, each breach of the contract."""

import re
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from backends.agl.config import AglConfig
from backends.agl.sampled_graph import AglSampler
from backends.batches import BatchPlan
from backends.contract import Hop, Unsupported
from backends.model import ModelSpec, TrainingSpec
from backends.registry import MODULES, config_class, runtime
from datasets.csr import csr_from_edges
from datasets.graph import Graph
from harness.launcher.failure import CellFailed
from harness.measure.clock import Clock
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.scenario import scenario_class
from harness.session import Session
from harness.verify.sample import broken, verify_sampling
from tests.graphs import awkward_graph

ENGINES = [
    pytest.param("agl", {}, id="agl"),
    *[
        pytest.param("dgl", options, id=f"dgl-{name}", marks=pytest.mark.needs_dgl)
        for name, options in {"int32": {}, "int64": {"variant": "int64"}, "worker": {"workers": 1}}.items()
    ],
]
FANOUTS = [(2, 3), (3, 2), (1,), (4, 1, 2), ()]
GRAPH = awkward_graph(2)


def sampler_of(backend, options, graph, fanouts, seed=0, size=None, layers=2):
    sampler = runtime(config_class(backend)(**options), "sample")
    spec = ModelSpec("sage", len(fanouts) or layers, graph.width, 4, 2, fanouts=tuple(fanouts))
    plan = BatchPlan(np.arange(graph.nodes), size, None, seed)
    sampler.prepare(graph, spec, TrainingSpec(threads=1, seed=seed), plan, Clock())
    return sampler


def config(backend, fanouts=(2, 3), **training):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig("sage", layers=len(fanouts) or 2, fanouts=list(fanouts)),
        backend=backend,
        training=TrainingConfig(**training),
        scenario=ScenarioConfig("sample"),
        threads=1,
    )


@pytest.mark.parametrize("fanouts", FANOUTS, ids=str)
@pytest.mark.parametrize(("backend", "options"), ENGINES)
def test_sampled_neighbourhoods_keep_the_contract(backend, options, fanouts):
    parity = verify_sampling(config(config_class(backend)(**options), fanouts), GRAPH)
    parts = ["small graph", "all neighbours in the small graph", "39 targets", "an epoch of the small graph"]
    assert list(parity) == parts + ["a regular graph"] * bool(fanouts)
    assert all(0 < checked["targets"] <= checked["nodes"] and checked["edges"] > 0 for checked in parity.values())


@pytest.mark.parametrize("backend", ["agl", pytest.param("dgl", marks=pytest.mark.needs_dgl)])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    edges=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=40),
    fanouts=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    targets=st.sets(st.integers(0, 8), min_size=1),
    seed=st.integers(0, 99),
)
def test_on_any_small_graph_too(backend, edges, fanouts, targets, seed):
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    graph = Graph("drawn", csr_from_edges(ends[:, 0], ends[:, 1], (9, 9)))
    sampler = sampler_of(backend, {}, graph, fanouts, seed)
    ascending = np.array(sorted(targets))
    assert broken(graph.csr, ascending, sampler.spec, sampler.draw(ascending)) == ""


@pytest.mark.parametrize(("backend", "options"), ENGINES)
def test_all_neighbours_are_those_of_every_other_engine(backend, options):
    targets = np.array([7, 3, 11])
    drawn, expected = (
        sampler_of(name, engine_options, GRAPH, (99, 99)).draw(targets)
        for name, engine_options in ((backend, options), ("agl", {}))
    )
    for of in ("nodes", "edges"):
        drawn_ids, expected_ids = (
            np.unique(np.concatenate([getattr(hop, of) for hop in hops])) for hops in (drawn, expected)
        )
        assert np.array_equal(drawn_ids, expected_ids)


@pytest.mark.parametrize(("backend", "options"), ENGINES)
def test_every_in_edge_is_drawn_as_often_as_every_other(backend, options):
    nodes, degree, fanout = 4000, 12, 5
    sources = np.random.default_rng(1).random((nodes, 20)).argsort(axis=1)[:, :degree].ravel()
    ends = np.repeat(np.arange(nodes), degree)
    graph = Graph("even", csr_from_edges(sources + nodes, ends, (nodes + 20,) * 2))
    sampler = sampler_of(backend, options, graph, [fanout], seed=3)
    (hop,) = sampler.draw(np.arange(nodes))
    counts = np.bincount(hop.edges % degree, minlength=degree)
    assert counts.sum() == nodes * fanout
    assert unevenness(counts, degree, fanout) < chi2.ppf(1 - 1e-6, degree - 1)


@pytest.mark.parametrize(("backend", "options"), ENGINES[:3])
def test_over_epochs_every_in_edge_of_a_hub_is_drawn_as_often_as_every_other(backend, options):
    degree, fanout, epochs = 40, 10, 500
    graph = Graph("star", csr_from_edges(np.arange(degree) + 1, np.zeros(degree, dtype=np.int64), (degree + 1,) * 2))
    sampler, counts = sampler_of(backend, options, graph, [fanout]), np.zeros(degree)
    for epoch in range(epochs):
        (neighbourhood,) = sampler.neighbourhoods([np.zeros(1, dtype=np.int64)], epoch)
        counts[sampler.hops(neighbourhood)[0].edges] += 1
    assert counts.sum() == epochs * fanout
    assert unevenness(counts, degree, fanout) < chi2.ppf(1 - 1e-6, degree - 1)


def unevenness(counts, degree, fanout):
    """Pearson's statistic, scaled for draws without replacement, whose counts vary less: chi-square, degree - 1."""
    expected = counts.sum() / degree
    return float(((counts - expected) ** 2 / expected).sum() * (degree - 1) / (degree - fanout))


def test_unevenness_finds_a_biased_sampler():
    rows = np.random.default_rng(0).random((4000, 12)).argsort(axis=1)[:, :5]
    fair = np.bincount(rows.ravel(), minlength=12)
    biased = fair + np.where(np.arange(12) == 0, 120, 0) - np.where(np.arange(12) == 1, 120, 0)
    bound = chi2.ppf(1 - 1e-6, 11)
    assert unevenness(fair, 12, 5) < bound < unevenness(biased, 12, 5)


@dataclass
class WrongConfig(AglConfig):
    """A sampler with one mistake."""

    mistake: str = ""
    runtimes: ClassVar[dict[str, str]] = {"sample": f"{__name__}:WrongSampler"}


class WrongSampler(AglSampler):
    """Draws rightly, reports its last hop wrongly."""

    def hops(self, neighbourhood):
        *before, last = super().hops(neighbourhood)
        edges, nodes = last.edges, last.nodes
        wrong = {
            "twice": Hop(nodes, last.fanout, np.concatenate((edges[:-1], edges[:1]))),
            "fewer": Hop(nodes, last.fanout, edges[1:]),
            "unknown": Hop(nodes, last.fanout, np.concatenate((edges[:-1], [self.graph.csr.nnz]))),
            "foreign": Hop(nodes[1:], last.fanout, edges),
            "repeated": Hop(np.concatenate((nodes, nodes[:1])), last.fanout, edges),
            "fanout": Hop(nodes, 1, edges),
        }
        return [*before, wrong[self.config.mistake]] if self.config.mistake != "hop" else before


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("twice", "holds an edge twice"),
        ("fewer", r"gives node \d+ \d in-edges instead of"),
        ("unknown", "holds an edge that the graph of"),
        ("foreign", r"leaves out node|is not expanded"),
        ("repeated", "expands a node twice"),
        ("fanout", "draws with fanout 1"),
        ("hop", "1 hops were drawn, the model has 2"),
    ],
)
def test_every_breach_of_the_contract_is_caught(mistake, message):
    targets, right = np.array([3, 7, 11]), sampler_of("agl", {}, GRAPH, (2, 3))
    assert broken(GRAPH.csr, targets, right.spec, right.draw(targets)) == ""
    wrong = WrongSampler(WrongConfig(mistake=mistake))
    wrong.prepare(GRAPH, right.spec, TrainingSpec(threads=1), right.plan, Clock())
    assert re.search(message, broken(GRAPH.csr, targets, right.spec, wrong.draw(targets)))


def test_a_wrong_sampler_is_incorrect_and_never_timed():
    session = Session.__new__(Session)
    session.config, session.graph = config(WrongConfig(mistake="hop")), GRAPH
    session.scenario = scenario_class("sample")(session.config, GRAPH)
    session.scenario.prepare(Clock(), None)
    with pytest.raises(CellFailed, match="agl breaks the contract of sampling on small graph: 1 hops") as failed:
        session._verify()
    assert failed.value.status == "incorrect" and failed.value.parity["small graph"]["targets"] == 60


@pytest.mark.parametrize(("backend", "options"), ENGINES)
def test_an_epoch_is_counted_and_timed(backend, options):
    scenario = scenario_class("sample")(config(config_class(backend)(**options), (9, 9), batch_size=10), GRAPH)
    assert scenario.batches == 4
    scenario.prepare(Clock(), 2)
    clock = Clock()
    scenario.run(0, clock)
    facts = scenario.engine.facts()
    assert (facts["batches"], facts["targets"]) == (2, 20) and list(clock.seconds) == ["sample"]
    hops = [scenario.engine.draw(mine) for mine in scenario.engine.plan.targets(0)]
    assert facts["edges"] > facts["targets"] and facts["nodes"] > 0
    assert facts["edges"] == sum(len(hop.edges) for batch in hops for hop in batch) or backend == "dgl"
    assert facts["edges_per_second"] == pytest.approx(facts["targets_per_second"] * facts["edges"] / 20)
    assert scenario.metrics() is None and scenario.accuracy(print) == {}
    scenario.close()


def test_agl_draws_the_same_again_and_anew_in_another_epoch():
    samplers = [sampler_of("agl", {}, GRAPH, (2, 3)) for _ in range(2)]
    drawn = [
        [tuple(batch.neighbourhood.csr.ids) for batch in sampler.neighbourhoods([np.arange(9)], epoch)]
        for sampler in samplers
        for epoch in (0, 1)
    ]
    assert drawn[0] == drawn[2] and drawn[1] == drawn[3] and drawn[0] != drawn[1]


def test_a_graph_needs_no_features_and_no_labels_to_be_sampled():
    bare = replace(GRAPH, features=None, labels=None, split=None)
    parity = verify_sampling(config(AglConfig()), bare)
    assert parity[f"{bare.nodes} targets"]["targets"] == bare.nodes


def test_dgl_has_wider_ids_for_sampling_alone():
    wide = config_class("dgl")(variant="int64")
    assert wide.unsupported("sample", "sage", "cpu", True) is None
    assert "set backend.variant=best" in wide.unsupported("train", "gcn", "cpu", True)
    assert "set backend.variant=best" in config_class("dgl")(variant="weighted").unsupported("sample", "gcn", "cpu", 1)


@pytest.mark.needs_pyg
def test_pyg_without_a_sampler_is_unsupported():
    if any(map(find_spec, ("pyg_lib", "torch_sparse"))):
        assert verify_sampling(config(config_class("pyg")()), GRAPH)
    else:
        with pytest.raises(Unsupported, match="samples by pyg_lib or torch_sparse, neither is installed"):
            sampler_of("pyg", {}, GRAPH, (2, 3))


@pytest.mark.needs_pyg
@pytest.mark.parametrize("fanouts", [(2, 3), (99, 99), (1, 1, 1)], ids=str)
def test_hops_are_recovered_from_the_order_of_pygs_nodes(fanouts):
    import torch
    from torch_geometric.sampler import SamplerOutput

    from backends.pyg.sampler import hops_of

    # a neighbourhood with fanouts by distance is laid out so: nodes hop by hop, edges between their places
    ours, targets = sampler_of("agl", {}, GRAPH, fanouts), np.array([3, 7, 11])
    ((neighbourhood, _),) = ours.neighbourhoods([targets], 0)
    column = np.repeat(np.arange(len(neighbourhood.nodes)), neighbourhood.csr.in_degrees)
    laid_out = (neighbourhood.nodes, neighbourhood.csr.indices, column, neighbourhood.positions)
    node, row, col, edge = (torch.from_numpy(part.astype(np.int64)) for part in laid_out)
    hops = hops_of(SamplerOutput(node=node, row=row, col=col, edge=edge, batch=None), 3, fanouts)
    assert broken(GRAPH.csr, targets, ours.spec, hops) == ""
    assert [len(hop.edges) for hop in hops] == [len(hop.edges) for hop in ours.draw(targets)]


def test_every_engine_that_samples_is_tested_here():
    tested = {engine.values[0] for engine in ENGINES} | {"pyg"}
    assert tested == {name for name in MODULES if "sample" in config_class(name).runtimes}
