"""Lookalikes: published counts at any scale, distinct edges, communities, notes on scaling."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from datasets.graph import Graph
from datasets.randomness import permutation
from datasets.statistics import degree_summary
from datasets.synthetic.lookalike.layout import community_layout
from datasets.synthetic.lookalike.loader import LookalikeOptions, load
from datasets.synthetic.lookalike.shapes import SHAPES

CONF = Path(__file__).resolve().parents[3] / "conf" / "dataset"
SCALES = {
    "lookalike_reddit": 0.02,
    "lookalike_proteins": 0.03,
    "lookalike_archaea": 0.005,
    "lookalike_products": 0.004,
    "lookalike_ppi": 0.2,
}


@pytest.fixture(scope="module", params=SHAPES)
def graph(request: pytest.FixtureRequest) -> Graph:
    return load(request.param, {"scale": SCALES[request.param]})


def directed_edges(name: str) -> int:
    """Published edges, both ways, without self loops."""
    published = SHAPES[name].published
    if name == "lookalike_ppi":
        return 2 * (published["edges"] - 25_084)
    return published["edges"] - published["nodes"]


@pytest.mark.parametrize("name", SHAPES)
def test_at_full_scale_the_counts_are_the_published_ones(name: str) -> None:
    plan = community_layout(SHAPES[name], 1.0, 0)
    assert plan.nodes == SHAPES[name].published["nodes"]
    assert 2 * plan.pairs == directed_edges(name)
    assert plan.inside == SHAPES[name].inside


def test_a_scaled_graph_keeps_the_mean_degree_and_the_widths(graph: Graph) -> None:
    published = SHAPES[graph.name].published
    assert abs(graph.nodes / (published["nodes"] * SCALES[graph.name]) - 1) < 0.001
    assert abs(graph.csr.nnz / graph.nodes / (directed_edges(graph.name) / published["nodes"]) - 1) < 0.001
    assert (graph.width, graph.classes) == (published["features"], published["classes"])
    assert graph.synthetic and graph.published == published
    assert graph.features is not None and np.isfinite(graph.features).all()


def test_it_is_undirected_with_distinct_edges_and_paired_ids(graph: Graph) -> None:
    csr, pairs = graph.csr, graph.csr.nnz // 2
    key = csr.destinations.astype(np.int64) * graph.nodes + csr.indices
    assert (np.diff(key) > 0).all()
    assert (csr.indices != csr.destinations).all()
    ends = np.empty((csr.nnz, 2), dtype=np.int64)
    ends[csr.ids] = np.stack((csr.indices, csr.destinations), axis=1)
    np.testing.assert_array_equal(ends[:pairs], ends[pairs:, ::-1])


def test_degrees_are_skewed_and_ids_do_not_correlate_with_them(graph: Graph) -> None:
    summary = degree_summary(graph.csr)
    assert summary["max"] > 4 * summary["mean"]
    assert summary["median"] < 0.95 * summary["mean"]
    degrees = graph.csr.in_degrees.astype(np.float64)
    assert abs(np.corrcoef(np.arange(graph.nodes), degrees)[0, 1]) < 0.05
    if graph.graph_ids is None:
        distance = np.abs(graph.csr.indices.astype(np.int64) - graph.csr.destinations) / graph.nodes
        assert abs(distance.mean() - 1 / 3) < 0.02


def test_labels_follow_communities_and_splits_their_shares(graph: Graph) -> None:
    labels, shape = graph.labels, SHAPES[graph.name]
    assert labels is not None and graph.split is not None
    sizes = np.bincount(graph.split, minlength=3) / graph.nodes
    expected = np.array(shape.split) / (shape.graphs if shape.graphs > 1 else 1)
    np.testing.assert_allclose(sizes[:2], expected, atol=0.03)
    sources, destinations = graph.csr.indices, graph.csr.destinations
    if labels.ndim == 1:
        assert set(np.unique(labels)) == set(range(graph.classes))
        by_chance = ((np.bincount(labels) / graph.nodes) ** 2).sum()
        assert (labels[sources] == labels[destinations]).mean() > 1.5 * by_chance
    else:
        assert labels.shape == (graph.nodes, graph.classes)
        shared = (labels[sources] == labels[destinations]).mean()
        assert shared > (labels == labels[::-1]).mean() + 0.05


def test_ppi_is_a_union_of_24_graphs() -> None:
    graph = load("lookalike_ppi", {"scale": 0.2})
    assert graph.inductive and graph.graph_ids is not None and graph.split is not None
    assert len(np.unique(graph.graph_ids)) == 24
    np.testing.assert_array_equal(graph.graph_ids[graph.csr.indices], graph.graph_ids[graph.csr.destinations])
    splits = [len(np.unique(graph.graph_ids[graph.split == split])) for split in (0, 1, 2)]
    assert splits == [20, 2, 2]
    assert graph.training_view().nodes == (graph.split == 0).sum()


def test_features_predict_labels_a_little() -> None:
    graph = load("lookalike_products", {"scale": 0.004})
    assert graph.features is not None and graph.labels is not None
    known = graph.split != 2
    centres = np.stack([graph.features[known & (graph.labels == label)].mean(axis=0) for label in range(47)])
    guess = np.argmax(graph.features[~known] @ centres.T - (centres**2).sum(axis=1) / 2, axis=1)
    assert 3 / 47 < (guess == graph.labels[~known]).mean() < 0.7


def test_equal_seeds_give_equal_graphs() -> None:
    options = {"scale": 0.1, "seed": 4}
    assert load("lookalike_ppi", options).sha256 == load("lookalike_ppi", options).sha256
    assert load("lookalike_ppi", options | {"seed": 5}).sha256 != load("lookalike_ppi", options).sha256


def test_notes_list_the_properties_that_scaling_changes() -> None:
    scaled = " ".join(load("lookalike_reddit", {"scale": 0.02}).notes)
    for word in ("synthetic", "tile density", "50 times", "caches", "communities are full"):
        assert word in scaled


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lookalike_redit", {}, "did you mean 'lookalike_reddit'"),
        ("lookalike_ppi", {"scales": 1}, "did you mean 'scale'"),
        ("lookalike_ppi", {"scale": 0}, "above 0 to 1"),
        ("lookalike_ppi", {"scale": 1.5}, "above 0 to 1"),
        ("lookalike_reddit", {"scale": 0.001}, "too dense"),
    ],
)
def test_misuse_says_what_is_allowed(name: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(name, options)


@pytest.mark.parametrize("name", SHAPES)
def test_the_scale_that_an_error_names_is_accepted(name: str) -> None:
    with pytest.raises(ValueError, match="too dense") as error:
        community_layout(SHAPES[name], 1e-5, 0)
    allowed = float(str(error.value).rsplit("are ", 1)[1].split(" to ")[0])
    assert load(name, {"scale": allowed}).csr.nnz == 2 * community_layout(SHAPES[name], allowed, 0).pairs


def test_every_lookalike_can_be_chosen_by_name() -> None:
    files = {
        path.stem: path for path in CONF.glob("lookalike_*.yaml") if path.stem != "lookalike_mag"
    }  # a generator apart
    written = {name: yaml.safe_load(path.read_text()) for name, path in files.items()}
    assert set(written) == set(SHAPES)
    for name, values in written.items():
        assert values["name"] == name
        assert values["options"]["scale"] == SHAPES[name].default_scale


def test_communities_and_the_edges_inside_them_can_be_asked_for() -> None:
    """Communities that are full hold fewer edges than asked for, which ``layout.inside`` says."""
    shares = {}
    for community, inside in ((500, 0.2), (500, 0.9), (100, 0.9)):
        options = {"scale": 0.03, "community": community, "inside": inside}
        graph = load("lookalike_proteins", options)
        layout = community_layout(LookalikeOptions(**options).of(SHAPES["lookalike_proteins"]), 0.03, 0)
        position = permutation(0, "lookalike id", graph.nodes)
        segments = layout.community[position]
        same = float((segments[graph.csr.indices] == segments[graph.csr.destinations]).mean())
        shares[community, inside] = same
        assert any(f"of {community} nodes, {inside:.0%} of the edges inside" in note for note in graph.notes)
        assert same >= min(inside, layout.inside) - 0.01
    assert shares[100, 0.9] < shares[500, 0.2] < shares[500, 0.9]


@pytest.mark.parametrize("options", [{"community": 3}, {"inside": 1.5}, {"inside": -0.1}], ids=str)
def test_communities_that_cannot_be_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"lookalike with {next(iter(options))}="):
        load("lookalike_proteins", options)
