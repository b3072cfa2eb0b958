"""Where a cell ran: what must be equal for two records to be compared, and what is good to know; no torch needed.

As a program (``python -m harness.measure.environment BACKEND THREADS DEVICE``) it tells another interpreter's.
"""

import hashlib
import json
import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from backends.registry import config_class
from datasets.plugins import plugins
from harness.measure.memory import total
from harness.store.record import PROTOCOL

ROOT = Path(__file__).resolve().parent.parent.parent
ALWAYS = ("torch", "numpy")


def describe(backend: str, threads: int, device: str = "cpu") -> dict[str, Any]:
    """Return ``{"checked": ..., "machine": ...}``; nothing in it changes between two runs on the same installation."""
    return {"checked": checked(backend, threads, device), "machine": machine()}


def checked(backend: str, threads: int, device: str = "cpu") -> dict[str, Any]:
    """Return what must be equal for records to be compared; own engines add the hash of their sources."""
    kind = config_class(backend)
    values: dict[str, Any] = {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        "python": platform.python_version(),
        "packages": {name: installed(name) for name in dict.fromkeys((*ALWAYS, *kind.packages))},
        "protocol": PROTOCOL,
    }
    if device.startswith("cuda"):
        values["gpu"] = gpu_models()
    if kind.engine != "peer":
        values["sources"] = source_hash(backend)
        values["kernels"] = "native" if kernels_built() else "plain torch"
    return values


def machine() -> dict[str, Any]:
    """Return kernel, C library, memory [bytes] and the CPU's cache sizes [bytes] per level."""
    return {
        "system": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "memory": total(),
        "caches": cache_sizes(),
    }


def cpu_model() -> str:
    """The processor's name as the kernel gives it."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found.group(1) if found else platform.machine()


def gpu_models() -> list[str]:
    """Names of the NVIDIA devices that the kernel driver knows, with its version."""
    names = []
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        names += re.findall(r"^Model:\s*(.+)$", path.read_text(), re.M)
    driver = Path("/sys/module/nvidia/version")
    return [*names, f"driver {driver.read_text().strip()}"] if driver.exists() else names


def cache_sizes() -> dict[str, int]:
    """Bytes of each cache that serves data to the first core."""
    sizes = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if (index / "type").read_text().strip() != "Instruction":
            text = (index / "size").read_text().strip()
            sizes[f"L{(index / 'level').read_text().strip()}"] = int(text.rstrip("K")) * 1024
    return sizes


def installed(package: str) -> str | None:
    """Version of a package of this interpreter, ``None`` when it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def kernels_built() -> bool:
    """Whether the compiled kernels are on the import path; looked for by name, since importing them imports torch."""
    return any(any(Path(place).glob("backends/kernels/_native.*.so")) for place in sys.path)


def source_hash(backend: str) -> str:
    """Hash the sources that an own engine runs: its folder, the kernels, the data sets, and what they share."""
    folders = [ROOT / "backends" / name for name in (backend, "base", "parallel", "kernels")] + [ROOT / "datasets"]
    files = {path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".cpp", ".h", ".hpp")}
    digest = hashlib.sha256()
    for path in sorted(files | set((ROOT / "backends").glob("*.py"))):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    if plugin := plugins("backends").get(backend):
        digest.update(plugin.source_hash().encode())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    print(json.dumps(describe(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
