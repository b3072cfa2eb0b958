"""Rows of a table: the records that count for each engine, and the numbers derived from them."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

from backends.registry import usable_class
from harness.measure.crowds import crowds, oversubscribed
from harness.report import load
from harness.report.current import Environments, current_records
from harness.store import shape, shortened, statistics
from harness.store.files import by_age
from harness.store.naming import has_lent_loss, labels
from harness.store.record import Record, StoredRecord
from harness.store.samples import by_process, first_calls, seconds
from harness.store.shape import Doubt
from harness.store.statistics import Summary


@dataclass
class Row:
    """One engine in one table: the records of one execution config, over its seeds.

    Durations are seconds, memory bytes. ``cells`` holds the records that count; ``older`` how many do not, because
    newer ones or another environment or protocol have superseded them. ``earlier`` are those of them that are beyond
    doubt and of the environment of ``cells``. ``ratio`` is to the fastest peer of the same groups. ``cores`` are those
    of the machine.
    """

    label: str
    cells: list[StoredRecord]
    older: int = 0
    earlier: list[Record] = field(default_factory=list)
    ratio: Summary | None = None
    ratio_to: str = ""
    lower_precision: bool = False
    cores: float = inf
    ok: list[Record] = field(init=False)

    def __post_init__(self) -> None:
        self.ok = [record for _, record in self.cells if record["status"] == "ok"]

    @property
    def record(self) -> Record:
        """The first good record of the row, else the first."""
        return self.ok[0] if self.ok else self.cells[0][1]

    @cached_property
    def time(self) -> Summary | None:
        """Seconds of the timed call, whole epochs also where only some batches were timed."""
        return statistics.summarize(list(self.samples().values())) if self.ok else None

    @cached_property
    def first_call(self) -> float | None:
        """Seconds of a call that follows another engine's: the median over processes; None before protocol 3."""
        firsts = [by_process(record, first_calls(record)) for record in self.ok if "first" in record["epochs"]]
        medians = [statistics.median(values) for processes in firsts for values in processes.values()]
        return statistics.median(medians) if medians else None

    def first_call_of_all(self) -> float | None:
        """Median over processes of the seconds of their very first timed call; None where no record tells.

        Where only some batches of an epoch were timed, the others are added at the speed of later calls.
        """
        calls = []
        for record in self.ok:
            others = (record.get("extrapolated", 1.0) - 1.0) * statistics.median(record["epochs"]["seconds"])
            firsts = [process["first_call"] for process in record.get("processes", ()) if "first_call" in process]
            calls += [first + others for first in firsts]
        return statistics.median(calls) if calls else None

    def working_set(self) -> float | None:
        """Bytes that the timed calls need beyond the prepared state; where unknown the growth of one call."""
        known = self.median("memory", "working_set")
        return self.median("memory", "peak_minus_resident") if known is None else known

    def memory_beside(self, other: "Row") -> float | None:
        """Memory that the calls need as a multiple of another row's, by what both of them recorded."""
        for key in ("working_set", "peak_minus_resident"):
            own, others = self.median("memory", key), other.median("memory", key)
            if own is not None and others:
                return own / others
        return None

    @cached_property
    def doubts(self) -> list[Doubt]:
        """What speaks against the median: the shape of the samples, load beside them, a gate that was left out."""
        if not self.ok:
            return []
        crowded = [load.oversubscribed(self.record, self.shared)] if self.shared else []
        if not (self.timed or crowded):
            return _unchecked(self.record)
        of_samples = shape.doubts(list(self.samples().values()))
        shared = [*crowded, *load.beyond_threads(self.record, self.busy(), self.cores), *load.doubts(self.ok)]
        return [*of_samples, *shared, *shortened.doubts(self.ok), *_unchecked(self.record)]

    @property
    def kind(self) -> str:
        """Whether the engine is ``native``, a ``peer`` or for a ``test``; one that is not installed here is a peer."""
        backend = usable_class(self.record["config"]["backend"]["name"])
        return "peer" if backend is None else backend.kind

    @property
    def native(self) -> bool:
        """Whether this is one of our engines."""
        return self.kind == "native"

    @property
    def own_loss(self) -> bool:
        """Whether the engine computed its own loss, not one lent to compare two engines at equal losses."""
        return not has_lent_loss(self.record["config"])

    @property
    def ours(self) -> bool:
        """Whether this is one of our engines as it is."""
        return self.native and self.own_loss and not self.inline

    @property
    def peer(self) -> bool:
        """Whether this is a peer as it is."""
        return self.kind == "peer" and self.own_loss and not self.inline

    @property
    def uses_library(self) -> bool:
        """Whether this is a peer with a library for graphs; the other peers are plain torch."""
        backend = usable_class(self.record["config"]["backend"]["name"])
        return self.peer and (backend is None or bool(backend.packages))

    @property
    def fastest_peer(self) -> bool:
        """Whether this is the peer that the other rows are compared with."""
        return self.peer and self.ratio_to == self.label

    @property
    def dtype(self) -> str:
        """Precision of the run."""
        return str(self.record["config"].get("training", {}).get("dtype", "float32"))

    @property
    def shared(self) -> float:
        """What more threads, workers or ranks than there are had to share, 0 where nothing was; of old records too."""
        record = self.record
        if not self.ok or record["config"]["device"] != "cpu":
            return 0.0
        counted = oversubscribed(record["config"]["threads"], crowds(record["facts"]), self.cores)
        return float((counted | record["facts"]).get("oversubscribed") or 0.0)

    @property
    def oversubscribed(self) -> bool:
        """Whether threads or workers were more than the cores, or ranks than cores or threads: no speed."""
        return self.shared > 0

    @property
    def extrapolated(self) -> bool:
        """Whether whole epochs were not timed, but some of their batches."""
        return any("extrapolated" in record for record in self.ok)

    @property
    def extrapolated_seeds(self) -> set[int]:
        """The seeds of which only some batches were timed."""
        return {record["config"]["seed"] for record in self.ok if "extrapolated" in record}

    def timed_otherwise(self, other: "Row", seeds: Collection[int] | None = None) -> bool:
        """Whether one of two rows alone timed whole epochs, of one of some ``seeds``, or of one that both have."""
        both = {record["config"]["seed"] for record in self.ok} & {record["config"]["seed"] for record in other.ok}
        both = both if seeds is None else both.intersection(seeds)
        return self.extrapolated_seeds & both != other.extrapolated_seeds & both

    @property
    def simulated(self) -> bool:
        """Whether the engine's clock is simulated: such seconds are no speed."""
        return bool(self.ok) and self.record["facts"].get("clock") == "simulated"

    @property
    def inline(self) -> bool:
        """Whether one process, the harness's own, stood for all fresh ones: such seconds are no speed."""
        return bool(self.record["config"].get("launcher", {}).get("name") == "inline")

    @property
    def timed(self) -> bool:
        """Whether the run measures time: scores take one sample, crowded cores and ``inline`` are no speed."""
        if self.oversubscribed or self.inline:
            return False
        return int(self.record["config"].get("measure", {}).get("max_samples", 2)) > 1

    @property
    def alone(self) -> bool:
        """Whether the cell of a seed ran out of memory beside others and was measured alone after them."""
        return any(record.get("alone") for record in self.ok)

    def samples(self) -> dict[str, list[float]]:
        """Seconds of the timed call by group, run and fresh process."""
        return _by_pass(self.ok)

    def paired_samples(self) -> dict[str, list[float]]:
        """The samples that ratios may be formed of, inside one pass of a run: no other cell ran beside one alone."""
        return _by_pass(record for record in self.ok if not record.get("alone"))

    def paired_samples_of_all_runs(self) -> dict[str, list[float]]:
        """The same of all runs of this environment, for ratios to engines that the newest ones left out."""
        return _by_pass(record for record in [*self.ok, *self.earlier] if not record.get("alone"))

    def values(self, *keys: str) -> list[float]:
        """The numbers at nested ``keys`` of the good records, as far as they are there."""
        numbers = [_at(record, keys) for record in self.ok]
        return [float(value) for value in numbers if isinstance(value, int | float)]

    def median(self, *keys: str) -> float | None:
        """Median over the good records of the numbers at nested ``keys``."""
        values = self.values(*keys)
        return statistics.median(values) if values else None

    def phases(self) -> dict[str, float]:
        """Median seconds of each phase of the timed call; ``rest`` is the time outside all phases."""
        named: dict[str, list[float]] = {}
        for record in self.ok:
            factor, epochs = record.get("extrapolated", 1.0), record["epochs"]
            durations = {
                name: statistics.median(values) * factor for name, values in epochs["phases"].items() if values
            }
            durations["rest"] = max(0.0, statistics.median(epochs["seconds"]) * factor - sum(durations.values()))
            for name, value in durations.items():
                named.setdefault(name, []).append(value)
        return {name: statistics.median(values) for name, values in named.items()}

    def parts(self) -> dict[str, float]:
        """Median seconds of the timed call by what they are for; empty where no record tells."""
        names = dict.fromkeys(name for record in self.ok for name in record["facts"].get("parts", {}))
        return {name: self.median("facts", "parts", name) or 0.0 for name in names}

    def torch_calls(self) -> float | None:
        """Operations of torch in a timed call that no other operation called."""
        return self.median("facts", "torch_calls")

    def prepare(self) -> dict[str, float]:
        """Median seconds of each phase of the preparation, which is done once."""
        names = dict.fromkeys(name for record in self.ok for name in record.get("prepare", {}))
        return {name: statistics.median(self.values("prepare", name)) for name in names}

    def busy(self) -> float | None:
        """CPU seconds per wall second of the timed call."""
        shares = [
            statistics.median(record["epochs"]["cpu_seconds"]) / statistics.median(record["epochs"]["seconds"])
            for record in self.ok
            if record["epochs"]["cpu_seconds"]
        ]
        return statistics.median(shares) if shares else None

    @property
    def metric(self) -> str:
        """Name of the row's score, ``score`` where no seed has one."""
        return next((str(record["metrics"]["name"]) for record in self.ok if record.get("metrics")), "score")

    def time_to_accuracy(self) -> float | None:
        """Epochs to the target times the timed epoch, seconds; none unless every seed reached the target."""
        durations = []
        for record in self.ok:
            epochs = record.get("metrics", {}).get("epochs_to_target")
            if epochs is None:
                return None
            durations.append(epochs * statistics.median(seconds(record)))
        return statistics.median(durations) if durations else None

    def outlying(self) -> int:
        """Samples far from their process's median; they count like the others."""
        return sum(len(statistics.outliers(samples)) for samples in self.samples().values())

    def disturbed(self) -> int:
        """Samples that were repeated because something else used the processor."""
        return sum(len(record["epochs"]["disturbed"]) for record in self.ok)


