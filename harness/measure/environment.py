"""Environment of a cell: processor, packages, protocol, which must be equal for records to be compared.

The code that ran is added by ``harness.measure.sources`` when the record is written. No torch is needed. As a program
(``python -m harness.measure.environment BACKEND THREADS DEVICE ALLOCATOR [PACKAGE ...]``) it describes another
interpreter.
"""

import json
import os
import platform
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from backends.registry import config_class
from harness.launcher import allocators
from harness.measure import control_group
from harness.measure.memory import total
from harness.measure.shell import speed_variables
from harness.store.processor import processor
from harness.store.versions import PROTOCOL

ALWAYS = ("torch", "numpy")
PROCESSORS = Path("/sys/devices/system/cpu")
CACHES = PROCESSORS / "cpu0/cache"
DMI = Path("/sys/class/dmi/id")
HYPERVISOR = Path("/sys/hypervisor/type")
RESERVED_HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def describe(
    backend: str, threads: int, device: str = "cpu", allocator: str = "tuned", packages: Iterable[str] = ()
) -> dict[str, Any]:
    """Return ``{"checked": ..., "machine": ...}``, the same for all runs on one installation."""
    return {"checked": checked(backend, threads, device, allocator, packages), "machine": machine()}


def checked(
    backend: str, threads: int, device: str = "cpu", allocator: str = "tuned", packages: Iterable[str] = ()
) -> dict[str, Any]:
    """Return what must be equal for records to be compared, as far as it is known before a cell starts.

    Of ``packages``, those that the cell's own options use, the installed ones count beside those of the engine. An
    allocator adds its library or, where it asks for huge pages, the kernel's setting; a quota of a control group
    stands beside the cores. Variables of the shell that change the speed of libraries reach each cell.
    """
    config = config_class(backend)
    needed = (*ALWAYS, *config.packages)
    versions = {name: installed(name) for name in dict.fromkeys((*needed, *packages))}
    values: dict[str, Any] = {
        "cpu": processor().title,
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        "python": platform.python_version(),
        "packages": {name: number for name, number in versions.items() if number is not None or name in needed},
        "protocol": PROTOCOL,
    }
    if (quota := control_group.cpu_quota()) is not None:
        values["cpu_quota"] = quota
    if variables := speed_variables(os.environ):
        values["variables"] = variables
    if (identity := allocators.identity(allocator)) is not None:
        values["allocator"] = identity
    if device.startswith("cuda"):
        values["gpu"] = gpu_models()
    if config.kind != "peer":
        values["kernels"] = _kernels(device)
    return values


def machine() -> dict[str, Any]:
    """Return what describes this machine and makes no record stale; keys that it does not tell are absent.

    Kernel and its setting of huge pages, C library, hypervisor and product, memory and the limit of its control group
    [bytes], and the data caches of the first core: bytes, and the processors that share each.
    """
    values = {
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "hypervisor": hypervisor(),
        "product": " ".join(text for name in ("sys_vendor", "product_name") if (text := _text(DMI / name))),
        "memory": total(),
        "memory_limit": control_group.memory_limit() if control_group.memory_limit() == total() else None,
        "huge_pages": allocators.huge_pages() | {"reserved": _text(RESERVED_HUGE_PAGES) or "0"},
        "caches": cache_sizes(),
    }
    return {key: value for key, value in values.items() if value not in (None, "", {})}


def hypervisor() -> str | None:
    """Name of the hypervisor below this machine, ``"unnamed"`` where the processor tells only that there is one."""
    return _text(HYPERVISOR) or ("unnamed" if processor().virtual else None)


def gpu_models() -> list[str]:
    """Names of the NVIDIA devices that the kernel driver knows, with its version."""
    names = []
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        names += re.findall(r"^Model:\s*(.+)$", path.read_text(), re.M)
    driver = Path("/sys/module/nvidia/version")
    return [*names, f"driver {driver.read_text().strip()}"] if driver.exists() else names


def cache_sizes(folder: Path = CACHES) -> dict[str, dict[str, int]]:
    """Bytes of each data cache of the first core, and how many processors share it; those unknown are left out."""
    return {
        f"L{level}": {"bytes": size} | ({"shared_by": _processors(shared)} if shared else {})
        for level, size, shared in _data_caches(folder)
    }


def last_level_bytes(cores: Collection[int], folder: Path = PROCESSORS) -> int:
    """Bytes of the last-level caches of some cores together, each counted once; 0 where the kernel tells none."""
    caches = [max(_data_caches(folder / f"cpu{core}" / "cache"), default=("", 0, "")) for core in cores]
    return sum({shared: size for _, size, shared in caches}.values())


def _data_caches(folder: Path) -> Iterator[tuple[str, int, str]]:
    """Level, bytes and list of processors, empty where it is unknown, of each data cache of a core."""
    for index in sorted(folder.glob("index*")):
        level, kind, size, shared = (_text(index / name) for name in ("level", "type", "size", "shared_cpu_list"))
        match = re.fullmatch(r"(\d+)([KMG]?)", size or "")
        if level and match and kind != "Instruction":
            yield level, int(match[1]) * UNITS[match[2]], shared or ""


def _processors(text: str) -> int:
    """How many processors a list such as ``0-3,8`` names."""
    spans = [re.findall(r"\d+", part) for part in text.split(",")]
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans if span)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def installed(package: str) -> str | None:
    """Version of a package of this interpreter, ``None`` when it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _kernels(device: str) -> str:
    """The implementation of our kernels on a device."""
    if device.startswith("cuda"):
        return "plain torch" if (triton := installed("triton")) is None else f"triton {triton}"
    return "native" if kernels_built() else "plain torch"


def kernels_built() -> bool:
    """Whether compiled kernels that this processor can run are on the import path: importing them would import torch.

    Builds for x86 have AVX2, which ``ATEN_CPU_CAPABILITY`` turns off, as ``backends.kernels.extension`` does.
    """
    if platform.machine() in ("x86_64", "AMD64"):
        has_avx2 = processor().instructions >= {"avx2", "fma"}
        if not has_avx2 or os.environ.get("ATEN_CPU_CAPABILITY") == "default":
            return False
    return any(any(Path(place).glob("backends/kernels/_native.*.so")) for place in sys.path)


if __name__ == "__main__":
    engine, count, place, memory_by, *libraries = sys.argv[1:]
    print(json.dumps(describe(engine, int(count), place, memory_by, libraries)))
