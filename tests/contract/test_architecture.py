"""docs/architecture.md: every file and function that it names exists, and its examples run as printed."""

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import backends
from backends.batches import BatchPlan
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import MODULES, config_class, runtime
from harness.report.comparisons import dataset_comparisons
from harness.report.render.markdown import render
from harness.store.files import environment_of, find_records
from tests import factory
from tests.contract.test_parity import PlainClock, assert_equals_definition
from tests.graphs import awkward_graph

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")])
PLACE = re.compile(r"`((?:harness|backends|datasets|conf|tests|docs)/[\w/.]+)(?::([\w.]+))?`")
EXAMPLES = ("/toy", "/mine")  # files that a reader of the page adds


def places() -> list[tuple[str, str]]:
    """Files and folders that the pages name, each with a function, class or method in it, or nothing."""
    named = {place for page in PAGES for place in PLACE.findall(page.read_text())}
    return sorted(place for place in named if not any(example in place[0] for example in EXAMPLES))


@cache
def names_in(path: Path) -> set[str]:
    """Functions, classes, methods and variables of a module; methods as ``Class.method``."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = node.body if isinstance(node, ast.ClassDef) else []
            names |= {node.name, *(f"{node.name}.{part.name}" for part in inner if isinstance(part, ast.FunctionDef))}
    return names


def test_the_pages_name_places() -> None:
    assert len([name for _, name in places() if name]) > 30


@pytest.mark.parametrize(("path", "name"), places(), ids=lambda part: part or "file")
def test_a_named_place_exists(path: str, name: str) -> None:
    assert (ROOT / path).exists()
    if name:
        assert name in names_in(ROOT / path)


def example(marker: str) -> str:
    """The block of Python that contains ``marker``."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "architecture.md").read_text(), re.M | re.S)
    (block,) = [block for block in blocks if marker in block]
    return block


@pytest.fixture
def no_toy_afterwards() -> Iterator[None]:
    """Forget the toy's modules, which inline cells of later tests would count as code that they ran."""
    yield
    for name in [name for name in sys.modules if name.startswith("backends.toy")]:
        del sys.modules[name]


@pytest.mark.usefixtures("no_toy_afterwards")
def test_the_toy_engine_equals_the_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "toy"
    folder.mkdir()
    for file, marker in (("config.py", "class ToyConfig"), ("backend.py", "class ToyTrainer")):
        (folder / file).write_text(f'"""Toy."""\n{example(marker)}')
    monkeypatch.setattr(backends, "__path__", [*backends.__path__, str(tmp_path)])
    monkeypatch.setitem(MODULES, "toy", "backends.toy.config:ToyConfig")
    importlib.invalidate_caches()
    config, graph = config_class("toy")(), awkward_graph(weighted=True)
    assert config.unsupported("train", "gcn", "cpu", False)
    spec, targets = ModelSpec("gcn", 2, graph.width, 5, graph.classes), graph.nodes_of("train")
    trainer = runtime(config, "train")
    state = initial_state(spec, 0)
    trainer.prepare(graph, spec, TrainingSpec(threads=1), state, BatchPlan(targets, None), PlainClock())
    assert_equals_definition(trainer, graph, spec, targets)
    assert {spmm["nnz"] for spmm in trainer.facts()["spmm"]} == {graph.csr.nnz + graph.nodes}


def test_the_toy_page_is_written(tmp_path: Path) -> None:
    factory.write(tmp_path, factory.record("agl", seconds=0.1))
    records = list(find_records(tmp_path))
    environments = {record["environment"]: environment_of(tmp_path, record["environment"]) for _, record in records}
    names: dict = {}
    exec(example("def toy_page"), names)
    page = render(names["toy_page"](dataset_comparisons(tmp_path, records, environments)), tmp_path)
    assert re.search(r"\| agl \| 0\.1\d* \|", page) or re.search(r"\| agl \| 0\.09\d* \|", page)
