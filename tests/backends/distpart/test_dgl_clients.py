"""DGL 1.1.3 reads our files: every part under its own checks, the same sets as its own partition, DistGraph trains."""

import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from backends.distpart.dispatch.job import DispatchJob, DispatchOptions
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.partition_graph import partition_graph
from tests.backends.distpart.graphs import homogeneous, stored_graph

pytestmark = pytest.mark.needs_dgl
MAKERS = {"typed": stored_graph, "homogeneous": homogeneous}


def written(graph, parts, count, folder, **options):
    numbering = Numbering.of(graph, parts.astype(np.int32), count)
    return DispatchJob(graph, numbering, folder, "toy", DispatchOptions(**options)).run()


def parts_of(graph, count):
    return np.random.default_rng(0).integers(0, count, graph.total_nodes)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("hops", [1, 2])
def test_load_partition_reads_every_part_and_they_reassemble_to_the_input(kind, count, hops, tmp_path, monkeypatch):
    from backends.dgl.quiet import dgl

    monkeypatch.setenv("DGL_DIST_DEBUG", "1")
    graph = MAKERS[kind](1)
    config = written(graph, parts_of(graph, count), count, tmp_path / "out", hops=hops)
    seen = {relation: set() for relation in graph.schema.relations}
    rows = {name: np.empty_like(graph.node_data[name]["feat"]) for name in graph.schema.node_types}
    for part in range(count):
        local, node_data, edge_data, book, name, node_types, edge_types = dgl.distributed.load_partition(
            str(config), part
        )
        assert (name, node_types) == ("toy", list(graph.schema.node_types))
        assert edge_types == [tuple(relation) for relation in graph.schema.relations]
        originals = dgl.data.utils.load_tensors(str(config.parent / f"part{part}" / "orig_nids.dgl"))
        edge_ids = dgl.data.utils.load_tensors(str(config.parent / f"part{part}" / "orig_eids.dgl"))
        inner = local.edata["inner_edge"].bool()
        kinds = local.edata["_TYPE"] if "_TYPE" in local.edata else (local.edata["_ID"] * 0)
        for number, relation in enumerate(graph.schema.relations):
            seen[relation] |= set(edge_ids[str(relation)].tolist())
            assert len(edge_ids[str(relation)]) == int((inner & (kinds == number)).sum())
            weights = edge_data[f"{relation}/weight"].numpy()
            np.testing.assert_array_equal(weights, graph.edge_data[relation]["weight"][edge_ids[str(relation)].numpy()])
        for node_type in graph.schema.node_types:
            rows[node_type][originals[node_type].numpy()] = node_data[f"{node_type}/feat"].numpy()
        assert (book.nid2partid(local.ndata["_ID"][local.ndata["inner_node"].bool()]) == part).all()
    for relation in graph.schema.relations:
        assert seen[relation] == set(range(graph.edges[relation].count))
    for node_type in graph.schema.node_types:
        np.testing.assert_array_equal(rows[node_type], graph.node_data[node_type]["feat"])


@pytest.mark.parametrize("hops", [1, 2])
def test_parts_have_the_nodes_and_edges_of_dgl_on_the_same_assignment(hops, tmp_path):
    """DGL also stores out-edges of owned nodes, whose other ends are HALO nodes there; the guide has in-edges alone."""
    import torch

    from backends.dgl.quiet import dgl
    from datasets.partition.dgl_format import read_graph

    graph, count = homogeneous(3, 60, 200), 4
    parts = parts_of(graph, count)
    config = written(graph, parts, count, tmp_path / "out", hops=hops, original_ids=True)
    (edges,) = graph.edges.values()
    sources, destinations = edges.read(0, edges.count)
    whole = dgl.graph((torch.from_numpy(sources), torch.from_numpy(destinations)), num_nodes=graph.total_nodes)
    theirs, _, _ = dgl.partition.partition_graph_with_halo(whole, torch.from_numpy(parts), hops, reshuffle=True)
    for part in range(count):
        ours, other = read_graph(config.parent / f"part{part}" / "graph.dgl"), theirs[part]
        own = {
            name: (np.asarray(table["orig_id"]), np.asarray(table[f"inner_{name}"]).astype(bool))
            for name, table in (("node", ours.ndata), ("edge", ours.edata))
        }
        of_dgl = {
            name: (table["orig_id"].numpy(), table[f"inner_{name}"].numpy().astype(bool))
            for name, table in (("node", other.ndata), ("edge", other.edata))
        }
        for name in ("node", "edge"):
            assert set(own[name][0][own[name][1]]) == set(of_dgl[name][0][of_dgl[name][1]])
        far = of_dgl["edge"][0][~of_dgl["edge"][1]]
        to_halo = far[np.isin(destinations[far], sources[parts[destinations] == part])]
        assert set(own["edge"][0][~own["edge"][1]]) == (set(to_halo) if hops == 2 else set())
        drawn_on = sources[own["edge"][0]]
        assert set(own["node"][0][~own["node"][1]]) == set(drawn_on[parts[drawn_on] != part])


