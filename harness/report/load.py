"""What shared the cores with the samples of a row, from its records: other programs, the hypervisor, its own ranks."""

import math
from collections.abc import Sequence

from harness.measure.crowds import asked_for, crowds
from harness.store.record import Record
from harness.store.shape import Doubt
from harness.store.statistics import median

STEAL = 0.05  # of the CPU time
MOST_BUSY = 1.1  # cores for each thread: clocks of processes tick in hundredths of a second


def doubts(records: Sequence[Record]) -> list[Doubt]:
    """Name load or steal above a bound in most of the processes: repeating their samples did not help."""
    processes = [process for record in records for process in record.get("processes", ())]
    named: list[Doubt] = []
    loads = [process["load"] for process in processes if "load" in process]
    excess = [process["load"] - process["tolerated_load"] for process in processes if "tolerated_load" in process]
    if excess and median(excess) > 0:
        named.append(Doubt("load", f"other programs kept {median(loads):.2g} cores busy", "an idle machine"))
    stolen = [process["steal"] for process in processes if "steal" in process]
    if stolen and median(stolen) > STEAL:
        named.append(Doubt("steal", f"the hypervisor kept back {median(stolen):.0%} of the time", "another machine"))
    return named


def beyond_threads(record: Record, busy: float | None, cores: float) -> list[Doubt]:
    """Name an engine that kept more cores ``busy`` than the cell's threads: those beside it had fewer.

    Workers of a strategy may have a core each. Where threads are as many as ``cores``, none is left to keep busy.
    """
    threads = int(record["config"]["threads"])
    is_bound = threads < cores < math.inf and "backend.workers" not in crowds(record["facts"])
    if busy is None or busy <= MOST_BUSY * threads or not is_bound:
        return []
    what = f"{busy:.2g} cores were busy with threads={threads}"
    return [Doubt("threads", what, f"threads={math.ceil(busy)} for all, or fewer loaders")]


def oversubscribed(record: Record, shared: float) -> Doubt:
    """Name what had to share so many cores, or ranks that take more of them than the cell's threads."""
    facts = record["facts"]
    threads = int(record["config"]["threads"])
    counts = (asked_for(record["config"]["backend"]) | crowds(facts)).items()
    setting, asked = next(((name, count) for name, count in counts if count > max(shared, 1)), ("threads", threads))
    cores = "1 core" if shared == 1 else f"{shared:g} cores"
    beside = f"shared {cores}" if shared < threads else f"with threads={threads}"
    remedy = f"{setting}={int(shared)} at most" if shared >= 1 else "a quota of at least one core"
    return Doubt("oversubscribed", f"{asked} {setting.removeprefix('backend.')} {beside}: no speed", remedy)
