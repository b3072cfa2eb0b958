"""A user's sampler, named by its import path, draws the same edges in every process and every part of AGL."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from backends import kernels
from tests.backends.agl.test_chain import tables

ROOT = Path(kernels.__file__).resolve().parents[2]
SAMPLER = """from backends.kernels import EdgeSampler

lightest = EdgeSampler(lambda hashes, weight: weight, needs_weight=True)
"""
OWN = "mine.lightest(by=weight, limit=3)"
BUILT_IN = "topk(by=weight, limit=3, reverse=true)"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of AGL's commands in a folder, as a user does."""
    command = [sys.executable, "-m", f"backends.agl.{arguments[0]}", *arguments[1:]]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def shards_of(folder: Path) -> list[bytes]:
    """Contents of all shards, in order."""
    return [path.read_bytes() for path in sorted(folder.glob("part-*.parquet"))]


@pytest.mark.parametrize("run_on", ["local", pytest.param("ray", marks=pytest.mark.needs_ray)])
def test_it_draws_in_every_process(tmp_path, run_on):
    (tmp_path / "mine.py").write_text(SAMPLER)
    read = [*tables(tmp_path), "--split", "0.8,0.1,0.1", "-h", "2"]
    for name, sampling, engine in (("own", OWN, run_on), ("known", BUILT_IN, "local")):
        options = ["-s", sampling, "-o", name, "--run-on", engine, "--hub-threshold", "2"]
        done = run(tmp_path, "flat", *read, *options)
        assert done.returncode == 0, done.stderr
    assert shards_of(tmp_path / "own") == shards_of(tmp_path / "known")
    trained = run(tmp_path, "train", "-m", "gcn", "-i", "own", "-o", "model.safetensors", "-c", "epochs=1")
    assert trained.returncode == 0, trained.stderr
    scores = []
    for name, engine in (("rounds", run_on), ("hoods", "local")):
        infer = "graphinfer" if name == "rounds" else "neighbourhood"
        options = ["-o", name, "-c", f"run_on={engine}", f"infer={infer}", "hub_threshold=2"]
        done = run(tmp_path, "infer", "-m", "model.safetensors", *read[:4], *options)
        assert done.returncode == 0, done.stderr
        scores.append(np.load(tmp_path / name / "scores.npy"))
    np.testing.assert_allclose(*scores, atol=1e-5)


@pytest.mark.parametrize(
    ("sampling", "message"),
    [
        ("other.lightest(3)", "sampler='other.lightest' cannot be imported: No module named 'other'"),
        ("mine.heaviest(3)", "cannot be imported: module 'mine' has no attribute 'heaviest'"),
        ("mine.EdgeSampler(3)", "sampler='mine.EdgeSampler' is a type: give an EdgeSampler"),
        ("mine.lightest(3, replacement=true)", "mine.lightest cannot draw with replacement"),
        ("heaviest(3)", "sampler 'heaviest(3)' is unknown: allowed are uniform"),
    ],
)
def test_one_that_cannot_be_used_is_refused(tmp_path, sampling, message):
    (tmp_path / "mine.py").write_text(SAMPLER)
    done = run(tmp_path, "flat", *tables(tmp_path), "-h", "2", "-s", sampling, "--targets", "all", "-o", "flat")
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert not (tmp_path / "flat").exists()
