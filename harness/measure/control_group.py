"""Limits of the control groups that this process is in, on memory and processors; the kernel's versions 1 and 2."""

import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
UNLIMITED = 1 << 60  # version 1 writes a number near 2^63 where there is no limit


def memory_limit() -> int | None:
    """Bytes that all processes of the tightest group may use together, ``None`` without a limit."""
    files = (("", "memory.max"), ("memory", "memory.limit_in_bytes"))
    limits = [int(text) for controller, name in files for text in _texts(controller, name) if text.isdigit()]
    return min((limit for limit in limits if limit < UNLIMITED), default=None)


def cpu_quota() -> float | None:
    """Processors' worth of time that the tightest group may use, ``None`` without a quota."""
    quotas = [text.split() for text in _texts("", "cpu.max")]
    pairs = (_texts("cpu", f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    quotas += [list(pair) for pair in zip(*pairs, strict=False)]
    numbers = [pair for pair in quotas if len(pair) == 2 and all(part.isdigit() for part in pair) and int(pair[1])]
    return min((int(quota) / int(period) for quota, period in numbers), default=None)


def usable_cores() -> float:
    """Cores that this thread and those that it starts can keep busy: of its affinity, no more than the quota."""
    cores, quota = len(os.sched_getaffinity(0)), cpu_quota()
    return cores if quota is None else min(cores, quota)


def _texts(controller: str, name: str) -> Iterator[str]:
    """What a file says in this process's group and in the groups around it; those that cannot be read are left out."""
    for folder in _folders(controller):
        try:
            yield (folder / name).read_text().strip()
        except OSError:
            continue


def _folders(controller: str) -> list[Path]:
    try:
        lines = [line.split(":", 2) for line in OWN.read_text().splitlines()]
    except OSError:
        lines = []
    # A container sees its own group as the root, while its path may name the host's.
    folders = dict.fromkeys([ROOT / controller])
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controller in controllers.split(","):
            below = ROOT / controller / path.strip("/")
            folders |= dict.fromkeys(
                [below, *(parent for parent in below.parents if ROOT / controller in parent.parents)]
            )
    return list(folders)
