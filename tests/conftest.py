"""Environment of the tests: folder of real graphs, a temporary cache, deselection of tests that cannot run here."""

import importlib
import os
import signal
import tempfile
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
PEERS = {
    "pyg": "torch_geometric",
    "dgl": "dgl",
    "ray": "ray",
    "triton": "triton",
    "s3": "moto.server",
    "kaminpar": "kaminpar",
    "mtkahypar": "mtkahypar",
    "kahip": "kahip",
}
SESSION_CACHE = tempfile.TemporaryDirectory(prefix="gnn-harness-tests-")

# Background jobs of a shell ignore SIGINT and pass that on; tests interrupt the processes that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Set before torch is imported, and inherited by the processes that tests start.
os.environ["HARNESS_CACHE"] = SESSION_CACHE.name
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that spin take the cores from other workers' tests
os.environ.setdefault("DGLBACKEND", "pytorch")
os.environ["WANDB_MODE"] = "offline"
os.environ["WANDB_SILENT"] = "true"
if not os.environ.get("HARNESS_DATA"):
    os.environ.pop("HARNESS_DATA", None)
    if (ROOT.parent / "shared" / "data").is_dir():
        os.environ["HARNESS_DATA"] = str(ROOT.parent / "shared" / "data")

# On a busy machine a slow example says nothing about the code.
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.load_profile("here")


def real_data_folder() -> Path | None:
    """Return the first folder of the path list HARNESS_DATA that exists."""
    folders = [Path(part) for part in os.environ.get("HARNESS_DATA", "").split(os.pathsep) if part]
    return next((folder for folder in folders if folder.is_dir()), None)


def importable(name: str) -> bool:
    """Whether a peer can be imported; one built for another torch may raise any exception."""
    try:
        importlib.import_module(name)
    except Exception:
        return False
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, not skip, the tests that cannot run here: pytest's summary then counts only tests that ran."""
    used = {mark.name for item in items for mark in item.iter_markers()}
    absent = {f"needs_{name}" for name in PEERS if f"needs_{name}" in used and not importable(PEERS[name])}
    if real_data_folder() is None:
        absent.add("real_data")
    if os.geteuid():
        absent.add("needs_root")
    if "slow" not in config.option.markexpr:
        absent.add("slow")
    runnable = [item for item in items if not any(mark.name in absent for mark in item.iter_markers())]
    dropped = set(items) - set(runnable)
    config.hook.pytest_deselected(items=sorted(dropped, key=lambda item: item.nodeid))
    items[:] = runnable


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real graphs; only for tests marked ``real_data``."""
    folder = real_data_folder()
    assert folder is not None, "mark tests that use data_folder with real_data"
    return folder


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for this test and the processes that it starts."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("HARNESS_CACHE", str(folder))
    return folder


@pytest.fixture
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for a measurement on this machine, nor the other way round."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))


@pytest.fixture
def unknown_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else runs on this machine does not repeat samples: the tests count them."""
    monkeypatch.setattr("harness.launcher.interference._machine", lambda: (None, None))
