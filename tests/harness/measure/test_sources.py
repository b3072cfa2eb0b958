"""Freshness: a record is current while the code that its own process had loaded is unchanged."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backends.kernels.extension import extension
from harness.measure import sources
from harness.measure.sources import ROOT, is_current, loaded_modules, with_sources

LONG_AGO = time.time() - 24 * 3600
# Imports of a cell: an engine, the kernels with their extension, a part of the harness, and a plug-in.
LOADED = """
import importlib, json, sys
sys.meta_path = [finder for finder in sys.meta_path if isinstance(finder, type)]  # without those of editable installs
for name in {names}:
    importlib.import_module(name)
from harness.measure.sources import loaded_modules
print(json.dumps(loaded_modules({packages})))
"""


def settle(folder):
    """Date all files before this process began, as they are when a run starts."""
    for path in folder.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A copy of the code."""
    root = tmp_path / "checkout"
    for folder in ("backends", "datasets", "harness"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in Path(extension.__file__).parent.glob("_native*.so"):  # built into the checkout or into site-packages
        shutil.copy(file, root / "backends" / "kernels")
    plugin = root / "plugins" / "toy"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text("")
    (plugin / "backend.py").write_text("SPEED = 1\n")
    settle(root)
    monkeypatch.setattr(sources, "ROOT", root)
    monkeypatch.syspath_prepend(str(root / "plugins"))
    yield root
    sources.forget_digests()


def loaded(root, *names, packages=()):
    """Modules that a process of a checkout has after some imports."""
    environment = os.environ | {"PYTHONPATH": f"{root}:{root / 'plugins'}"}
    command = [sys.executable, "-c", LOADED.format(names=names, packages=packages)]
    answer = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


def is_current_now(environment):
    """Whether an environment is current for a process that starts now."""
    sources.forget_digests()
    return is_current(environment)


def edit(path, old, new):
    """Edit a file as if long before this process began, but after its last edit."""
    text, then = path.read_text(), path.stat().st_mtime + 1.0
    assert old in text
    path.write_text(text.replace(old, new, 1))
    os.utime(path, (then, then))


@pytest.fixture
def measured(checkout):
    """The environment of a cell of a peer that ran in the checkout."""
    modules = loaded(checkout, "backends.pyg.config", "backends.batches", "harness.scenario", "harness.measure.clock")
    return with_sources({"checked": {"threads": 1}, "machine": {}}, modules)


def test_the_loaded_modules_of_engines_data_and_the_timed_part_count(measured):
    assert {"backends.pyg.config", "backends.batches", "harness.scenario", "harness.measure.clock"} <= set(
        measured["modules"]
    )
    assert not {"backends.agl.config", "harness.measure.sources", "harness.store.files"} & set(measured["modules"])
    assert is_current_now(measured) and measured["checked"]["threads"] == 1


@pytest.mark.parametrize(
    ("module", "added", "current"),
    [
        ("backends/pyg/config.py", "# a comment", True),
        ("backends/pyg/config.py", "MORE = 1", False),
        ("backends/batches.py", "MORE = 1", False),
        ("harness/scenario/__init__.py", "MORE = 1", False),
        ("harness/measure/clock.py", "MORE = 1", False),
        ("backends/agl/config.py", "MORE = 1", True),  # not loaded
        ("harness/measure/cache.py", "MORE = 1", True),  # not inside the clock
    ],
)
def test_only_the_code_of_loaded_modules_makes_a_record_stale(checkout, measured, module, added, current):
    assert is_current_now(measured)
    edit(checkout / module, "\n", f"\n\n{added}\n")
    assert is_current_now(measured) is current


def test_code_edited_while_a_run_measures_is_not_taken_for_the_code_that_ran(checkout, measured):
    module = checkout / "backends" / "batches.py"
    assert is_current_now(measured)
    module.write_text("MORE = 1\n")
    assert not is_current_now(measured)
    later = with_sources({"checked": {}}, {"backends.batches": str(module)})
    assert later["modules"]["backends.batches"].startswith("edited while process")


def test_a_docstring_makes_no_record_stale(checkout, measured):
    edit(checkout / "backends" / "batches.py", '"""', '"""In other words: ')
    assert is_current_now(measured)


def test_a_moved_module_is_stale(checkout, measured):
    (checkout / "backends" / "batches.py").rename(checkout / "backends" / "plans.py")
    assert not is_current_now(measured)


def test_a_module_that_became_a_package_of_the_same_code_is_current(checkout, measured):
    (checkout / "backends" / "batches").mkdir()
    (checkout / "backends" / "batches.py").rename(checkout / "backends" / "batches" / "__init__.py")
    assert is_current_now(measured)


def test_a_record_of_unknown_code_is_stale():
    assert not is_current({"checked": {"sources": "0123456789abcdef"}})
    assert is_current(with_sources({"checked": {}}, {}))


def test_plug_ins_count_and_only_those_of_the_cell(checkout):
    modules = loaded(checkout, "toy.backend", "backends.batches", packages=("toy",))
    assert "toy.backend" in modules and "toy.backend" not in loaded(checkout, "toy.backend")
    environment = with_sources({"checked": {}}, modules)
    assert is_current_now(environment)
    edit(checkout / "plugins" / "toy" / "backend.py", "SPEED = 1", "SPEED = 1  # the first")
    assert is_current_now(environment)
    edit(checkout / "plugins" / "toy" / "backend.py", "SPEED = 1", "SPEED = 2")
    assert not is_current_now(environment)


def test_native_kernels_count_by_the_tokens_of_their_sources(checkout):
    environment = with_sources({"checked": {}}, loaded(checkout, "backends.kernels.native"))
    native = [name for name in environment["modules"] if name.startswith("backends.kernels._native")]
    assert native
    assert is_current_now(environment)
    source = next(iter(sorted((checkout / "backends" / "kernels" / "cpp").rglob("*.hpp"))))
    edit(source, "\n", "\n// a comment\n\n")
    assert is_current_now(environment)
    edit(source, "\n", "\nint one_more_name;\n")
    assert not is_current_now(environment)


def test_modules_are_mapped_to_their_files(checkout):
    modules = loaded(checkout, "backends.batches")
    assert modules["backends.batches"] == str(checkout / "backends" / "batches.py")


def test_imported_modules_are_listed():
    importlib.import_module("backends.registry")
    assert loaded_modules()["backends.registry"] == str(ROOT / "backends" / "registry.py")


def test_the_commit_is_that_of_this_checkout_or_none(tmp_path, monkeypatch):
    def commit():
        sources.commit.cache_clear()
        return sources.commit()

    try:
        monkeypatch.setattr(sources, "ROOT", tmp_path)
        assert commit() is None
        for command in ("init -q", "add .", "-c user.name=a -c user.email=b commit -qm first"):
            (tmp_path / "backends").mkdir(exist_ok=True)
            (tmp_path / "backends" / "one.py").write_text("a = 1\n")
            subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
        clean = commit()
        assert clean is not None and len(clean["revision"]) == 40 and not clean["dirty"]
        (tmp_path / "backends" / "one.py").write_text("a = 2\n")
        assert commit() == clean | {"dirty": True}
        (tmp_path / ".git" / "index").write_bytes(b"damaged")
        assert commit() is None
    finally:
        sources.commit.cache_clear()
