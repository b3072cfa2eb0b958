"""Scenario ``flatten`` through the harness: counts of both sinks, options, no file left behind."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from backends.agl.flat import drivers
from backends.registry import config_class
from harness.measure.clock import Clock
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.scenario import scenario_class
from tests.graphs import awkward_graph


def run(monkeypatch, folder, graph=None, fanouts=(), training=None, limit=None, **options):
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    config = RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig("sage", layers=2, fanouts=list(fanouts)),
        backend=config_class("agl")(**options),
        training=TrainingConfig(**(training or {})),
        scenario=ScenarioConfig("flatten"),
        threads=1,
    )
    scenario = scenario_class("flatten")(config, graph or awkward_graph(2, weighted=True))
    scenario.prepare(Clock(), limit)
    scenario.run(0, Clock())
    scenario.run(1, Clock())
    facts = scenario.engine.facts()
    assert scenario.metrics() is None and scenario.accuracy(print) == {}
    scenario.close()
    assert list(Path(folder).iterdir()) == []
    return facts


def test_both_sinks_count_alike(monkeypatch, tmp_path):
    disk, null = (run(monkeypatch, tmp_path, fanouts=[2, 4], sink=sink) for sink in ("disk", "none"))
    for name in ("records", "nodes", "edges", "embedded_bytes", "duplication"):
        assert disk[name] == null[name]
    assert disk["records"] == 39 and disk["records_per_second"] > 0 and disk["file_bytes"] > disk["embedded_bytes"]
    shared = run(monkeypatch, tmp_path, fanouts=[2, 4], features="shared")
    assert shared["file_bytes"] < disk["file_bytes"] and shared["shared_bytes"] == disk["shared_bytes"]


@pytest.mark.parametrize("sink", ["disk", "none"])
def test_kernels_use_the_threads_of_the_cell(monkeypatch, tmp_path, sink):
    encode, counts, before = drivers.encode_neighbourhoods, set(), torch.get_num_threads()

    def encode_noted(*arguments, **options):
        counts.add(torch.get_num_threads())
        return encode(*arguments, **options)

    monkeypatch.setattr(drivers, "encode_neighbourhoods", encode_noted)
    torch.set_num_threads(3)
    try:
        run(monkeypatch, tmp_path, fanouts=[2, 4], sink=sink)
        assert counts == {1} and torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_fanouts_of_the_model_sample_unless_a_sampler_is_given(monkeypatch, tmp_path):
    full, few = (run(monkeypatch, tmp_path, fanouts=fanouts, sink="none") for fanouts in ([], [1, 1]))
    assert few["edges"] < full["edges"]
    named = run(monkeypatch, tmp_path, fanouts=[1, 1], sampler="full()", sink="none")
    assert named["edges"] == full["edges"]


def test_a_limit_takes_the_targets_of_the_first_batches(monkeypatch, tmp_path):
    assert run(monkeypatch, tmp_path, training={"batch_size": 10}, limit=2, sink="none")["records"] == 20


def test_a_column_that_the_graph_lacks_is_unsupported(monkeypatch, tmp_path):
    from backends.contract import Unsupported

    with pytest.raises(Unsupported, match="samples by 'weight'"):
        run(monkeypatch, tmp_path, awkward_graph(1), sampler="weighted(3)")


def test_a_graph_without_labels_is_flattened_whole(monkeypatch, tmp_path):
    from dataclasses import replace

    graph = replace(awkward_graph(1), labels=None, split=None)
    assert run(monkeypatch, tmp_path, graph, sink="none")["records"] == graph.nodes
    assert np.isfinite(graph.features).all()


def test_ray_has_no_sink_but_shards(monkeypatch, tmp_path):
    from backends.contract import Unsupported

    with pytest.raises(Unsupported, match=r"backend.sink=disk with backend.run_on=ray"):
        run(monkeypatch, tmp_path, run_on="ray", sink="none")
