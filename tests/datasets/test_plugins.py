"""Entry points of other packages: listed, loaded, refused where a name is taken, named where they are broken."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend_names, config_class, usable_class
from datasets.csr import csr_from_edges
from datasets.order import order_names, permutation_of
from datasets.plugins import PluginError, conf_folders, plugins
from datasets.prepare import loader_hash
from datasets.registry import Entry, dataset_names, entry_of

SOURCE = """
def load(name, options):
    '''My graph.

    More of it.
    '''

def order(csr):
    return [1, 2, 0]
"""
CONFIG = "from backends.registry import BackendConfig\n\nclass Mine(BackendConfig):\n    name: str = 'mine'\n"
Offer = Callable[..., None]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """Install a package with entry points into a folder on the path."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(module: str, source: str, **points: str) -> None:
        monkeypatch.delitem(sys.modules, module, raising=False)
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
        groups = [f"[gnn_harness.{kind}]\n{point}\n" for kind, point in points.items()]
        (info / "entry_points.txt").write_text("".join(groups))
        plugins.cache_clear()

    plugins.cache_clear()
    yield install
    monkeypatch.undo()
    plugins.cache_clear()


def test_plug_ins_are_listed_after_our_own_names(offer: Offer) -> None:
    offer(
        "mine",
        CONFIG + SOURCE,
        backends="mine = mine:Mine",
        datasets="my_graph = mine:load",
        orders="turned = mine:order",
    )
    assert backend_names()[-1] == "mine" and config_class("mine").__module__ == "mine"
    assert dataset_names()[-1] == "my_graph"
    assert entry_of("my_graph") == Entry("mine:load", "my_graph", "My graph", kind="synthetic")
    csr = csr_from_edges(np.arange(3), np.array([1, 2, 0]), (3, 3))
    assert order_names()[-1] == "turned" and permutation_of("turned", csr).tolist() == [1, 2, 0]


def test_a_plug_in_may_be_a_registry_entry(offer: Offer) -> None:
    source = "from datasets.registry import Entry\nGRAPH = Entry('mine:load', 'mine', 'A title', ('a.npz',))\n"
    offer("mine", source, datasets="my_graph = mine:GRAPH")
    assert entry_of("my_graph").needs == ("a.npz",)


def test_a_data_set_is_prepared_again_when_its_package_changes(offer: Offer, tmp_path: Path) -> None:
    offer("mine", "def load(name, options): ...", datasets="my_graph = mine:load")
    before = loader_hash("my_graph")
    assert before not in (loader_hash("uug"), loader_hash("cora"))
    (tmp_path / "mine.py").write_text("def load(name, options): return None")
    assert loader_hash("my_graph") != before


@pytest.mark.parametrize(
    ("kind", "name", "ask", "ours"),
    [
        ("backends", "agl", backend_names, "backends.agl.config:AglConfig of gnn-harness"),
        ("datasets", "cora", dataset_names, "datasets.*planetoid:load of gnn-harness"),
        ("orders", "rcm", order_names, "datasets.order.rcm:rcm of gnn-harness"),
    ],
)
def test_a_name_of_ours_is_refused_and_both_are_named(
    kind: str, name: str, ask: Callable[[], object], ours: str, offer: Offer
) -> None:
    offer("mine", "", **{kind: f"{name} = mine:x"})
    with pytest.raises(PluginError, match=f"'{name}', mine:x of package mine 1.2, has the name of {ours}: rename one"):
        ask()


def test_a_name_of_another_package_is_refused_and_both_are_named(offer: Offer) -> None:
    offer("mine", "", backends="fast = mine:x")
    offer("yours", "", backends="fast = yours:x")
    with pytest.raises(PluginError, match=r"yours:x of package yours 1.2, has the name of mine:x of package mine 1.2"):
        backend_names()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise RuntimeError('no such luck')", "cannot be imported: RuntimeError: no such luck"),
        ("import torch_of_the_future", "cannot be imported: ModuleNotFoundError"),
        ("", "cannot be imported: AttributeError"),
        ("Mine = 3", "is no subclass of backends.registry.BackendConfig"),
        (CONFIG.replace("'mine'", "'other'"), "is named 'other' by its own field: write name: str = 'mine'"),
    ],
)
def test_a_broken_engine_is_an_error_only_where_it_is_used(source: str, words: str, offer: Offer) -> None:
    offer("mine", source, backends="mine = mine:Mine")
    assert "mine" in backend_names() and usable_class("mine") is None
    with pytest.raises(PluginError, match=rf"backend 'mine', mine:Mine of package mine 1\.2, {words}"):
        config_class("mine")


def test_a_data_set_that_is_neither_entry_nor_loader_is_refused(offer: Offer) -> None:
    offer("mine", "GRAPH = 3", datasets="my_graph = mine:GRAPH")
    with pytest.raises(PluginError, match=r"neither a datasets\.registry\.Entry nor a loader"):
        entry_of("my_graph")


def test_a_package_without_configuration_files_adds_no_folder(offer: Offer) -> None:
    offer("mine", "", configs="mine = mine")
    offer("gone", "", configs="gone = nowhere_at_all")
    assert conf_folders() == {}
