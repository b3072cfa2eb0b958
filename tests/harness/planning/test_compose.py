"""Errors of composition: a backend of which one half is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

from backends.registry import MODULES
from harness.planning.compose import compose_one
from harness.usage import UsageError

ROOT = Path(__file__).resolve().parents[3]
# In a process of its own, as Hydra keeps the schemas of all backends that were registered once.
UNREGISTERED = """
from backends.registry import MODULES
from harness.planning.compose import compose_one
del MODULES["blocksparse"]
compose_one(["backend=blocksparse"])
"""


def test_a_registered_backend_without_its_file_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODULES, "mine", MODULES["dummy"])
    with pytest.raises(UsageError, match=r"'mine' is registered and has no conf/backend/mine\.yaml: add that file"):
        compose_one(["backend=mine"])


def test_a_file_of_a_backend_that_is_not_registered_names_the_registry() -> None:
    command = [sys.executable, "-c", UNREGISTERED]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert "conf/backend/blocksparse.yaml is of a backend that is not registered: add 'blocksparse' to MODULES" in (
        ended.stderr
    )
