"""README and the pages beside it: commands compose to cells that load, links lead to files, examples run."""

import os
import re
import shlex
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from datasets.registry import load_dataset
from harness import commands
from harness.planning.cells import resolve_cell
from harness.planning.compose import compose_arguments
from harness.planning.config import load
from harness.planning.suite import expand

ROOT = Path(commands.__file__).resolve().parent.parent.parent
PATTERNS = ("README.md", "CONTRIBUTING.md", "docs/*.md", "datasets/README.md", "backends/*/README.md")
PAGES = sorted(page for pattern in PATTERNS for page in ROOT.glob(pattern))
NODES = "id,age,visits,label,split\n" + "".join(f"u{i},{20 + i},{i % 3}.5,{i % 2},train\n" for i in range(9))
EDGES = "source,target,weight\nu1,u2,1.0\nu2,u3,0.5\nu8,u0,2.0\n"


def blocks_of(page: Path, languages: tuple[str, ...]) -> list[str]:
    """Contents of the blocks of code in some languages, "" for those that name none."""
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", page.read_text(), re.M | re.S)
    return [text for language, text in blocks if language in languages]


def shown_commands() -> list[str]:
    """Arguments of ``python -m harness`` in the blocks of code."""
    texts = [text for page in PAGES for text in blocks_of(page, ("", "bash", "sh"))]
    lines = [line.partition(" #")[0].strip() for text in texts for line in text.splitlines()]
    return sorted(
        {line.removeprefix("python -m harness").strip() for line in lines if line.startswith("python -m harness ")}
    )


def is_command(line: str) -> bool:
    """Whether a line begins with a command's name instead of overrides."""
    return shlex.split(line)[0].isidentifier()


def test_the_pages_show_commands_and_runs() -> None:
    assert len([line for line in shown_commands() if is_command(line)]) > 5
    assert len([line for line in shown_commands() if not is_command(line)]) > 15


@pytest.mark.parametrize("line", [line for line in shown_commands() if not is_command(line)])
def test_a_measurement_can_be_carried_out(line: str) -> None:
    """Of a suite one cell: test_configs.py tries the values of all."""
    cells = [
        resolve_cell(load(expanded.values))
        for composition in compose_arguments(shlex.split(line))
        for expanded, _ in islice(expand(composition), 1)
    ]
    assert cells
    assert all(cell.status != "unsupported" for cell in cells)


@pytest.mark.parametrize("line", [line for line in shown_commands() if is_command(line)])
def test_a_command_exists(line: str) -> None:
    name = line.split()[0]
    assert (Path(commands.__file__).parent / f"{name}.py").is_file() or name == "import"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())]
    missing = [link for link in links if link and "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


def test_tables_of_ones_own_load_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = next(line for line in shown_commands() if "dataset=tables" in line)
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    monkeypatch.chdir(tmp_path)
    config = load(compose_arguments(shlex.split(line))[0].values).dataset
    graph = load_dataset(config.name, config.options, tmp_path)
    assert (graph.nodes, graph.csr.nnz, graph.width, graph.classes) == (9, 6, 2, 2)
    assert graph.edge_weights is not None
    assert len(graph.nodes_of("train")) == 9


def test_examples_of_agl_run_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in blocks_of(ROOT / "backends" / "agl" / "README.md", ("python",)):
        exec(code, names)
    assert names["logits"].shape == (len(names["targets"]), names["graph"].classes)


@pytest.mark.slow
def test_tools_of_agl_run_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "backends" / "agl" / "README.md"
    codes = blocks_of(page, ("python",))
    exec(codes[0], {})  # writes the tables and the graph that the commands read
    for code in codes:
        if named := re.match(r"# (\w+\.py)\n", code):
            Path(named[1]).write_text(code)
    lines = [line.partition(" #")[0] for block in blocks_of(page, ("", "bash", "sh")) for line in block.splitlines()]
    tools = [line for line in lines if line.startswith("python -m backends.agl.") and " -t " not in line]
    assert len(tools) >= 3
    for line in tools:
        command = [sys.executable, *shlex.split(line)[1:]]
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stderr}"
