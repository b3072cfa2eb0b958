"""The typed graph with OGBN-MAG's counts: its schema is the guide's, its relations are simple, types are contiguous."""

from dataclasses import asdict

import numpy as np
import pytest
import yaml

from datasets.registry import load_dataset
from datasets.synthetic.mag import EDGES, NODES, ORDER, MagOptions
from harness.planning.compose import CONF

SMALL = {"scale": 0.002, "features": 3}


def test_counts_are_published_ones_by_type(tmp_path):
    graph = load_dataset("lookalike_mag", SMALL, tmp_path)
    assert graph.schema.node_types == tuple(NODES)
    assert [relation.name for relation in graph.schema.relations] == list(ORDER)
    assert np.bincount(graph.node_types).tolist() == [round(count * 0.002) for count in NODES.values()]
    assert (np.diff(graph.node_types) >= 0).all()
    per_relation = dict(zip(ORDER, np.bincount(graph.edge_types).tolist(), strict=True))
    for (_, name, _), count in EDGES.items():
        assert per_relation[name] == per_relation[f"rev-{name}"] == round(count * 0.002)
    assert sum(NODES.values()) == 1_939_743
    assert 2 * sum(EDGES.values()) == 42_222_014


def test_edges_of_a_relation_connect_its_types_and_are_distinct(tmp_path):
    graph = load_dataset("lookalike_mag", SMALL, tmp_path)
    for number, relation in enumerate(graph.schema.relations):
        chosen = graph.edge_types == number
        sources, destinations = graph.csr.indices[chosen], graph.csr.destinations[chosen]
        for ends, kind in ((sources, relation.source), (destinations, relation.destination)):
            assert (graph.node_types[ends] == graph.schema.node_types.index(kind)).all()
        assert len(np.unique(sources.astype(np.int64) * graph.nodes + destinations)) == chosen.sum()
    papers = graph.node_types == graph.schema.node_types.index("paper")
    assert ((graph.labels >= 0) == papers).all()


def test_the_configuration_has_the_generators_defaults():
    values = yaml.safe_load((CONF / "dataset" / "lookalike_mag.yaml").read_text())
    assert values["options"] == asdict(MagOptions())


def test_a_seed_names_one_graph_and_bad_options_are_refused(tmp_path):
    first, again = (load_dataset("lookalike_mag", SMALL, tmp_path) for _ in range(2))
    assert first.sha256 == again.sha256 != load_dataset("lookalike_mag", SMALL | {"seed": 1}, tmp_path).sha256
    for options in ({"scale": 0}, {"scale": 2}, {"features": -1}):
        with pytest.raises(ValueError, match="lookalike_mag with"):
            load_dataset("lookalike_mag", options, tmp_path)
