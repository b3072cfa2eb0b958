"""Every engine's aggregation alone against the float64 definition: output and the gradient of each operand."""

import numpy as np
import pytest

from backends.ablation import resolve
from backends.model import ModelSpec, TrainingSpec
from backends.reference.definition import products
from backends.registry import MODULES, config_class, runtime
from tests.contract.test_parity import PlainClock, errors
from tests.graphs import awkward_graph

VARIANTS = [
    ("blocksparse", {}),
    ("reference", {"variant": "csr"}),
    ("reference", {"variant": "scatter"}),
    pytest.param(("dgl", {}), marks=pytest.mark.needs_dgl),
    pytest.param(("pyg", {"variant": "best"}), marks=pytest.mark.needs_pyg),
    pytest.param(("pyg", {"variant": "edge_index"}), marks=pytest.mark.needs_pyg),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("engine", VARIANTS, ids=str)
def test_output_and_gradients_equal_the_definition(engine, model, heads, weighted):
    backend, options = engine
    graph = awkward_graph(2, weighted=weighted and model == "gcn")
    spec = ModelSpec(model, 1, 10, 10, 10, heads=heads)
    multiplier = runtime(resolve(config_class(backend)(**options), []), "spmm")
    multiplier.prepare(graph, spec, TrainingSpec(threads=1, seed=4), PlainClock())
    multiplier.multiply(PlainClock())
    multiplier.multiply(PlainClock())  # gradients must not add up
    out, gradients = multiplier.products()
    wanted_out, wanted = products(graph, spec, 4)
    assert np.abs(out - wanted_out).max() <= 1e-5 * np.abs(wanted_out).max()
    assert gradients.keys() == wanted.keys()
    assert max(errors(gradients, wanted).values()) <= 2e-5
    assert [item["width"] for item in multiplier.facts()["spmm"]] == [10 * (heads if model == "gat" else 1)] * 2
    multiplier.close()


def test_every_engine_that_multiplies_is_tested_here():
    tested = {getattr(item, "values", [item])[0][0] for item in VARIANTS}
    assert tested == {name for name in MODULES if "spmm" in config_class(name).runtimes}
