"""The gate of scenario ``flatten``: right records pass under every option, each wrong column is caught."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from backends.agl.config import AglConfig
from backends.agl.flat.flattener import AglFlattener
from datasets.csr import csr_from_edges
from harness.launcher.failure import CellFailed
from harness.measure.clock import Clock
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.scenario import scenario_class
from harness.session import Session
from harness.verify.flatten import verify_flattening
from harness.verify.outcome import Incorrect
from tests.graphs import awkward_graph


@dataclass
class WrongConfig(AglConfig):
    """GraphFlat with one mistake, in ``column`` of a record."""

    column: str = ""
    runtimes: ClassVar[dict[str, str]] = {"flatten": f"{__name__}:WrongFlattener"}


class WrongFlattener(AglFlattener):
    """GraphFlat that stores one wrong record, the last with several edges, or flattens every second target alone."""

    def flatten(self, clock):
        every = self.targets
        if self.config.column == "targets":
            self.targets = every[::2]
        super().flatten(clock)
        self.targets = every

    def stored(self):
        if self.config.column == "targets":
            return super().stored()
        records = list(super().stored())
        if self.config.column == "twice":
            return iter([*records, records[0]])
        at = max(index for index, record in enumerate(records) if len(record.edge_ids) > 1)
        records[at] = damaged(records[at], self.config.column)
        return iter(records if self.config.column != "record" else records[:at])

    def sampling(self):
        sampling = super().sampling()
        if self.config.column == "from fewer edges":
            csr = sampling.csr
            indptr = np.minimum(csr.indptr, csr.nnz - 1)
            return replace(sampling, csr=replace(csr, indptr=indptr, indices=csr.indices[:-1], edge_ids=csr.ids[:-1]))
        return sampling


class OtherWorkFlattener(WrongFlattener):
    """GraphFlat that stores what it says, which is not what the cell asks for."""

    def prepare(self, graph, spec, training, plan, clock):
        if self.config.column == "half the fanouts":
            spec = replace(spec, fanouts=tuple(fanout // 2 for fanout in spec.fanouts))
        if self.config.column == "another seed":
            training = replace(training, seed=training.seed + 1)
        super().prepare(graph, spec, training, plan, clock)

    def stored(self):
        return AglFlattener.stored(self)


def damaged(record, column):
    """Change one entry of a column, or drop the last edge."""
    if column == "edge":
        return replace(record, **{name: getattr(record, name)[:-1] for name in
                                  ("destinations", "sources", "ranks", "edge_ids")})  # fmt: skip
    if column == "record":
        return record
    values = getattr(record, column).copy()
    values[-1] = values[-1] - 1 if column in ("sources", "destinations") else values[-1] + 1
    return replace(record, **{column: values})


def config(backend, fanouts=(2, 3), hops=2):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig("sage", layers=hops, fanouts=list(fanouts)),
        backend=backend,
        training=TrainingConfig(),
        scenario=ScenarioConfig("flatten"),
        threads=2,
    )


GRAPH = replace(awkward_graph(2, weighted=True), node_ids=np.random.default_rng(3).permutation(1000)[:40])


@pytest.mark.parametrize("sink", ["disk", "none"])
@pytest.mark.parametrize(
    ("fanouts", "options"),
    [
        ((), {}),
        ((2, 3), {}),
        ((3, 1), {"scope": "target"}),
        ((), {"sampler": "weighted(3)"}),
        ((), {"sampler": "uniform(3, seed=7)"}),
        ((), {"sampler": "topk(by=weight, limit=2, reverse=true)"}),
        ((), {"sampler": "uniform(2, replacement=true)", "filter": "weight > 0.8"}),
        ((2, 2), {"features": "shared"}),
    ],
    ids=str,
)
def test_right_records_pass(fanouts, options, sink):
    parity = verify_flattening(config(AglConfig(sink=sink, **options), fanouts), GRAPH)
    assert len(parity) == 2 and parity["small graph"]["targets"] == 60
    assert all(0 < counts["targets"] < counts["nodes"] and counts["edges"] > 0 for counts in parity.values())


UNUSUAL = replace(
    GRAPH,
    features=GRAPH.features + np.float32(20),
    node_types=np.full(GRAPH.nodes, 7, dtype=np.int32),
    edge_weights=GRAPH.edge_weights + np.float32(20),
    edge_types=np.full(GRAPH.csr.nnz, 7, dtype=np.int32),
    edge_features=GRAPH.edge_weights[:, np.newaxis] + np.float32(20),
)


@pytest.mark.parametrize(
    "options",
    [
        {"sampler": "weighted(by=feature[0], limit=3)"},
        {"filter": "weight > 10"},
        {"filter": "feature[0] > 10 and type == 7"},
        {"filter": "neighbor.feature[0] > 10 and neighbor.type == 7"},
    ],
    ids=str,
)
def test_samplers_and_filters_find_the_values_of_the_graph_in_the_small_one(options):
    parity = verify_flattening(config(AglConfig(**options)), UNUSUAL)
    assert all(0 < counts["targets"] < counts["nodes"] and counts["edges"] > 0 for counts in parity.values())


def test_a_graph_without_edges_has_no_values_to_draw():
    nothing = np.zeros(0, dtype=np.int64)
    bare = replace(GRAPH, csr=csr_from_edges(nothing, nothing, GRAPH.csr.shape), edge_weights=np.zeros(0, np.float32))
    parity = verify_flattening(config(AglConfig(sink="none")), bare)
    assert parity["small graph"]["edges"] > 0 and sum(counts["edges"] == 0 for counts in parity.values()) == 1


@pytest.mark.parametrize("features", ["embedded", "shared"])
def test_right_records_of_a_graph_without_features_pass(features):
    parity = verify_flattening(config(AglConfig(features=features)), replace(GRAPH, features=None))
    assert parity["small graph"]["targets"] == 60


@pytest.mark.parametrize(
    "column",
    [
        "nodes",
        "distance",
        "degrees",
        "features",
        "destinations",
        "sources",
        "ranks",
        "edge_ids",
        "edge",
        "record",
        "twice",
    ],
)
def test_wrong_records_are_caught(column):
    with pytest.raises(Incorrect, match=r"agl disagrees with the definition on small graph: .+") as caught:
        verify_flattening(config(WrongConfig(column=column)), GRAPH)
    assert set(caught.value.parity) == {"small graph"}
    words = {"edge": "destinations", "record": "records are missing", "twice": "1 records are stored more than once"}
    named = words.get(column, column.replace("_", " "))
    assert named in str(caught.value) or column == "nodes"


@dataclass
class OtherWorkConfig(WrongConfig):
    """GraphFlat with other work than it was asked for."""

    runtimes: ClassVar[dict[str, str]] = {"flatten": f"{__name__}:OtherWorkFlattener"}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("half the fanouts", r"samples fanouts \(2, 2\) instead of \(4, 4\)"),
        ("another seed", "samples by seed 1 instead of 0"),
        ("from fewer edges", "samples from other edges than those that pass"),
    ],
)
def test_an_engine_that_truly_stores_other_work_is_caught(column, message):
    with pytest.raises(Incorrect, match=message):
        verify_flattening(config(OtherWorkConfig(column=column), fanouts=(4, 4)), GRAPH)


def test_a_call_without_a_sink_that_leaves_out_targets_is_caught():
    with pytest.raises(Incorrect, match="the call counted 30 records instead of 60"):
        verify_flattening(config(WrongConfig(column="targets", sink="none")), GRAPH)


def test_a_wrong_flattener_is_incorrect_and_never_timed(tmp_path):
    session = Session.__new__(Session)
    session.config, session.graph = config(WrongConfig(column="ranks")), GRAPH
    session.scenario = scenario_class("flatten")(session.config, GRAPH)
    session.scenario.prepare(Clock(), None)
    with pytest.raises(CellFailed) as failed:
        session._verify()
    assert failed.value.status == "incorrect" and failed.value.parity["small graph"]["targets"] == 60
