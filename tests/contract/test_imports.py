"""Our packages import beside the peers, and imports point one way."""

import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from backends.registry import MODULES

ROOT = Path(__file__).resolve().parents[2]
OURS = "import harness, backends, datasets; from datasets.csr import Csr; from backends.registry import MODULES"
PEERS = [
    pytest.param("torch_geometric", marks=pytest.mark.needs_pyg),
    pytest.param("dgl", marks=pytest.mark.needs_dgl),
    "torch, wandb, pandas, hydra",
]


def run(code: str, folder: Path) -> str:
    """Run code in a new interpreter started in ``folder`` and return its output."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("place", ["root", "elsewhere"])
@pytest.mark.parametrize("peers", PEERS)
def test_peers_import_beside_ours(peers: str, place: str, tmp_path: Path) -> None:
    folder = ROOT if place == "root" else tmp_path
    path = f"import sys; sys.path.append({str(ROOT)!r})"
    assert run(f"{path}; import {peers}; {OURS}; print(datasets.__file__)", folder).startswith(str(ROOT))


def test_listing_the_engines_imports_no_framework() -> None:
    code = "import sys, backends.registry, harness.planning.schema, datasets.graph; print('torch' in sys.modules)"
    assert run(code, ROOT) == "False"


def test_the_launcher_imports_the_standard_library_and_msgspec_alone(tmp_path: Path) -> None:
    """Without other site-packages, as on a machine where only the children's interpreter has any."""
    (tmp_path / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import harness.launcher.group"],
        cwd=ROOT,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr


def test_imports_point_one_way() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_harness_may_import_no_engine_but_the_definition():
    """The contract names engines one by one, so that a new one must not be forgotten."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    forbidden = next(contract for contract in contracts if contract.get("source_modules") == ["harness"])
    engines = {f"backends.{name}" for name in MODULES if name != "reference"}
    assert engines | {"backends.base", "backends.parallel"} <= set(forbidden["forbidden_modules"])
