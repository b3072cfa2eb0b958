"""Environment of a cell: processor, packages, protocol, which must be equal for records to be compared.

The code that ran is added by ``harness.measure.sources`` when the record is written. No torch is needed. As a program
(``python -m harness.measure.environment BACKEND THREADS DEVICE``) it describes another interpreter.
"""

import json
import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from backends.registry import config_class
from harness.measure.memory import total
from harness.store.versions import PROTOCOL

ALWAYS = ("torch", "numpy")


def describe(backend: str, threads: int, device: str = "cpu") -> dict[str, Any]:
    """Return ``{"checked": ..., "machine": ...}``, the same for all runs on one installation."""
    return {"checked": checked(backend, threads, device), "machine": machine()}


def checked(backend: str, threads: int, device: str = "cpu") -> dict[str, Any]:
    """Return what must be equal for records to be compared, as far as it is known before a cell starts."""
    config = config_class(backend)
    values: dict[str, Any] = {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        "python": platform.python_version(),
        "packages": {name: installed(name) for name in dict.fromkeys((*ALWAYS, *config.packages))},
        "protocol": PROTOCOL,
    }
    if device.startswith("cuda"):
        values["gpu"] = gpu_models()
    if config.kind != "peer":
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
    line = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return line.group(1) if line else platform.machine()


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
    """Whether the compiled kernels are on the import path, by their file names: importing them would import torch."""
    return any(any(Path(place).glob("backends/kernels/_native.*.so")) for place in sys.path)


if __name__ == "__main__":
    print(json.dumps(describe(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
