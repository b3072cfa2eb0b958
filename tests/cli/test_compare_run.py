"""``compare --run`` over copies of this checkout: verdicts, refusals, nothing left behind."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cells import eventually, mark_processes
from tests.harness.compare.checkouts import ROOT, copy_checkout

CELL = ["backend=dummy", "model=gcn", "dataset.options.nodes=500", "launcher=inline", "measure=short"]
ENGINE = Path("backends", "dummy", "backend.py")
SHARE = "self.config.seconds * share"


class Comparison:
    """Calls ``python -m harness compare`` from an empty folder, with temporary files and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.home, self.temporary = folder / "home", folder / "tmp"
        self.home.mkdir()
        self.temporary.mkdir()
        variables = {"PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary), "HARNESS_CACHE": str(folder / "cache")}
        self.environment = os.environ | variables

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "harness", "compare", *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=self.home, env=self.environment, text=True, **pipes)  # type: ignore[call-overload, no-any-return]

    def __call__(self, *arguments: object, code: int) -> tuple[str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=280)
        assert process.returncode == code, f"{process.returncode}\n{out}\n{err}"
        assert "Traceback" not in err
        assert self.left() == []
        return out, err

    def left(self) -> list[str]:
        """Files and folders that a call left, but the machine's lock."""
        names = [path.name for path in (*self.home.iterdir(), *self.temporary.iterdir())]
        return [name for name in names if name != "gnn-harness.launcher.lock"]


@pytest.fixture
def compare(tmp_path: Path) -> Comparison:
    return Comparison(tmp_path)


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Path]:
    """A copy of this checkout."""
    folder = copy_checkout(tmp_path / "copy")
    yield folder
    shutil.rmtree(folder)


def edit(checkout: Path, file: Path, before: str, after: str) -> None:
    text = (checkout / file).read_text()
    assert before in text
    (checkout / file).write_text(text.replace(before, after))


def test_a_version_that_became_slower_is_a_regression(compare: Comparison, copy: Path) -> None:
    edit(copy, ENGINE, SHARE, f"1.1 * {SHARE}")
    out, _ = compare("--run", ROOT, copy, "--pairs", 8, *CELL, code=3)
    row = next(line for line in out.splitlines() if "dummy" in line)
    assert row == "| uug gcn dummy inline train | 0.01 | 0.011 | 1.1 [1.1, 1.1] | 8 | slower |"
    assert "1 cells compared, 1 worse, 0 undecided" in out


@pytest.mark.slow
def test_a_version_is_no_slower_than_itself_also_in_processes_of_their_own(compare: Comparison) -> None:
    cell = [part for part in CELL if not part.startswith("launcher")]
    out, _ = compare("--run", ROOT, ROOT, *cell, code=0)
    assert "1 [1, 1] | 8 | not significant |" in out


@pytest.mark.slow
def test_a_cell_that_fails_in_the_newer_version_is_a_regression(compare: Comparison, copy: Path) -> None:
    edit(copy, ENGINE, SHARE, f"{SHARE} / 0")
    out, _ = compare("--run", ROOT, copy, *CELL, code=3)
    assert "fails now: ok, then error (ZeroDivisionError: float division by zero)" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--run", "{home}", ROOT, *CELL], ("is no checkout", "git worktree")),
        (["--run", ROOT, ROOT, "--pairs", "9", *CELL], ("--pairs 9", "even number")),
        (["--run", ROOT, ROOT, "--threshold", "0.9", *CELL], ("--threshold 0.9", "above 1")),
        ([ROOT, ROOT, *CELL], ("overrides need --run",)),
        (["--run", ROOT, ROOT, *CELL, "seeed=3"], (str(ROOT), "'seeed'", "did you mean 'seed'")),
        (["--run", ROOT, ROOT, "--cfg", "job", *CELL], ("the overrides measure nothing",)),
    ],
)
def test_misuse_ends_with_2_and_says_what_to_do(
    compare: Comparison, arguments: list[object], words: tuple[str, ...]
) -> None:
    values = [str(argument).format(home=compare.home) for argument in arguments]
    _, err = compare(*values, code=2)
    for word in words:
        assert word in err


def test_kernels_that_are_missing_or_outdated_name_the_command_that_builds_them(
    compare: Comparison, copy: Path
) -> None:
    header = Path("backends", "kernels", "cpp", "common", "matrix.hpp")
    (copy / header).write_text((copy / header).read_text() + "// changed\n")
    _, err = compare("--run", ROOT, copy, *CELL, code=2)
    assert str(copy) in err and "not built from the sources" in err and "make setup" in err
    for extension in copy.glob("backends/kernels/_native*.so"):
        extension.unlink()
    _, err = compare("--run", ROOT, copy, *CELL, code=2)
    assert str(copy) in err and "not built" in err and "make setup" in err


def test_a_key_that_one_version_lacks_is_that_versions_own_error(compare: Comparison, copy: Path) -> None:
    edit(copy, Path("backends", "dummy", "config.py"), "    learn: bool", "    newer: int = 0\n    learn: bool")
    _, err = compare("--run", ROOT, copy, *CELL, "backend.newer=1", code=2)
    assert f"error: {ROOT}: key 'backend.newer' is unknown" in err


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupt_leaves_nothing(compare: Comparison, number: signal.Signals) -> None:
    """A cell that hangs, with a process that it started, when the signal comes."""
    with mark_processes("compare") as mark:
        key, _, value = mark.partition("=")
        compare.environment[key] = value
        cell = [part for part in CELL if not part.startswith("launcher")]
        process = compare.start("--run", ROOT, ROOT, *cell, "backend.fail=hang", "backend.fail_epoch=0")
        lock = compare.temporary / "gnn-harness.launcher.lock"
        eventually(lock.exists, "the first run", 200)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1 and "interrupted" in err and "Traceback" not in err
    assert compare.left() == []


@pytest.mark.parametrize(
    "moment",
    [
        "gnn-harness-compare-*/gnn-harness-sweep-*",  # the folder in which Hydra composes a plan
        pytest.param("gnn-harness.launcher.lock", marks=pytest.mark.slow),
    ],
    ids=["planning", "measuring"],
)
def test_a_killed_comparison_leaves_nothing(compare: Comparison, moment: str) -> None:
    """Of a graph that takes longer to generate than the test waits for the end of all processes."""
    with mark_processes("compare") as mark:
        key, _, value = mark.partition("=")
        compare.environment[key] = value
        nodes = 5_000_000 if "sweep" in moment else 500
        cell = ["backend=dummy", "model=gcn", f"dataset.options.nodes={nodes}", "dataset.options.features=8"]
        process = compare.start(
            "--run", ROOT, ROOT, *cell, "measure=short", "backend.fail=hang", "backend.fail_epoch=0"
        )
        eventually(lambda: list(compare.temporary.glob(moment)), moment, 200)
        process.kill()
        process.communicate(timeout=60)
    eventually(lambda: compare.left() == [], f"the end of {compare.left()}")