def _unchecked(record: Record) -> list[Doubt]:
    """Name a gate that was left out: the seconds may be of other results than the definition's."""
    if record["config"].get("measure", {}).get("parity", True):
        return []
    return [Doubt("unchecked", "the parity gate was left out", "measure.parity=true")]


def _by_pass(records: Iterable[Record]) -> dict[str, list[float]]:
    return {
        f"{record['group']} {record.get('run', '')} {process}": samples
        for record in records
        for process, samples in by_process(record, seconds(record)).items()
    }


def rows(records: Iterable[StoredRecord], environments: Environments) -> list[Row]:
    """Gather the records of one table into rows, fastest first, failed ones last, each with its ratio."""
    cells: dict[str, dict[str, list[StoredRecord]]] = {}
    for path, record in records:
        interpreter = record["config"].get("launcher", {}).get("python") or ""
        cells.setdefault(str(path.parent), {}).setdefault(interpreter, []).append((path, record))
    table = [_row_of(stored, environments) for stored in _of_equal_interpreters(cells, environments)]
    for row, name in zip(table, labels([row.record for row in table]), strict=True):
        row.label = name
    table.sort(key=lambda row: (row.time.median if row.time else float("inf"), row.label))
    for row in table:
        _add_ratio(row, table)
    return table


