"""DGL's options, its import without side effects, and its sampler on int32 graphs."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from backends.batches import BatchPlan
from backends.dgl.config import DglConfig
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import runtime
from harness.measure.clock import Clock
from tests.graphs import awkward_graph

ROOT = Path(__file__).resolve().parents[3]


def test_more_than_two_workers_are_refused():
    with pytest.raises(ValueError, match=r"backend\.workers=3 is not allowed: one of 0, 1, 2"):
        DglConfig(workers=3)


@pytest.mark.needs_dgl
def test_importing_the_engine_prints_nothing_and_leaves_the_home_folder_alone(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "DGLBACKEND"}
    command = [sys.executable, "-W", "ignore", "-c", "import backends.dgl.backend"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment | {"HOME": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.needs_dgl
def test_measuring_libxsmm_leaves_its_flag_as_it_was():
    from backends.dgl.quiet import dgl, libxsmm_effect

    before = dgl.is_libxsmm_enabled()
    try:
        for flag in (False, True):
            dgl.use_libxsmm(flag)
            effect = libxsmm_effect(nodes=64, degree=4, width=8)
            assert effect["enabled"] is flag is bool(dgl.is_libxsmm_enabled())
            assert effect["seconds_with"] > 0 < effect["seconds_without"]
    finally:
        dgl.use_libxsmm(before)


@pytest.mark.needs_dgl
def test_every_sampled_block_holds_all_edges_of_its_destinations():
    import torch

    from backends.dgl.quiet import dgl, graph_of
    from backends.dgl.sampling import NeighbourSampler

    csr = awkward_graph(1, nodes=500, edges=3000).csr
    graph, sampler = graph_of(csr), NeighbourSampler([-1, -1])
    draw = np.random.default_rng(0)
    for _ in range(8):
        seeds = torch.from_numpy(draw.permutation(500)[:20].astype(np.int32))
        _, _, blocks = sampler.sample(graph, seeds)
        assert blocks[-1].dstdata[dgl.NID].tolist() == seeds.tolist()
        for block in blocks:
            assert block.idtype == torch.int32
            source, destination = block.edges(order="eid")
            edges = block.edata[dgl.EID].numpy()
            nodes = block.srcdata[dgl.NID].numpy()
            np.testing.assert_array_equal(csr.indices[edges], nodes[source.numpy()])
            np.testing.assert_array_equal(csr.destinations[edges], nodes[destination.numpy()])
            assert len(np.unique(edges)) == csr.in_degrees[block.dstdata[dgl.NID].numpy()].sum()


@pytest.mark.needs_dgl
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_blocks_of_layerwise_inference_are_sampled_before_its_passes(model):
    graph = awkward_graph(3)
    spec, nodes = ModelSpec(model, 2, graph.width, 5, graph.classes), np.arange(graph.nodes)
    engine, state = runtime(DglConfig(infer="layerwise"), "infer"), initial_state(spec, 0)
    engine.prepare(graph, spec, TrainingSpec(threads=1), state, BatchPlan(nodes, 7), Clock())
    structures, others = ([block.structure for block in engine.blocks()] for _ in range(2))
    assert len(structures) == 6
    assert all(one is other for one, other in zip(structures, others, strict=True))
    np.testing.assert_array_equal(engine.infer(Clock()), engine.infer(Clock()))
    engine.close()
