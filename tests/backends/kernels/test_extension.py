"""The extension: the widest build is loaded, one of other sources is refused, the narrower one passes the tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backends.kernels.extension import BUILDS, SOURCES, current, description, extension

ROOT = Path(__file__).parents[3]


def test_the_widest_build_of_this_processor_is_loaded():
    assert description() == BUILDS[0].removeprefix("_")


@pytest.mark.parametrize("header", ["common/matrix.hpp", "aggregate/rows.hpp", "storage/bind_parquet.cpp"])
def test_a_build_of_other_sources_is_refused(tmp_path, header):
    sources = shutil.copytree(SOURCES, tmp_path / "cpp")
    assert current(extension, sources) is extension
    with (sources / header).open("a") as file:
        file.write("// changed\n")
    with pytest.raises(ImportError, match="make setup"):
        current(extension, sources)


def test_the_narrower_build_passes_too():
    files = [f"tests/backends/kernels/test_{subject}.py" for subject in ("aggregate", "dense_layers", "edges", "loss")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", *files],
        cwd=ROOT, env=os.environ | {"ATEN_CPU_CAPABILITY": "avx2"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
