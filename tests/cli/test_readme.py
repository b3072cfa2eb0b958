"""The command lines that the README shows: each composes to cells that load, or names a command that exists."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from harness import commands
from harness.planning.cells import resolve_cell
from harness.planning.compose import compose_arguments
from harness.planning.config import load
from harness.planning.suite import expand

ROOT = Path(commands.__file__).resolve().parent.parent.parent
PAGES = ("README.md", "CONTRIBUTING.md")


def shown() -> list[str]:
    """Arguments of ``python -m harness`` in the blocks of code."""
    text = "".join((ROOT / name).read_text() for name in PAGES)
    blocks = re.findall(r"^```\n(.*?)^```", text, re.M | re.S)
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return sorted(
        {line.removeprefix("python -m harness").strip() for line in lines if line.startswith("python -m harness")}
    )


def test_lines_are_found() -> None:
    assert len(shown()) > 10


@pytest.mark.parametrize("line", [line for line in shown() if "=" in line and not line.startswith("fetch")])
def test_a_measurement_can_be_carried_out(line: str) -> None:
    cells = [
        resolve_cell(load(inner.values)) for job in compose_arguments(shlex.split(line)) for inner, _ in expand(job)
    ]
    assert cells
    assert all(cell.status != "unsupported" for cell in cells)


@pytest.mark.parametrize("line", [line for line in shown() if line and ("=" not in line or line.startswith("fetch"))])
def test_a_command_exists(line: str) -> None:
    name = line.split()[0]
    assert (Path(commands.__file__).parent / f"{name}.py").is_file() or name == "import"


def test_a_model_of_ones_own_runs_as_shown() -> None:
    code = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert len(code) == 1
    held: dict[str, Any] = {}
    exec(code[0], held)
    assert held["logits"].shape == (len(held["targets"]), held["graph"].classes)
