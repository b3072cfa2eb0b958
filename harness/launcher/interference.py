"""CPU time that others took from a sample: the group's waiting cells, other programs, the hypervisor (steal)."""

import math
import os
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.launcher.process import cpu_ticks, stat_fields

TICK = 1.0 / os.sysconf("SC_CLK_TCK")
QUIET_SHARE = 0.01  # of the sample's CPU time, which waiting cells may use
LOAD_SHARE = 0.05  # of the cell's cores, which other programs may use ...
LARGEST_LOAD = 0.5  # ... but no more cores than this: one busy core holds up all threads of a parallel loop
SPARE_SHARE = 0.5  # of the cores that the cell leaves free, which other programs may use
STEAL_SHARE = 0.05  # of the CPU time that was asked for
QUIET_TICKS = 2  # by which a counter of whole ticks may be off


@dataclass(frozen=True)
class Reading:
    """Counters at one moment, seconds; ``busy`` and ``stolen`` of the cores that this process may use.

    They are ``None`` where the kernel does not tell them.
    """

    clock: float
    ours: float
    waiting: float
    busy: float | None
    stolen: float | None


@dataclass(frozen=True)
class Interference:
    """What others did during one sample, seconds; ``others`` and ``stolen`` are ``None`` where that is unknown."""

    seconds: float
    waiting: float
    busy: float | None
    others: float | None
    stolen: float | None

    def disturbs(self, cpu_seconds: float, threads: int, cores: int) -> bool:
        """Whether a sample that used ``cpu_seconds`` on ``threads`` of ``cores`` cores is disturbed."""
        if self.waiting > max(QUIET_SHARE * cpu_seconds, QUIET_TICKS * TICK):
            return True
        tolerated = tolerated_load(threads, cores)
        inexact = QUIET_TICKS * TICK * (1 + math.sqrt(cores))  # errors of the cores' counters are independent
        if self.others is not None and self.others > max(tolerated * self.seconds, inexact):
            return True
        demand = (self.busy or 0.0) + (self.stolen or 0.0)
        return self.stolen is not None and self.stolen > max(STEAL_SHARE * demand, inexact)


def tolerated_load(threads: int, cores: int) -> float:
    """Cores that other programs may keep busy beside a cell on ``threads`` of ``cores`` cores."""
    used = min(threads, cores)
    return min(LOAD_SHARE * used, LARGEST_LOAD) + SPARE_SHARE * (cores - used)


def read(sampled: Collection[int], waiting: Collection[int], first: bool) -> Reading:
    """Read the counters; ``sampled`` and ``waiting`` are process trees.

    The ``first`` of two readings reads our own counters before the machine's, the second after them, so that nothing
    of ours is taken for another program's.
    """
    machine = None if first else _machine()
    idle = cpu_ticks(waiting)
    ours = idle + cpu_ticks(sampled) + sum(map(int, stat_fields(os.getpid())[11:15]))
    busy, stolen = machine or _machine()
    return Reading(time.monotonic(), TICK * ours, TICK * idle, busy, stolen)


def between(before: Reading, after: Reading) -> Interference:
    """Return what others did between two readings."""
    busy = None if before.busy is None or after.busy is None else after.busy - before.busy
    stolen = None if before.stolen is None or after.stolen is None else max(0.0, after.stolen - before.stolen)
    others = None if busy is None else max(0.0, busy - (after.ours - before.ours))
    return Interference(after.clock - before.clock, max(0.0, after.waiting - before.waiting), busy, others, stolen)


def _machine() -> tuple[float | None, float | None]:
    """Seconds for which the cores of this process were busy, and for which the hypervisor held them back."""
    with suppress(OSError, ValueError):
        return cores_of(Path("/proc/stat").read_text(), os.sched_getaffinity(0))
    return None, None


def cores_of(text: str, cores: Collection[int]) -> tuple[float | None, float | None]:
    """Busy and stolen seconds of some cores from the text of ``/proc/stat`` (proc(5)).

    Interrupts are left out: they belong to no program. Sandboxes show zeros, old kernels no steal: both are unknown.
    """
    named = {f"cpu{core}" for core in cores}
    lines = [line.split() for line in text.splitlines()]
    counters = [[int(value) for value in line[1:]] for line in lines if line and line[0] in named]
    if not any(map(any, counters)):
        return None, None
    busy = TICK * sum(sum(one[:3]) for one in counters)
    stolen = TICK * sum(one[7] for one in counters) if all(len(one) > 7 for one in counters) else None
    return busy, stolen
