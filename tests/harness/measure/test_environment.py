"""The description of a machine: the same from every process, different with threads and packages."""

import json
import os
import subprocess
import sys

import pytest

from backends.registry import config_class
from harness.measure import environment
from harness.measure.shell import PREFIXES, THREAD_VARIABLES
from harness.measure.sources import ROOT
from harness.store.processor import Processor


def test_another_process_of_this_interpreter_describes_the_same_environment():
    command = [sys.executable, "-m", "harness.measure.environment", "dummy", "2", "cpu", "huge"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == json.loads(json.dumps(environment.describe("dummy", 2, "cpu", "huge")))


def test_threads_and_packages_are_checked():
    assert environment.checked("dummy", 1) != environment.checked("dummy", 2)
    assert environment.checked("dummy", 1)["packages"]["torch"]
    assert environment.installed("no-such-package-at-all") is None


def test_variables_of_the_shell_that_change_speed_are_checked_and_numbers_of_threads_are_not(monkeypatch):
    for name in [name for name in os.environ if name.startswith(PREFIXES)]:
        monkeypatch.delenv(name)
    plain = environment.checked("dummy", 1)
    for name in THREAD_VARIABLES:
        monkeypatch.setenv(name, "7")
    assert environment.checked("dummy", 1) == plain and "variables" not in plain
    shell = {"ATEN_CPU_CAPABILITY": "avx2", "OMP_THREAD_LIMIT": "1", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    assert environment.checked("dummy", 1) == plain | {"variables": shell}


def test_packages_of_the_options_are_checked_where_they_are_installed():
    plain = environment.checked("dummy", 1)
    assert environment.checked("dummy", 1, packages=["no-such-package-at-all"]) == plain
    packages = plain["packages"] | {"scipy": environment.installed("scipy")}
    assert environment.checked("dummy", 1, packages=["scipy", "torch"]) == plain | {"packages": packages}


@pytest.mark.parametrize(
    ("backend", "options", "scenario", "full_batch", "used"),
    [
        ("reference", {}, "train", True, set()),
        ("reference", {"variant": "scipy"}, "spmm", True, {"scipy"}),
        ("agl", {}, "train", False, set()),
        ("agl", {"run_on": "ray"}, "flatten", True, {"ray", "pyarrow"}),
        ("agl", {"strategy": "sync", "workers": 2}, "train", False, {"ray"}),
        ("agl", {"strategy": "allreduce", "workers": 2}, "train", False, set()),
        ("agl", {"source": "graphfeature"}, "train", False, {"pyarrow"}),
        ("pyg", {}, "train", True, {"torch_geometric"}),
        ("pyg", {}, "train", False, {"torch_geometric", "pyg_lib", "torch_sparse"}),
        ("pyg", {"loader": "khop"}, "train", False, {"torch_geometric"}),
        ("pyg", {}, "sample", True, {"torch_geometric", "pyg_lib", "torch_sparse"}),
        ("pyg", {"variant": "torch_sparse"}, "infer", True, {"torch_geometric", "torch_sparse"}),
        ("dgl", {}, "partition", True, {"dgl"}),
        ("blocksparse", {}, "train", True, set()),
        ("distpart", {}, "partition", True, {"pymetis"}),
        ("distpart", {"method": "random"}, "partition", True, set()),
        ("partitioners", {"tool": "kaminpar"}, "partition", True, {"kaminpar"}),
        ("partitioners", {"tool": "ptscotch"}, "partition", True, set()),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else None,
)
def test_an_engine_names_the_packages_that_its_options_use(backend, options, scenario, full_batch, used):
    assert set(config_class(backend)(**options).packages_used(scenario, full_batch)) == used


def test_only_own_engines_name_their_kernels():
    assert "kernels" in environment.checked("agl", 1)
    assert "kernels" not in environment.checked("pyg", 1)
    assert environment.checked("blocksparse", 1)["kernels"] in ("native", "plain torch")


def test_without_avx2_the_kernels_are_plain_torchs(monkeypatch):
    monkeypatch.setattr(environment.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(environment, "processor", lambda: Processor("old", "", frozenset({"sse4_2"})))
    assert environment.checked("blocksparse", 1)["kernels"] == "plain torch"


def test_on_a_gpu_the_kernels_are_tritons_or_plain_torchs(monkeypatch):
    versions = {"triton": "3.9.0"}
    monkeypatch.setattr(environment, "installed", versions.get)
    assert environment.checked("blocksparse", 1, "cuda")["kernels"] == "triton 3.9.0"
    versions.clear()
    assert environment.checked("blocksparse", 1, "cuda")["kernels"] == "plain torch"


def test_the_code_is_not_known_before_a_cell_ran():
    assert "sources" not in environment.checked("agl", 1)


def test_what_only_describes_the_machine_is_not_checked():
    machine = environment.machine()
    assert {"kernel", "libc", "memory"} <= set(machine) and not set(machine) & set(environment.checked("dummy", 1))
    assert all(sizes["bytes"] > 0 for sizes in machine.get("caches", {}).values())


def test_the_allocators_library_is_checked():
    assert "allocator" not in environment.checked("dummy", 1, allocator="stock")
    assert environment.checked("dummy", 1, allocator="jemalloc")["allocator"]


def test_last_level_caches_count_once_however_many_cores_share_them(tmp_path):
    for core, (level, size, shared) in enumerate(
        [("3", "32M", "0-1"), ("3", "32M", "0-1"), ("3", "1G", "2"), ("2", "1M", "3")]
    ):
        for index, text in (("index0", ("1", "Data", "32K", str(core))), ("index2", (level, "Unified", size, shared))):
            folder = tmp_path / f"cpu{core}" / "cache" / index
            folder.mkdir(parents=True)
            for name, value in zip(("level", "type", "size", "shared_cpu_list"), text, strict=True):
                (folder / name).write_text(value)
    assert environment.last_level_bytes({0, 1}, tmp_path) == 32 << 20
    assert environment.last_level_bytes({1, 2, 3, 4}, tmp_path) == (32 << 20) + (1 << 30) + (1 << 20)


def test_caches_are_described_as_far_as_the_kernel_tells(tmp_path):
    files = {"level": "3", "type": "Unified", "size": "32M", "shared_cpu_list": "0-3,64-67"}
    for index, left_out in enumerate((None, "shared_cpu_list", "size", "level")):
        (tmp_path / f"index{index}").mkdir()
        for name, text in files.items():
            if name != left_out:
                (tmp_path / f"index{index}" / name).write_text(text.replace("3", str(index + 1), name == "level"))
    assert environment.cache_sizes(tmp_path) == {"L1": {"bytes": 32 << 20, "shared_by": 8}, "L2": {"bytes": 32 << 20}}
    assert environment.cache_sizes(tmp_path / "absent") == {}
