"""The build with narrower vectors, which this processor may not choose by itself, passes the same tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backends.kernels.native import BUILDS, SOURCES, _current, description, native

ROOT = Path(__file__).parents[2]


def test_the_widest_build_of_this_processor_is_loaded():
    assert description() == BUILDS[0].removeprefix("_")


def test_a_build_of_other_sources_is_refused(tmp_path):
    sources = shutil.copytree(SOURCES, tmp_path / "cpp")
    assert _current(native, sources) is native
    with (sources / "rows.hpp").open("a") as header:
        header.write("// changed\n")
    with pytest.raises(ImportError, match="make setup"):
        _current(native, sources)


def test_the_narrower_build_passes_too():
    files = [f"tests/kernels/test_{subject}.py" for subject in ("aggregate", "dense", "edges", "loss")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *files],
        cwd=ROOT, env=os.environ | {"ATEN_CPU_CAPABILITY": "avx2"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
