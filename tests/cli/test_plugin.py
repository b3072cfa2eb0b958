"""A package with plug-ins: built, installed into a folder, each plug-in used; then broken and conflicting packages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("plugin")
CELL = ["model=gcn", "training.batch_size=null", "measure=short", "scenario.train_to_end=false"]
SMALL_UUG = "dataset.options.nodes=500"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package of ``plugin/`` as a user would, without a network."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--no-compile", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(SOURCE)], check=True)
    return folder


def harness(folder: Path, *arguments: str, site: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run ``python -m harness`` in a folder with packages of ``site`` beside those installed."""
    path = os.pathsep.join([str(ROOT), str(site)])
    variables = os.environ | {"PYTHONPATH": path, "HARNESS_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "harness", *arguments]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=280)
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


def records(folder: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("results/*/**/seed=*.json"))]


def test_an_engine_of_ones_own_is_measured_and_measured_again_when_its_package_changes(
    site: Path, tmp_path: Path
) -> None:
    command = ["backend=toy", *CELL, SMALL_UUG, f"launcher.python={sys.executable}", "measure.limits=true"]
    harness(tmp_path, *command, site=site)
    (record,) = records(tmp_path)
    assert record["status"] == "ok" and record["parity"]
    assert record["facts"]["spmm"] and record["limits"]  # type: ignore[index]
    assert "every cell has a record" in harness(tmp_path, *command, "dry_run=true", site=site).stdout
    engine = site / "gnn_toy" / "engine.py"
    engine.write_text(engine.read_text() + "\nFASTER = True\n")
    assert "not measured here" in harness(tmp_path, *command, "dry_run=true", site=site).stdout


def test_an_engine_of_ones_own_that_is_wrong_fails_the_parity_gate(site: Path, tmp_path: Path) -> None:
    command = ["backend=toy", *CELL, SMALL_UUG, "launcher=inline", "backend.scale=1.01"]
    assert "backend toy disagrees with the definition" in harness(tmp_path, *command, site=site, code=1).stdout
    assert [record["status"] for record in records(tmp_path)] == ["incorrect"]


def test_a_data_set_of_ones_own(site: Path, tmp_path: Path) -> None:
    harness(tmp_path, "backend=dummy", "dataset=ring", "dataset.options.nodes=30", "launcher=inline", *CELL, site=site)
    (record,) = records(tmp_path)
    assert record["dataset"]["counts"]["nodes"] == 30  # type: ignore[index]


def test_an_order_of_ones_own(site: Path, tmp_path: Path) -> None:
    harness(tmp_path, "backend=dummy", "order=backwards", SMALL_UUG, "launcher=inline", *CELL, site=site)
    (record,) = records(tmp_path)
    assert record["status"] == "ok" and record["config"]["order"]["name"] == "backwards"  # type: ignore[index]
    (folder,) = (tmp_path / "cache/prepared").glob("*/backwards-*")
    assert folder.is_dir()


def test_a_suite_of_ones_own(site: Path, tmp_path: Path) -> None:
    done = harness(tmp_path, "+suite=toy_ring", "measure=short", "scenario.train_to_end=false", site=site)
    assert [record["status"] for record in records(tmp_path)] == ["ok"] * 4
    assert "toy order=backwards" in done.stdout
    harness(tmp_path, "report", site=site)
    # Only engines of one's own have a row here, compared with the fastest peer.
    assert "| gcn, 2 layers (toy" in (tmp_path / "reports/epochs.md").read_text()


def test_plug_ins_are_listed_and_their_options_checked(site: Path, tmp_path: Path) -> None:
    listed = harness(tmp_path, "list", site=site).stdout
    lines = [" ".join(line.split()) for line in listed.splitlines()]
    for text in (
        "toy installed; train, infer; gcn; cpu",
        "Ring with labels that change halfway; generated",
        "backwards Last node first.",
        "configs toy gnn_toy of package gnn-toy 0.1",
    ):
        assert any(text in line for line in lines), text
    for override, words in (
        ("backend.form=row", "backend.form=row is not allowed: choose product, rows; did you mean 'rows'?"),
        ("+dataset.options.nodez=3", "allowed are nodes; did you mean 'nodes'?"),
    ):
        refused = harness(tmp_path, "backend=toy", "dataset=ring", *CELL, override, site=site, code=2)
        assert words in refused.stderr


def offer(site: Path, name: str, source: str, *points: str) -> Path:
    """Put a package with entry points into a folder; return the package's own folder."""
    package, info = site / name, site / f"{name}-1.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(source)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text("\n".join(points))
    return package


def test_a_broken_package_is_named_and_breaks_no_other_command(tmp_path: Path) -> None:
    site = tmp_path / "site"
    package = offer(site, "broken", "raise RuntimeError('boom')", "[gnn_harness.backends]", "bad = broken:Config")
    (package / "conf/backend").mkdir(parents=True)
    listed = " ".join(harness(tmp_path, "list", "backends", "plugins", site=site).stdout.split())
    words = "backend 'bad', broken:Config of package broken 1, cannot be imported: RuntimeError: boom"
    assert f"bad broken: {words}" in listed and "agl installed" in listed
    harness(tmp_path, "backend=dummy", SMALL_UUG, "launcher=inline", *CELL, site=site)
    harness(tmp_path, "report", site=site)
    points = site / "broken-1.dist-info/entry_points.txt"
    points.write_text(f"{points.read_text()}\n[gnn_harness.configs]\nbad = broken\n")
    (package / "conf/backend/bad.yaml").write_text("defaults:\n  - /schema/backend/bad@_here_\nname: bad\n")
    assert words in harness(tmp_path, "backend=bad", site=site, code=2).stderr


def test_a_name_that_is_taken_is_an_error_that_names_both(tmp_path: Path) -> None:
    site = tmp_path / "site"
    package = offer(site, "mine", "", "[gnn_harness.configs]", "mine = mine")
    (package / "conf/dataset").mkdir(parents=True)
    (package / "conf/dataset/cora.yaml").write_text("name: cora\n")
    refused = harness(tmp_path, "dataset=cora", site=site, code=2).stderr
    assert "mine of package mine 1, has a file dataset/cora.yaml, as has gnn-harness" in refused
    (site / "mine-1.dist-info/entry_points.txt").write_text("[gnn_harness.backends]\nagl = mine:Config\n")
    refused = harness(tmp_path, "list", site=site, code=2).stderr
    assert "backend 'agl', mine:Config of package mine 1, has the name of backends.agl.config:AglConfig" in refused
