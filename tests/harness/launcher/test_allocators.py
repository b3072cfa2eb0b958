"""Allocators: each gives a new process what its name says, or a sentence; a user's own variables change nothing."""

import os
import shutil
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

from harness.launcher import allocators
from harness.launcher.allocators import ALLOCATORS, environment_with
from harness.launcher.remote import child_environment
from harness.measure.sources import ROOT
from tests.cells import cell

USERS = {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "7", "PATH": "/usr/bin"}
HUGE_BYTES = (
    "import re\n"
    "table = b'1' * 200_000_000\n"
    "print(re.search('AnonHugePages: *([0-9]+)', open('/proc/self/smaps_rollup').read())[1])\n"
)


def child_variables(allocator: str) -> dict[str, str]:
    return child_environment(cell("")["config"] | {"launcher": {"allocator": allocator}})


def answer(script: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("name", ALLOCATORS)
def test_an_allocator_is_here_or_says_in_a_sentence_why_not(name: str) -> None:
    refusal = ALLOCATORS[name].refusal()
    if refusal is None:
        script = f"from harness.launcher.allocators import missing_here; print(missing_here({name!r}))"
        assert answer(script, child_variables(name)) == "None"
    else:
        status, sentence = refusal
        assert status in ("unsupported", "not_installed") and f"launcher.allocator={name} needs" in sentence


@pytest.mark.parametrize("name", ALLOCATORS)
def test_variables_of_the_user_do_not_change_an_allocator(name: str) -> None:
    preset = {"GLIBC_TUNABLES": "glibc.malloc.check=3:glibc.cpu.x=1", "LD_PRELOAD": "/a/libasan.so /b/libjemalloc.so.1"}
    environment = environment_with(name, USERS | preset)
    assert environment["PATH"] == "/usr/bin" and "MALLOC_ARENA_MAX" not in environment
    assert environment["LD_PRELOAD"].split(":")[0] == "/a/libasan.so" and "libjemalloc.so.1" not in environment.values()
    assert "glibc.cpu.x=1" in environment["GLIBC_TUNABLES"] and "check" not in environment["GLIBC_TUNABLES"]
    assert environment.get("MALLOC_TRIM_THRESHOLD_") == ALLOCATORS[name].variables.get("MALLOC_TRIM_THRESHOLD_")
    plain = {key: value for key, value in environment_with(name, {}).items() if key not in ALLOCATORS[name].variables}
    assert set(plain) <= {"LD_PRELOAD"}


def test_a_large_block_lies_on_huge_pages_with_the_allocator_of_that_name_only() -> None:
    kilobytes = {name: int(answer(HUGE_BYTES, child_variables(name))) for name in ("huge", "tuned")}
    setting = allocators.huge_pages().get("enabled")
    assert (kilobytes["huge"] > 150_000) == (setting in ("always", "madvise"))
    assert (kilobytes["tuned"] > 150_000) == (setting == "always")
    assert (ALLOCATORS["huge"].refusal() is None) == (setting in ("always", "madvise"))


def test_without_huge_pages_or_with_an_old_glibc_the_sentence_says_what_to_do(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "enabled").write_text("always madvise [never]\n")
    assert allocators.huge_pages(tmp_path) == {"enabled": "never"}
    assert allocators.huge_pages(tmp_path / "absent") == {}
    monkeypatch.setattr(allocators, "huge_pages", lambda: {"enabled": "never"})
    status, sentence = ALLOCATORS["huge"].refusal()
    assert status == "unsupported" and "write madvise to" in sentence
    for version in (("glibc", "2.34"), ("", ""), ("glibc", "2.x")):
        monkeypatch.setattr(allocators.platform, "libc_ver", lambda version=version: version)
        assert "needs glibc 2.35 or newer" in ALLOCATORS["huge"].refusal()[1]


@pytest.mark.parametrize("name", ["tcmalloc", "jemalloc"])
def test_another_librarys_allocator_is_loaded_before_all_others(name: str, tmp_path: Path, monkeypatch) -> None:
    # Another library under the allocator's name: loading is tried, so that no allocator needs to be installed.
    stand_in = tmp_path / f"lib{name}.so.9"
    shutil.copy(
        next(Path(folder, find_library("z")) for folder in folders() if Path(folder, find_library("z")).exists()),
        stand_in,
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    allocators._library.cache_clear()
    try:
        assert ALLOCATORS[name].refusal() is None and allocators.identity(name) == str(stand_in)
        script = f"from harness.launcher.allocators import missing_here; print(missing_here({name!r}))"
        assert answer(script, child_variables(name)) == "None"
        assert "was not loaded" in answer(script, environment_with("stock", os.environ | {"PYTHONPATH": str(ROOT)}))
    finally:
        allocators._library.cache_clear()


def folders() -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sorted({str(Path(line.split()[-1]).parent) for line in lines if "libc.so" in line})


def test_a_cell_whose_allocator_is_missing_says_which_package_to_install(monkeypatch) -> None:
    monkeypatch.setattr(allocators, "_library", lambda name: None)
    status, sentence = ALLOCATORS["jemalloc"].refusal()
    assert status == "not_installed" and sentence.endswith("libjemalloc.so: apt-get install libjemalloc2")
    assert allocators.identity("jemalloc") == "not installed" and allocators.identity("tuned") is None