def _of_equal_interpreters(
    cells: Mapping[str, Mapping[str, list[StoredRecord]]], environments: Environments
) -> list[list[StoredRecord]]:
    """Join the records of a cell under interpreters that make no difference; ``cells`` are by folder, then interpreter.

    They make none where Python, the packages and the source of mini batches are the same in their newest records. An
    interpreter without an optional package does not hide what another one measured.
    """
    joined: dict[tuple[str, str], list[StoredRecord]] = {}
    for folder, interpreters in cells.items():
        newest = {interpreter: max(stored, key=by_age)[1] for interpreter, stored in interpreters.items()}
        able = [name for name, record in newest.items() if record["status"] not in ("unsupported", "not_installed")]
        for name in able or newest:
            today = environments.get(newest[name]["environment"], {}).get("checked", {})
            source = _at(newest[name], ("facts", "batches_by"))
            same = [today.get("python"), today["packages"], source] if "packages" in today else name
            joined.setdefault((folder, json.dumps(same, sort_keys=True)), []).extend(interpreters[name])
    return list(joined.values())


def _row_of(records: Sequence[StoredRecord], environments: Environments) -> Row:
    """The row of the records that count, which knows how many do not, and the cores of their machine."""
    current, others = current_records(records, environments)
    values = environments.get(current[0][1]["environment"], {}).get("checked", {})
    cores = min(float(values.get("cores", inf)), float(values.get("cpu_quota", inf)))
    earlier = [Row("", [stored], cores=cores) for stored in others]
    good = [row.record for row in earlier if row.ok and not row.doubts]
    return Row("", current, len(records) - len(current), good, cores=cores)


def ratio_of(above: Row, below: Row) -> Summary | None:
    """Time of one row over that of another inside their groups; None without a common one, or where one is no speed."""
    if any(row.oversubscribed or row.simulated or row.inline for row in (above, below)):
        return None
    ratio = statistics.paired_ratio(above.paired_samples(), below.paired_samples())
    if ratio is None and (above.earlier or below.earlier):
        # A later sweep of some of the engines must not take away their ratios to the others.
        return statistics.paired_ratio(above.paired_samples_of_all_runs(), below.paired_samples_of_all_runs())
    return ratio


def _add_ratio(row: Row, table: Sequence[Row]) -> None:
    """Compare with the fastest peer of the same groups, in the same precision if there is one."""
    peers = [other for other in table if other.peer]
    for peer in sorted(peers, key=lambda peer: peer.dtype != row.dtype):
        if ratio := ratio_of(row, peer):
            row.ratio, row.ratio_to, row.lower_precision = ratio, peer.label, peer.dtype != row.dtype
            return


def _at(record: Record, keys: Sequence[str]) -> Any:
    value: Any = record
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
