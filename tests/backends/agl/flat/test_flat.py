"""GraphFlat from the command line against the paper's definition in plain Python over the tables."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from backends.agl.flat.__main__ import main
from backends.agl.flat.reader import GraphFeatureReader

COUNT, ROWS = 60, 420
DRAWN = np.random.default_rng(7)
IDS = DRAWN.permutation(10**6)[:COUNT] - 1000
ENDS = DRAWN.integers(0, COUNT - 1, (2, ROWS))  # the last node is isolated, some edges are parallel or self loops
ENDS[1, :80] = 4  # a hub
NODES = {
    "id": IDS,
    "a": DRAWN.normal(size=COUNT).astype(np.float32),
    "b": DRAWN.normal(size=COUNT).astype(np.float32),
    "type": DRAWN.integers(0, 3, COUNT),
    "label": DRAWN.integers(0, 3, COUNT),
    "split": DRAWN.choice(["train", "validation", "test"], COUNT),
}
EDGES = {
    "source": IDS[ENDS[0]],
    "target": IDS[ENDS[1]],
    "weight": DRAWN.permutation(ROWS).astype(np.float32) / 8 + 1,
    "type": DRAWN.integers(0, 3, ROWS),
    "f": DRAWN.normal(size=ROWS).astype(np.float32),
    "g": DRAWN.normal(size=ROWS).astype(np.float32),
}


def write(folder: Path, ending: str, nodes=NODES, edges=EDGES) -> list[str]:
    for name, columns in (("n", nodes), ("e", edges)):
        (parquet.write_table if ending == "parquet" else csv.write_csv)(pa.table(columns), folder / f"{name}.{ending}")
    return ["-n", f"file://{folder}/n.{ending}", "-e", f"{folder}/e.{ending}", "-o", str(folder / "out")]


def in_edges(undirected: bool) -> dict[int, list[tuple[int, int]]]:
    """(edge id, source) of each node, by id."""
    by_node = defaultdict(list)
    for row, (a, b) in enumerate(ENDS.T.tolist()):
        if a != b:
            by_node[b].append((row, a))
            if undirected:
                by_node[a].append((row + ROWS, b))
    return {node: sorted(some) for node, some in by_node.items()}


def neighbourhood(target, incoming, hops, preferred, passes):
    """Nodes by (distance, number) and edges (destination, source, rank, id): what Reduce collects in ``len(hops)``."""
    distance, edges, frontier = {target: 0}, [], [target]
    for depth in range(len(hops)):
        limit = None if hops[depth] is None else max(hops[depth:])
        reached = []
        for node in sorted(frontier):
            some = [edge for edge in incoming.get(node, []) if passes(*edge)]
            for rank, (edge, source) in enumerate(
                sorted(some, key=lambda item: (preferred(item[0]), item[::-1]))[:limit]
            ):
                edges.append((node, source, rank, edge))
                if source not in distance:
                    distance[source] = depth + 1
                    reached.append(source)
        frontier = reached
    nodes = sorted(distance, key=lambda node: (distance[node], node))
    place = {node: at for at, node in enumerate(nodes)}
    edges.sort(key=lambda edge: (place[edge[0]], edge[2]))
    return nodes, [distance[node] for node in nodes], [(place[b], place[a], rank, edge) for b, a, rank, edge in edges]


def weight(edge: int) -> float:
    return float(EDGES["weight"][edge % ROWS])


CASES = {
    "full, 2 hops": (["-h", "2"], [None, None], lambda edge: 0, None),
    "full, 3 hops, undirected": (["-h", "3", "--undirected"], [None] * 3, lambda edge: 0, None),
    "topk by weight": (
        ["-h", "2", "-s", "topk(by=weight,limit=4);topk(by=weight,limit=2)"],
        [4, 2],
        lambda edge: -weight(edge),
        None,
    ),
    "least by an edge's feature, the deeper hop wider": (
        ["-h", "3", "-s", "topk(by=feature[1],limit=1,reverse=true);topk(by=feature[1],limit=3,reverse=true)"],
        [1, 3, 3],
        lambda edge: float(EDGES["g"][edge % ROWS]),
        None,
    ),
    "filtered by types, features and arithmetic": (
        [
            "-h",
            "2",
            "-f",
            "(type in (0, 2) OR neighbor.type == 1) AND 2 < weight * 2 < 80 and neighbor.feature[1] > -1",
        ],
        [None, None],
        lambda edge: 0,
        lambda edge, source: (
            (EDGES["type"][edge % ROWS] in (0, 2) or NODES["type"][source] == 1)
            and 2 < weight(edge) * 2 < 80
            and NODES["b"][source] > -1
        ),
    ),
}


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("case", CASES)
def test_records_are_the_definition_over_the_tables(tmp_path, case, ending):
    more, hops, preferred, passes = CASES[case]
    arguments = [*write(tmp_path, ending), "--edge-features", "f", "g", "--shard-records", "13", *more]
    assert main(arguments) == 0
    incoming = in_edges("--undirected" in more)
    degrees = {node: len(some) for node, some in incoming.items()}
    weighted = {node: sum(weight(edge) for edge, _ in some) for node, some in incoming.items()}
    seen = []
    for records in GraphFeatureReader(tmp_path / "out").batches(7, seed=1):
        for at in range(len(records)):
            record = records.graph_feature(at)
            target = int(np.flatnonzero(record.nodes[0] == IDS)[0])
            seen.append(target)
            nodes, distance, edges = neighbourhood(target, incoming, hops, preferred, passes or (lambda *edge: True))
            assert record.nodes.tolist() == IDS[nodes].tolist() and record.distance.tolist() == distance
            stored = zip(record.destinations, record.sources, record.ranks, record.edge_ids, strict=True)
            assert [tuple(map(int, edge)) for edge in stored] == edges
            assert record.degrees.tolist() == [degrees.get(node, 0) for node in nodes]
            mine = slice(*records.node_bounds[at : at + 2])
            assert np.allclose(records.weighted_degrees[mine], [weighted.get(node, 0) for node in nodes])
            assert np.array_equal(records.features[mine], np.stack([NODES["a"], NODES["b"]], axis=1)[nodes])
            rows = np.array([edge for *_, edge in edges], dtype=int) % ROWS
            ours = slice(*records.edge_bounds[at : at + 2])
            assert np.array_equal(records.edge_weights[ours], EDGES["weight"][rows])
            assert np.array_equal(records.edge_features[ours], np.stack([EDGES["f"], EDGES["g"]], axis=1)[rows])
            assert records.labels[at].tolist() == [NODES["label"][target]]
            assert ["train", "validation", "test"][records.split[at]] == NODES["split"][target]
    assert sorted(seen) == list(range(COUNT))


def drawn(tmp_path, sampling, seed=0, scope="node", hops=1) -> dict[int, list[tuple[int, int]]]:
    """(edge id, rank) of the in-edges that each target keeps."""
    folder = tmp_path / f"{abs(hash((sampling, seed, scope, hops)))}"
    folder.mkdir()
    more = ["-h", str(hops), "-s", sampling, "--seed", str(seed), "--scope", scope]
    assert main([*write(folder, "parquet"), *more]) == 0
    (records,) = GraphFeatureReader(folder / "out").batches(COUNT)
    records_of_targets = [records.graph_feature(at) for at in range(len(records))]
    number = {int(name): at for at, name in enumerate(IDS)}
    return {
        number[int(record.nodes[0])]: [
            (int(edge), int(rank))
            for edge, rank, place in zip(record.edge_ids, record.ranks, record.destinations, strict=True)
            if place == 0
        ]
        for record in records_of_targets
    }


@pytest.mark.parametrize("method", ["uniform", "weighted"])
def test_samples_hold_edges_of_their_node_nest_and_follow_the_seed(tmp_path, method):
    incoming = in_edges(False)
    small, large = drawn(tmp_path, f"{method}(3)"), drawn(tmp_path, f"{method}(6)")
    other, scoped = drawn(tmp_path, f"{method}(3)", seed=1), drawn(tmp_path, f"{method}(3)", scope="target")
    again = drawn(tmp_path, f"{method}(limit=3, replacement=true)")
    for node in range(COUNT):
        edges = [edge for edge, _ in incoming.get(node, [])]
        for sampled, limit in ((small, 3), (large, 6), (other, 3), (scoped, 3)):
            chosen = [edge for edge, _ in sampled[node]]
            assert len(set(chosen)) == len(chosen) == min(limit, len(edges)) and set(chosen) <= set(edges)
            assert [rank for _, rank in sampled[node]] == list(range(len(chosen)))
        assert small[node] == large[node][:3]
        assert len(again[node]) == (3 if edges else 0) and {edge for edge, _ in again[node]} <= set(edges)
    assert small != other and small != scoped
    assert any(len({edge for edge, _ in edges_of_node}) < len(edges_of_node) for edges_of_node in again.values())


def test_edges_are_drawn_as_often_as_their_weights_say(tmp_path):
    """Sources of 300 nodes that all hear of the same three edges' weights: 1, 2 and 5."""
    count = 300
    nodes = {"id": np.arange(count + 3), "a": np.zeros(count + 3)}
    targets = np.repeat(np.arange(count), 3)
    edges = {
        "source": np.tile(np.arange(count, count + 3), count),
        "target": targets,
        "weight": [1.0, 2.0, 5.0] * count,
    }
    for method, expected in (("uniform", [1 / 3] * 3), ("weighted", [1 / 8, 2 / 8, 5 / 8])):
        for more in ("", ", replacement=true"):
            (folder := tmp_path / f"{method}{len(more)}").mkdir()
            arguments = write(folder, "parquet", nodes, edges)
            assert main([*arguments, "-h", "1", "--targets", "all", "-s", f"{method}(limit=1{more})"]) == 0
            (records,) = GraphFeatureReader(folder / "out").batches(count + 3)
            share = np.bincount(records.edge_ids % 3, minlength=3) / count
            assert np.abs(share - expected).max() < 4 * np.sqrt(0.25 / count)
