"""The extension: the widest build is loaded, one of other sources is refused, the narrower one passes the tests."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from backends.kernels.extension import SOURCES, builds_for, current, extension, workers

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("machine", "capability", "builds"),
    [
        ("x86_64", "AVX512", ("_native_avx512", "_native")),
        ("x86_64", "AVX2", ("_native",)),
        ("AMD64", "DEFAULT", ()),
        ("aarch64", "DEFAULT", ("_native",)),
        ("aarch64", "SVE256", ("_native",)),
    ],
)
def test_a_build_is_for_processors_that_have_its_instructions(machine, capability, builds):
    assert builds_for(machine, capability) == builds


@pytest.mark.parametrize("lowered", [None, "default"])
def test_the_widest_build_of_this_processor_is_loaded(lowered):
    said = "import torch; from backends.kernels import extension; print(extension.description())"
    said += "; print(torch.backends.cpu.get_cpu_capability())"
    environment = os.environ | ({} if lowered is None else {"ATEN_CPU_CAPABILITY": lowered})
    done = subprocess.run([sys.executable, "-c", said], cwd=ROOT, env=environment, capture_output=True, text=True)
    loaded, capability = done.stdout.split("\n")[:2]
    builds = builds_for(platform.machine(), capability)
    assert loaded == (builds[0].removeprefix("_") if builds else "plain torch")


def test_a_product_starts_all_threads_or_none():
    before = torch.get_num_threads()
    torch.set_num_threads(64)
    counts = [workers(entries, 16) for entries in (0, 4095, 4096, 8192, 1 << 20)]
    torch.set_num_threads(before)
    assert counts == [1, 1, 64, 64, 64]


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


def test_a_partition_without_the_extension_is_refused_in_a_sentence():
    build = "import numpy as np; from backends.kernels.partition import UndirectedGraph; from datasets.csr import Csr; "
    build += "UndirectedGraph.of(Csr(np.array([0, 1]), np.array([0]), (1, 1)), np.ones((1, 1), np.int64), 1)"
    said = (
        f"from harness.launcher.failure import status_of\ntry:\n {build}\nexcept Exception as e:\n print(*status_of(e))"
    )
    environment = os.environ | {"ATEN_CPU_CAPABILITY": "default"}
    done = subprocess.run([sys.executable, "-c", said], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert platform.machine() not in ("x86_64", "AMD64") or done.stdout.startswith("unsupported edges"), done.stderr
