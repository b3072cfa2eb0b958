"""The build with narrower vectors, which this processor may not choose by itself, passes the same tests."""

import os
import subprocess
import sys
from pathlib import Path

from backends.kernels.native import BUILDS, description

ROOT = Path(__file__).parents[2]


def test_the_widest_build_of_this_processor_is_loaded():
    assert description() == BUILDS[0].removeprefix("_")


def test_the_narrower_build_passes_too():
    files = [f"tests/kernels/test_{subject}.py" for subject in ("aggregate", "dense", "edges", "loss")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *files],
        cwd=ROOT, env=os.environ | {"ATEN_CPU_CAPABILITY": "avx2"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