def test_our_reader_reads_what_dgl_writes(tmp_path):
    import torch

    from backends.dgl.quiet import dgl
    from datasets.partition.dgl_format import read_graph, read_tensors

    graph = dgl.graph((torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])), num_nodes=4)
    graph.ndata["inner_node"] = torch.tensor([1, 1, 1, 0], dtype=torch.uint8)
    graph.edata["w"] = torch.tensor([0.5, 1, 2])
    dgl.save_graphs(str(tmp_path / "g.dgl"), [graph])
    stored = read_graph(tmp_path / "g.dgl")
    assert stored.nodes == 4
    np.testing.assert_array_equal(stored.sources, [0, 1, 2])
    np.testing.assert_array_equal(stored.ndata["inner_node"], [1, 1, 1, 0])
    np.testing.assert_array_equal(stored.edata["w"], np.float32([0.5, 1, 2]))
    dgl.data.utils.save_tensors(str(tmp_path / "t.dgl"), {"a/b": torch.arange(6).reshape(2, 3)})
    np.testing.assert_array_equal(read_tensors(tmp_path / "t.dgl")["a/b"], np.arange(6).reshape(2, 3))


TRAIN = """
    import os, sys, torch, dgl
    role, config, addresses, number = sys.argv[1:5]
    if role == "server":
        os.environ["DGL_ROLE"] = "server"
        from dgl.distributed.dist_graph import DistGraphServer
        DistGraphServer(int(number), addresses, 1, 2, config, disable_shared_mem=True).start()
        sys.exit(0)
    os.environ["DGL_DIST_MODE"] = "distributed"
    os.environ["DGL_DIST_MAX_TRY_TIMES"] = "60"
    dgl.distributed.initialize(addresses)
    book, *_ = dgl.distributed.load_partition_book(config, 0)
    graph = dgl.distributed.DistGraph("toy", gpb=book)
    nodes = torch.arange(graph.num_nodes())[int(number)::2]
    sampler = dgl.dataloading.NeighborSampler([3])
    loader = dgl.dataloading.DistNodeDataLoader(graph, nodes, sampler, batch_size=16, shuffle=False, drop_last=False)
    layer, total = dgl.nn.SAGEConv(3, 4, "mean"), 0
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for inputs, seeds, blocks in loader:
        labels = graph.ndata["label"][seeds].long()
        loss = torch.nn.functional.cross_entropy(layer(blocks[0], graph.ndata["feat"][inputs]), labels)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        total += len(seeds)
    print("trained on", total, flush=True)
    dgl.distributed.exit_client()
    os._exit(0)
"""


def test_two_servers_and_two_trainers_train_from_our_files(tmp_path):
    graph = homogeneous(2, 100, 600)
    config = written(graph, parts_of(graph, 2), 2, tmp_path / "out")
    script, addresses = tmp_path / "train.py", tmp_path / "addresses.txt"
    script.write_text(textwrap.dedent(TRAIN))
    addresses.write_text("127.0.0.1 31471\n127.0.0.1 31473\n")

    def start(role, number):
        command = [sys.executable, str(script), role, str(config), str(addresses), str(number)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=Path(tmp_path)
        )

    processes = [start("server", number) for number in range(2)]
    trainers = [start("trainer", number) for number in range(2)]
    try:
        answers = [trainer.communicate(timeout=120)[0] for trainer in trainers]
    finally:
        for process in (*processes, *trainers):
            process.kill()
    assert all("trained on 50" in answer for answer in answers), answers


def test_our_function_has_the_arguments_of_dgls():
    from backends.dgl.quiet import dgl

    functions = partition_graph, dgl.distributed.partition_graph
    ours, theirs = (list(inspect.signature(function).parameters) for function in functions)
    assert [name for name in ours if name != "threads"] == theirs
