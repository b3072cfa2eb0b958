"""AGL's command lines without Ray: an error before anything is read, and options that work without it."""

import sys
from pathlib import Path

import pytest

from backends.agl.flat import __main__ as flat
from backends.agl.infer import __main__ as infer
from backends.agl.train import __main__ as train
from tests.backends.agl.chain import chain
from tests.backends.agl.flat.test_commandline import write
from tests.backends.agl.train.test_commandline import command, shards_of
from tests.graphs import awkward_graph


@pytest.fixture
def without_ray(monkeypatch):
    """Hide Ray, its metadata and its modules."""

    class Hidden:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "ray":
                raise ModuleNotFoundError("No module named 'ray'", name="ray")

    def unknown(name: str) -> str:
        raise PackageNotFoundError(name)

    from importlib.metadata import PackageNotFoundError

    from backends.parallel import ray_cluster as cluster

    for name in [name for name in sys.modules if name.partition(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])
    monkeypatch.setattr(cluster, "version", unknown)


def last_line(capsys) -> str:
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_graphflat_says_what_to_install_or_give(tmp_path: Path, without_ray, capsys):
    arguments = write(tmp_path)
    assert flat.main([*arguments, "--run-on", "ray"]) == 2
    assert (
        last_line(capsys)
        == "error: --run-on ray needs the package ray: pip install -e '.[ray]', or give --run-on local"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.parquet", "nodes.parquet"]
    assert flat.main(arguments) == 0


def test_graphtrainer_says_what_to_install_or_give(tmp_path: Path, without_ray, capsys):
    shards_of(tmp_path / "shards", awkward_graph(4), records=8)
    settings = ("workers=2", "epochs=1")
    assert train.main(command(tmp_path, *settings, "servers=1", strategy="sync")) == 2
    assert last_line(capsys) == (
        "error: -t sync with -c servers=1 needs the package ray: pip install -e '.[ray]', or give -c servers=0"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]
    assert train.main(command(tmp_path, *settings, strategy="sync")) == 0


def test_graphinfer_says_what_to_install_or_give(tmp_path: Path, without_ray, capsys):
    files = chain(tmp_path, "gcn", "-s", "uniform(3)")
    arguments = ["-m", str(tmp_path / "model.safetensors"), *files, "-o", str(tmp_path / "scores")]
    assert infer.main([*arguments, "-c", "run_on=ray"]) == 2
    assert last_line(capsys) == (
        "error: -c run_on=ray needs the package ray: pip install -e '.[ray]', or give -c run_on=local"
    )
    assert not (tmp_path / "scores").exists() and infer.main(arguments) == 0
