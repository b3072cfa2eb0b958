"""Every engine's aggregation alone against the float64 definition: output and the gradient of each operand."""

from importlib.util import find_spec

import numpy as np
import pytest

from backends.ablation import resolve
from backends.dgl.config import VARIANTS as DGL
from backends.model import ModelSpec, TrainingSpec
from backends.pyg.config import VARIANTS as PYG
from backends.reference.config import VARIANTS as REFERENCE
from backends.reference.definition import products
from backends.registry import MODULES, config_class, runtime
from tests.contract.test_parity import PlainClock, errors
from tests.graphs import awkward_graph

VARIANTS = [
    ("blocksparse", {}),
    *[("reference", {"variant": name}) for name in REFERENCE],
    *[pytest.param(("dgl", {"variant": name}), marks=pytest.mark.needs_dgl) for name in DGL],
    *[
        pytest.param(("pyg", {"variant": name}), marks=pytest.mark.needs_pyg)
        for name in PYG
        if name not in ("compile", "torch_sparse")
    ],
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("engine", VARIANTS, ids=str)
def test_output_and_gradients_equal_the_definition(engine, model, heads, weighted):
    backend, options = engine
    config = resolve(config_class(backend)(**options), [])
    if config.unsupported("spmm", model, "cpu", True):
        return
    graph = awkward_graph(2, weighted=weighted and model == "gcn")
    spec = ModelSpec(model, 1, 10, 10, 10, heads=heads)
    multiplier = runtime(config, "spmm")
    multiplier.prepare(graph, spec, TrainingSpec(threads=1, seed=4), PlainClock())
    multiplier.multiply(PlainClock())
    multiplier.multiply(PlainClock())  # gradients must not add up
    out, gradients = multiplier.products()
    expected_out, expected = products(graph, spec, 4)
    assert np.abs(out - expected_out).max() <= 1e-5 * np.abs(expected_out).max()
    assert gradients.keys() == expected.keys()
    assert max(errors(gradients, expected).values()) <= 2e-5
    assert [spmm["width"] for spmm in multiplier.facts()["spmm"]] == [10 * (heads if model == "gat" else 1)] * 2
    multiplier.release()
    out, gradients = multiplier.products()
    assert not out.size and not gradients
    if "variant" in options:
        details = {"pyg": {"product": True}, "dgl": {"weighted": graph.edge_weights is not None}}.get(backend, {})
        assert multiplier.facts()["variant"] == config.variant_for(model, **details)
    multiplier.close()


@pytest.mark.parametrize(
    ("backend", "variant", "models"),
    [
        ("reference", "usual", {"gcn", "sage", "gat"}),
        ("reference", "csr", {"gcn", "sage"}),
        ("reference", "scatter", {"gcn", "sage", "gat"}),
        ("dgl", "weighted", {"gcn"}),
        ("pyg", "scatter", {"gcn", "sage", "gat"}),
        ("pyg", "csr", {"gcn", "sage"}),
        ("pyg", "compile", set()),
    ],
)
def test_a_variant_that_does_not_implement_a_model_is_refused(backend, variant, models):
    config = config_class(backend)(variant=variant)
    refused = {model: config.unsupported("spmm", model, "cpu", True) for model in ("gcn", "sage", "gat")}
    assert {model for model, message in refused.items() if message is None} == models
    assert all(message is None or "set backend.variant=" in message for message in refused.values())


def test_a_missing_package_is_named():
    message = config_class("pyg")(variant="torch_sparse").missing()
    assert message is None if find_spec("torch_sparse") else "torch_sparse" in message


def test_every_engine_that_multiplies_is_tested_here():
    tested = {getattr(item, "values", [item])[0][0] for item in VARIANTS}
    assert tested == {name for name in MODULES if "spmm" in config_class(name).runtimes}
