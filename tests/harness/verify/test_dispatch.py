"""The scenario ``dispatch``: right parts pass the gate, those of DGL too, each kind of wrong ones is named."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from backends.contract import Unsupported
from backends.distpart import dispatcher
from backends.distpart.typed_graph import typed_graph
from backends.kernels.extension import extension
from backends.registry import config_class, runtime
from datasets.partition.dgl_format import TensorRows, read_graph, read_tensors, write_graph, write_tensors
from datasets.registry import load_dataset
from harness.measure.clock import Clock
from harness.measure.written_parts import broken_parts, parts_of
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig
from harness.scenario.dispatch import Dispatch
from harness.verify.dispatch import broken_edge_attributes, verify_dispatch
from harness.verify.outcome import Incorrect
from tests.backends.distpart.plain_graphs import graph_of
from tests.backends.distpart.test_assignments import assigned, task_of
from tests.graphs import awkward_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


def dispatched(name, folder, parts=3, graph=None, **options):
    graph = awkward_graph(1, 200, 700) if graph is None else graph
    engine = runtime(config_class(name)(**options), "dispatch")
    engine.prepare(graph, task_of(graph, parts), Clock())
    engine.dispatch(folder, Clock())
    return graph, engine.written()


@pytest.mark.parametrize("method", ["multilevel", "random"])
@pytest.mark.parametrize("parts", [1, 3])
def test_our_parts_are_right(method, parts, tmp_path):
    graph, written = dispatched("distpart", tmp_path / "out", parts, method=method)
    assert broken_parts(graph, written, only_sources=True) == ""
    counts = np.bincount(parts_of(written), minlength=parts)
    assert counts.sum() == graph.nodes
    assert counts.min() > 0


@pytest.mark.needs_dgl
@pytest.mark.parametrize("part_method", ["metis", "random"])
def test_the_parts_of_dgl_are_right_and_hold_more_halo_nodes(part_method, tmp_path):
    graph, written = dispatched("dgl", tmp_path / "out", part_method=part_method)
    assert broken_parts(graph, written, only_sources=False) == ""
    assert "HALO nodes are not the sources" in broken_parts(graph, written, only_sources=True)


@pytest.mark.needs_dgl
@pytest.mark.parametrize("doubled", [True, False], ids=["parallel edges", "no parallel edges"])
def test_metis_of_dgl_gets_each_edge_once(doubled, tmp_path, monkeypatch):
    from backends.dgl.quiet import dgl

    module, parallel = dgl.distributed.partition, []
    assignment = module.metis_partition_assignment

    def noted(edges, *arguments, **options):
        parallel.append(edges.is_multigraph)
        return assignment(dgl.to_simple(edges), *arguments, **options)

    monkeypatch.setattr(module, "metis_partition_assignment", noted)
    graph = awkward_graph(1, 200, 700) if doubled else graph_of(np.arange(200), np.roll(np.arange(200), 1), 200)
    graph, written = dispatched("dgl", tmp_path / "out", graph=graph)
    assert parallel == [False]
    assert module.metis_partition_assignment is noted
    assert broken_parts(graph, written, only_sources=False) == ""


@pytest.mark.needs_dgl
def test_graphs_and_parts_without_edges_are_unsupported_by_dgl(tmp_path):
    with pytest.raises(Unsupported, match="which has no edges"):
        dispatched("dgl", tmp_path / "none", graph=graph_of([], [], 40))
    with pytest.raises(Unsupported, match=r"of 2 parts of edges one has none: lower scenario\.parts"):
        dispatched("dgl", tmp_path / "one", 2, graph_of([0], [1], 40), part_method="random")


@pytest.mark.parametrize(
    "options",
    [{"method": "fennel", "passes": 3}, {"method": "ldg", "passes": 3}, {"method": "multilevel", "cycles": 3}],
    ids=str,
)
def test_parts_are_those_that_the_same_options_assign(options, tmp_path):
    graph = awkward_graph(1, 3000, 12_000)
    graph, written = dispatched("distpart", tmp_path / "out", graph=graph, **options)
    np.testing.assert_array_equal(parts_of(written), assigned(graph, task_of(graph, 3), **options))


def cell_of(engine):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig("gcn"),
        backend=config_class(engine)(),
        scenario=ScenarioConfig("dispatch", parts=3),
    )


ENGINES = ["distpart", pytest.param("dgl", marks=pytest.mark.needs_dgl)]


def with_edge_attributes(graph):
    draw, edges = np.random.default_rng(0), graph.csr.nnz
    return replace(
        graph,
        edge_weights=draw.random(edges, dtype=np.float32),
        edge_types=draw.integers(0, 4, edges).astype(np.int32),
        edge_features=draw.random((edges, 3), dtype=np.float32),
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("parts", [1, 3])
def test_attributes_of_edges_are_those_of_the_graph(engine, parts, tmp_path):
    graph = with_edge_attributes(awkward_graph(1, 200, 700))
    graph, written = dispatched(engine, tmp_path / "out", parts, graph)
    assert broken_edge_attributes(graph, written) == ""


@pytest.mark.parametrize("lost", [False, True], ids=["changed", "lost"])
@pytest.mark.parametrize("name", ["weight", "type", "feat"])
def test_wrong_attributes_of_edges_are_named(name, lost, tmp_path):
    graph, written = dispatched("distpart", tmp_path / "out", graph=with_edge_attributes(awkward_graph(1, 200, 700)))
    path = tmp_path / "out" / "part1" / "edge_feat.dgl"
    tensors = {key: np.array(array) for key, array in read_tensors(path).items()}
    column = tensors.pop(f"_N:_E:_N/{name}")
    if not lost:
        column[3] += 1
        tensors[f"_N:_E:_N/{name}"] = column
    write_tensors(path, {key: TensorRows.of(array) for key, array in tensors.items()})
    assert broken_edge_attributes(graph, written) == f"part 1: the rows of {name} are not those of its edges"


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_pass_the_gate_with_attributes_of_edges(engine):
    assert verify_dispatch(cell_of(engine), awkward_graph(1)).keys() == {
        "small graph in 1 parts",
        "small graph in 3 parts",
    }


def test_the_gate_stops_an_engine_that_loses_attributes_of_edges(monkeypatch):
    monkeypatch.setattr(dispatcher, "typed_graph", lambda graph: replace(typed_graph(graph), edge_data={}))
    with pytest.raises(Incorrect, match="part 0: the rows of weight are not those of its edges"):
        verify_dispatch(cell_of("distpart"), awkward_graph(1))


def test_maps_of_a_typed_graph_are_in_the_order_of_new_ids(tmp_path):
    graph = load_dataset("lookalike_mag", {"scale": 0.002}, tmp_path)
    graph, written = dispatched("distpart", tmp_path / "out", graph=graph)
    np.testing.assert_array_equal(np.sort(written.nodes), np.arange(graph.nodes))
    np.testing.assert_array_equal(np.sort(written.edges), np.sort(graph.csr.ids))
    parts = parts_of(written)
    np.testing.assert_array_equal(parts, np.load(tmp_path / "out" / "node_map.npy"))
    order = np.argsort(graph.csr.ids)
    at = order[np.searchsorted(graph.csr.ids, written.edges, sorter=order)]
    for part in range(3):
        stored = read_graph(tmp_path / "out" / f"part{part}" / "graph.dgl")
        rows = at[stored.edata["_ID"]]
        new = stored.ndata["_ID"]
        np.testing.assert_array_equal(written.nodes[new[stored.sources]], graph.csr.indices[rows])
        np.testing.assert_array_equal(written.nodes[new[stored.destinations]], graph.csr.destinations[rows])


def rewritten_graph(path, **changes):
    stored = read_graph(path)
    arrays = {"sources": np.array(stored.sources), "destinations": np.array(stored.destinations)}
    ndata, edata = ({k: np.array(v) for k, v in table.items()} for table in (stored.ndata, stored.edata))
    for name, change in changes.items():
        table = arrays if name in arrays else ndata if name in ndata else edata
        change(table[name])
    rows = [{k: TensorRows.of(v) for k, v in table.items()} for table in (ndata, edata)]
    write_graph(path, stored.nodes, *(TensorRows.of(array) for array in arrays.values()), *rows)


def swap(array):
    other = np.flatnonzero(array != array[0])[0]
    array[0], array[other] = array[other], array[0]


def disown(array):
    array[0] = 0


def rewritten_attribute(path, name):
    tensors = {name: np.array(array) for name, array in read_tensors(path).items()}
    tensors[f"_N/{name}"][3] = 1 - tensors[f"_N/{name}"][3]
    write_tensors(path, {name: TensorRows.of(array) for name, array in tensors.items()})


def go_beyond(array):
    array[-1] = 1 << 40


WRONG = {
    "has source 1099511627776": lambda folder: rewritten_graph(folder / "graph.dgl", sources=go_beyond),
    "a HALO node is none of": lambda folder: rewritten_graph(folder / "graph.dgl", _ID=go_beyond),
    "other ends": lambda folder: rewritten_graph(folder / "graph.dgl", sources=swap),
    "owned nodes": lambda folder: rewritten_graph(folder / "graph.dgl", inner_node=disown),
    "edges are not those": lambda folder: rewritten_graph(folder / "graph.dgl", inner_edge=disown),
    **{
        f"rows of {name}": partial(lambda name, folder: rewritten_attribute(folder / "node_feat.dgl", name), name)
        for name in ("feat", "label", "train_mask", "val_mask")
    },
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_parts_are_named(what, tmp_path):
    graph, written = dispatched("distpart", tmp_path / "out")
    WRONG[what](tmp_path / "out" / "part1")
    assert what in broken_parts(graph, written, only_sources=True)


def test_wrong_maps_are_named(tmp_path):
    graph, written = dispatched("distpart", tmp_path / "out")
    for name in ("nodes", "edges"):
        ids = getattr(written, name).copy()
        ids[0] = ids[1]
        assert f"the map of {name} is not one to one" in broken_parts(
            graph, replace(written, **{name: ids}), only_sources=True
        )


def test_maps_of_the_cells_own_graph_are_checked_before_its_quality_is_counted(tmp_path):
    graph, written = dispatched("distpart", tmp_path / "out")
    scenario = Dispatch(cell_of("distpart"), graph)
    scenario.engine = SimpleNamespace(written=lambda: written, facts=dict, close=lambda: None)
    assert scenario.facts()["partition"]["parts"] == 3
    repeated = replace(written, nodes=np.concatenate((written.nodes[1:2], written.nodes[1:])))
    scenario.engine.written = lambda: repeated
    with pytest.raises(ValueError, match=r"parts of .* are wrong: the map of nodes is not one to one"):
        scenario.facts()
    scenario.close()
