"""PyG's options: refused values, defaults, packages that mini batches need."""

import sys

import pytest

from backends.pyg.config import PygConfig


def test_the_default_is_the_fastest_form_of_each_model():
    assert [PygConfig().variant_for(model) for model in ("gcn", "sage", "gat")] == ["csr", "csr", "edge_index"]
    assert PygConfig().variant_for("gat", mini_batches=True) == "scatter"
    assert PygConfig(variant="compile").variant_for("gat") == "compile"


@pytest.mark.parametrize(
    ("field", "value"), [("variant", "sparse"), ("workers", 3), ("loader", "cugraph"), ("infer", "half")]
)
def test_values_that_no_field_allows_are_refused_with_the_allowed_ones(field, value):
    with pytest.raises(ValueError, match=rf"backend\.{field}={value!r} is not allowed: one of"):
        PygConfig(**{field: value})


def test_mini_batches_are_not_compiled():
    config = PygConfig(variant="compile")
    assert config.unsupported("train", "gcn", "cpu", True) is None
    assert "training.batch_size=null" in config.unsupported("train", "gcn", "cpu", False)
    assert PygConfig().unsupported("train", "gcn", "cpu", False) is None
    layerwise = PygConfig(variant="compile", infer="layerwise")
    assert "backend.infer=full" in layerwise.unsupported("infer", "gcn", "cpu", True)
    assert PygConfig().unsupported("train", "gcn", "cuda:0", True) is None
    assert "training.batch_size=null" in PygConfig().unsupported("train", "gcn", "cuda:0", False)


@pytest.mark.parametrize("loader", ["auto", "neighbor_loader", "khop"])
@pytest.mark.parametrize("workers", [1, 2])
def test_loader_processes_are_refused_where_sampling_alone_has_none(workers, loader):
    message = PygConfig(workers=workers, loader=loader).unsupported("sample", "sage", "cpu", False)
    assert message == "backend pyg has no loader processes in scenario sample: set backend.workers=0"
    assert PygConfig(loader=loader).unsupported("sample", "sage", "cpu", False) is None


@pytest.fixture
def install_sampler(tmp_path, monkeypatch):
    """Make one of the two sampler packages importable, or none: an empty package in a temporary folder."""

    def install(name):
        for absent in {"pyg_lib", "torch_sparse"} - {name}:
            monkeypatch.setitem(sys.modules, absent, None)
        if name:
            (tmp_path / name).mkdir()
            (tmp_path / name / "__init__.py").touch()
            monkeypatch.syspath_prepend(tmp_path)

    return install


@pytest.mark.needs_pyg
@pytest.mark.parametrize(
    ("sampler", "trim", "named"),
    [
        (None, True, ["pyg_lib or torch_sparse", "make peers", "launcher.python", "loader=khop"]),
        (None, False, ["pyg_lib or torch_sparse"]),
        ("torch_sparse", True, []),
        ("torch_sparse", False, []),
        ("pyg_lib", True, []),
    ],
)
def test_a_mini_batch_without_its_sampler_is_not_installed(install_sampler, sampler, trim, named):
    install_sampler(sampler)
    config = PygConfig(trim=trim, loader="neighbor_loader")
    reason = config.missing(full_batch=False)
    assert config.missing(full_batch=True) is None
    assert (reason is None) == (not named)
    assert all(part in reason for part in named)


@pytest.mark.needs_pyg
@pytest.mark.parametrize(
    ("sampler", "trim", "origin"),
    [
        (None, True, "khop"),
        (None, False, "khop"),
        ("torch_sparse", True, "neighbor_loader"),
        ("torch_sparse", False, "neighbor_loader"),
        ("pyg_lib", True, "neighbor_loader"),
    ],
)
def test_neighbour_loader_makes_the_batches_where_it_can(install_sampler, sampler, trim, origin):
    install_sampler(sampler)
    config = PygConfig(trim=trim)
    assert config.batches_by == origin and config.missing(full_batch=False) is None
    assert ("train" in config.draws) == (origin == "khop")
    assert PygConfig(trim=trim, loader="khop").batches_by == "khop"
    reason = PygConfig(trim=trim, workers=2).unsupported_here("train", False)
    assert (reason is None) == (origin == "neighbor_loader")
