"""Allocators of memory for measured processes: the environment variables of each, and whether this machine has it."""

import ctypes
import os
import platform
from collections.abc import Callable, Mapping
from ctypes.util import find_library
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")
GLIBC_WITH_HUGE_PAGES = (2, 35)
# Larger than any block, so that glibc keeps freed memory: stock glibc returns large blocks to the kernel, and page
# faults then dominate CPU epochs.
THRESHOLDS = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 40),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
# What a user's shell may set, which must not change an allocator that a record names.
PREFIXES = ("MALLOC_", "TCMALLOC_", "JE_MALLOC_", "MIMALLOC_")
Refusal = tuple[str, str]  # status of the record, and one sentence


@dataclass(frozen=True)
class Allocator:
    """One allocator: the variables that tune it, and the library that replaces glibc's, by its possible names.

    ``refusal`` gives status and sentence where this machine cannot offer it. ``package`` is Debian's.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    package: str = ""
    refusal: Callable[[], Refusal | None] = lambda: None

    def preloaded_file(self) -> str | None:
        """File name of the library to load before all others, ``None`` where none is needed or installed."""
        return next((file for name in self.libraries if (file := _library(name))), None)


def _library_missing(name: str) -> Callable[[], Refusal | None]:
    def refusal() -> Refusal | None:
        allocator = ALLOCATORS[name]
        if allocator.preloaded_file() is not None:
            return None
        files = " or ".join(f"lib{library}.so" for library in allocator.libraries)
        return "not_installed", f"launcher.allocator={name} needs {files}: apt-get install {allocator.package}"

    return refusal


def _no_huge_pages() -> Refusal | None:
    """Why glibc's allocator cannot ask for huge pages here."""
    name, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if name != "glibc" or numbers < GLIBC_WITH_HUGE_PAGES:
        least = ".".join(map(str, GLIBC_WITH_HUGE_PAGES))
        return "unsupported", f"launcher.allocator=huge needs glibc {least} or newer, and {name} {version} is here"
    if huge_pages().get("enabled") not in ("always", "madvise"):
        return "unsupported", (
            "launcher.allocator=huge needs transparent huge pages, and this kernel has none: "
            f"write madvise to {HUGE_PAGES / 'enabled'}"
        )
    return None


ALLOCATORS = {
    "tuned": Allocator(THRESHOLDS),
    "huge": Allocator(THRESHOLDS | {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}, refusal=_no_huge_pages),
    "stock": Allocator(),
    # Freed memory is kept for the next call, as by the tuned thresholds.
    "tcmalloc": Allocator(
        {"TCMALLOC_RELEASE_RATE": "0", "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD": str(1 << 62)},
        ("tcmalloc_minimal", "tcmalloc"),
        "libtcmalloc-minimal4",
        _library_missing("tcmalloc"),
    ),
    "jemalloc": Allocator(
        {
            "MALLOC_CONF": "thp:always,metadata_thp:auto,oversize_threshold:0,dirty_decay_ms:-1,muzzy_decay_ms:-1",
        },
        ("jemalloc",),
        "libjemalloc2",
        _library_missing("jemalloc"),
    ),
}


def environment_with(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables with which a new process has an allocator, whatever ``environment`` had chosen."""
    allocator = ALLOCATORS[name]
    variables = {key: value for key, value in environment.items() if not key.startswith(PREFIXES)}
    tunables = _without(variables.pop("GLIBC_TUNABLES", "").split(":"), "glibc.malloc.")
    preloads = _without(variables.pop("LD_PRELOAD", "").replace(" ", ":").split(":"), "malloc")
    variables |= allocator.variables
    tunables += [value for key, value in allocator.variables.items() if key == "GLIBC_TUNABLES"]
    # Behind the user's: a sanitizer must be the first.
    preloads += [file] if (file := allocator.preloaded_file()) else []
    lists = {"GLIBC_TUNABLES": tunables, "LD_PRELOAD": preloads}
    return variables | {key: ":".join(filter(None, parts)) for key, parts in lists.items() if any(parts)}


def identity(name: str) -> str | None:
    """What of this machine an allocator depends on beyond glibc as it comes: its library, or the huge-page setting."""
    if name == "huge":
        return f"huge pages {huge_pages().get('enabled')}"
    return (ALLOCATORS[name].preloaded_file() or "not installed") if ALLOCATORS[name].libraries else None


def missing_here(name: str) -> str | None:
    """Say what is wrong when this process does not have the allocator that its environment asked for."""
    file = ALLOCATORS[name].preloaded_file()
    if file is not None and Path(file).name.partition(".so")[0] not in Path("/proc/self/maps").read_text():
        return f"launcher.allocator={name}: {file} was not loaded; the dynamic linker's message is in the log"
    # prctl(PR_SET_THP_DISABLE), which a container's runtime may have called
    if name == "huge" and "THP_enabled:\t0" in Path("/proc/self/status").read_text():
        return "launcher.allocator=huge: huge pages are switched off for processes started here (PR_SET_THP_DISABLE)"
    return None


def huge_pages(folder: Path = HUGE_PAGES) -> dict[str, str]:
    """The kernel's setting of transparent huge pages, ``enabled`` and ``defrag``; empty where it has none."""
    settings = {}
    for name in ("enabled", "defrag"):
        try:
            text = (folder / name).read_text()
        except OSError:
            continue
        settings[name] = text.partition("[")[2].partition("]")[0]
    return settings


def return_memory() -> None:
    """Let this process's allocator return freed blocks to the kernel; nothing where it knows no such call."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
    if hasattr(library, "MallocExtension_ReleaseFreeMemory"):
        library.MallocExtension_ReleaseFreeMemory()
    if hasattr(library, "mallctl"):
        library.mallctl(b"arena.4096.purge", None, None, None, ctypes.c_size_t(0))  # MALLCTL_ARENAS_ALL


@cache
def _library(name: str) -> str | None:
    """File of a shared library, from LD_LIBRARY_PATH or the linker's cache."""
    folders = [Path(part) for part in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if part]
    files = (str(file) for folder in folders for file in sorted(folder.glob(f"lib{name}.so*")))
    return next(files, None) or find_library(name)


def _without(words: list[str], excluded: str) -> list[str]:
    """Those of several words or paths whose last part does not contain ``excluded``."""
    return [word for word in words if excluded not in word.rpartition("/")[2]]
