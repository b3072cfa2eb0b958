"""The gate runs the engine with options that fit its graphs, whose nodes may be fewer than the cell's row blocks."""

from dataclasses import replace

import numpy as np
import pytest

from backends.ablation import AblationError, resolve
from backends.blocksparse.config import BlocksparseConfig
from harness.planning.cells import resolve_cell
from harness.planning.compose import compose_one
from harness.planning.config import load
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.usage import UsageError
from harness.verify import gate_of
from harness.verify.graphs import small_graph


def cell(scenario="train", **options):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig("gcn", hidden=8),
        backend=resolve(BlocksparseConfig(**options), []),
        training=TrainingConfig(dropout=0.0),
        scenario=ScenarioConfig(scenario),
        threads=2,
    )


@pytest.mark.parametrize("options", [{"replay": [2, 8, 64]}, {"replay": [4, 8], "replication": 2}], ids=["1D", "1.5D"])
def test_models_of_more_ranks_than_the_gates_nodes_pass(options):
    config = cell(**options, link=[1.25e8, 5e-5])
    gate_of("train")(config, small_graph("multiclass", 4, weighted=False, nodes=150))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"exchange": "broadcast"}, "backend.exchange=broadcast is an option of ranks, and backend.ranks=1"),
        ({"overlap": True}, "backend.overlap=True is an option of ranks"),
        ({"bounds": "parts"}, "backend.bounds=parts is an option of ranks"),
        ({"link": [1e9, 1e-3]}, "backend.link=.* is an option of ranks"),
        ({"link": [1e9], "ranks": 2}, "backend.link=.* is not allowed: .bytes per second, seconds.*, or"),
        ({"link": [1.0, 0.0], "ranks": 2}, "from 1000 on and from 0 to 10, or"),
        ({"link": [1e9, 1e9], "ranks": 2}, "from 1000 on and from 0 to 10, or"),
        ({"link": [float("nan"), 0.0], "ranks": 2}, "backend.link=.* is not allowed"),
        ({"forms": "panels", "panels": "false"}, "backend.forms=panels is not allowed with backend.panels=false"),
        ({"forms": "tiles", "tiles": "false"}, "backend.forms=tiles is not allowed with backend.tiles=false"),
        ({"density_threshold": 0.1, "tiles": "false"}, "backend.density_threshold=0.1 is an option of tiles"),
    ],
)
def test_options_that_nothing_reads_and_networks_that_cannot_be_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        BlocksparseConfig(**options)


def test_an_ablation_that_switches_off_what_another_option_asks_for_is_refused():
    with pytest.raises(AblationError, match=r"ablation sparse: backend.forms=tiles is not allowed"):
        resolve(BlocksparseConfig(forms="tiles"), ["sparse"])


@pytest.mark.parametrize(
    ("options", "model", "device", "words"),
    [
        ({"forms": "tiles"}, "gat", "cpu", "set backend.forms=tried"),
        ({"forms": "panels"}, "gcn", "cuda", "set backend.forms=tried, or device=cpu"),
    ],
)
def test_forms_are_refused_where_no_product_has_them(options, model, device, words):
    assert words in BlocksparseConfig(**options).unsupported("train", model, device, True)
    assert BlocksparseConfig(**options).unsupported("train", "gcn", "cpu", True) is None


@pytest.mark.parametrize("options", [{}, {"exchange": "broadcast"}, {"overlap": True}])
def test_ranks_pass_where_the_slice_is_a_single_node(options):
    graph = small_graph("multiclass", 4, weighted=False, nodes=70)
    split = np.ones(70, dtype=np.int8)
    split[3] = 0  # a node without edges
    answer = gate_of("train")(cell(ranks=2, **options), replace(graph, split=split))
    assert [part["nodes"] for name, part in answer.items() if "neighbourhood" in name] == [1]


def composed(density):
    options = [] if density is None else [f"backend.density_threshold={density}"]
    return load(compose_one(["backend=blocksparse", "dataset=cora", "model=gcn", *options]))


@pytest.mark.parametrize(
    ("text", "value"), [("0.05", 0.05), ("1", 1.0), ("auto", "auto")], ids=["share", "all", "auto"]
)
def test_a_density_is_a_number_or_left_to_trials(text, value):
    density = composed(text).backend.density_threshold
    assert density == value and type(density) is type(value)
    assert resolve_cell(composed(text)).hash != resolve_cell(composed(None)).hash == resolve_cell(composed(0.35)).hash


@pytest.mark.parametrize("density", ["0", "1.01", "often"])
def test_other_densities_are_refused(density):
    with pytest.raises(
        UsageError, match=f"density_threshold={density} is not allowed: a number above 0, at most 1, or"
    ):
        composed(density)
