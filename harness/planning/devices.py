"""Which devices this machine has, asked before a graph is read or made for one that is absent; without torch."""

import ctypes
from functools import cache
from pathlib import Path

OTHER_DRIVER = Path("/dev/kfd")  # of AMD's devices, which torch calls cuda too and NVIDIA's driver does not count


def missing_device(device: str) -> str | None:
    """Say in one sentence that a ``device`` is not on this machine, or ``None``."""
    kind, _, number = device.partition(":")
    if kind != "cuda" or OTHER_DRIVER.exists() or int(number or 0) < (count := cuda_devices()):
        return None
    return (
        f"device={device}: the driver finds {count} CUDA devices here; set device=cpu, or plan for another machine "
        "with `python -m harness plan --out DIR`"
    )


@cache
def cuda_devices() -> int:
    """Devices that NVIDIA's driver lets this process use; none where no driver is installed."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value
