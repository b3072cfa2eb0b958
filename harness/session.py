"""The work of one cell, from loading its graph to the facts of its record, in a process of its own or inline."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from backends.memory_errors import unless_out_of_memory
from backends.registry import load_object
from datasets.graph import Graph
from harness.launcher.failure import CellFailed
from harness.launcher.messages import Event, Opened, PlannedCell, TimedSample
from harness.measure import control_group, environment, memory, memory_pass, shared_values
from harness.measure.clock import Clock, PageFaults, cpu_seconds, page_faults
from harness.measure.crowds import crowds, oversubscribed
from harness.measure.sources import loaded_modules
from harness.planning.schema import RunConfig, from_dict
from harness.scenario import Scenario, scenario_class
from harness.verify import gate_of
from harness.verify.outcome import Incorrect

if TYPE_CHECKING:
    from harness.measure.limits import Machine

BATCH_LIMIT = 8
PROFILED = 20.0  # seconds of the longest call that is profiled
Json = dict[str, Any]


class Call(TypedDict):
    """One timed call, seconds."""

    seconds: float
    cpu_seconds: float
    phases: dict[str, float]
    loss: float | None


class Session:
    """Answers the requests of one cell; failures are raised, events on the way go to ``tell``."""

    def __init__(self, cell: PlannedCell, tell: Callable[[Event], None]) -> None:
        self.cell, self.tell = cell, tell
        self.config: RunConfig = from_dict(RunConfig, dict(cell["config"]))
        self.cores = control_group.usable_cores()  # before a library binds this thread to one of them
        self.index = 0
        self.prepared = 0  # anonymous bytes before the first call
        self.first_call: float | None = None
        self.extrapolated: float | None = None
        self.closed = True
        self.facts_answer: Json | None = None
        self.loading = Clock()

    def start(self) -> None:
        """Tell the environment and import the engine; cells of a group may do this side by side."""
        config, backend = self.config, self.config.backend
        packages = backend.packages_used(config.scenario.name, config.trains_no_mini_batches)
        description = environment.describe(
            backend.name, config.threads, config.device, config.launcher.allocator, packages
        )
        self.tell({"event": "environment", "environment": description})
        with self.loading.phase("import"):
            self._import_engine()
        self._use_device()
        self.tell_modules()

    def tell_modules(self) -> None:
        """Tell which modules are loaded: the record stays valid while their code is unchanged."""
        paths = type(self.config.backend).__module__, self.config.backend.runtimes.get(self.config.scenario.name, "")
        packages = {path.replace(":", ".").partition(".")[0] for path in paths} - {"", "__main__"}
        self.tell({"event": "modules", "modules": loaded_modules(packages)})

    def open(self, first: bool = True, batch_limit: int | None = None) -> Opened:
        """Load, prepare, verify and warm up; answers with the record keys that are known then.

        Only the ``first`` process of a cell verifies; the later ones take the ``batch_limit`` that it chose.
        """
        config = self.config
        with self.loading.phase("load"):
            self.graph = self._graph()
        self.scenario = self._scenario()
        limit = self._prepare_with_limit() if first else self._prepare(batch_limit)
        facts = dataset_facts(self.graph) | self._structure()
        answer: Opened = {"dataset": facts, "prepare": self.loading.seconds | self.preparing.seconds}
        before = memory.anonymous()
        answer["parity"] = self._verify() if first else None
        memory_pass.trim()
        answer["resident"] = memory.resident()
        # The libraries that the gate loaded stay resident and are no memory of the timed call.
        self.prepared += max(0, memory.anonymous() - before)
        answer["warmup"] = [self._call()["seconds"] for _ in range(config.measure.warmup)]
        answer["warm_call"] = self._warm_call(answer["warmup"])
        answer["first_call"] = self.first_call
        self.extrapolated = self.scenario.plan.extrapolation if limit else None
        answer["extrapolated"], answer["batch_limit"] = self.extrapolated, limit
        if cuda := self._cuda():
            answer["device_share"] = cuda.memory_reserved() / cuda.mem_get_info()[1]
        self.tell_modules()
        return answer

    def _import_engine(self) -> None:
        """Import what the engine would import in its first calls, so that its phases time its own work only."""
        load_object(self.config.backend.runtimes[self.config.scenario.name])
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(self.config.threads)
            if self.config.scenario.name in ("train", "spmm"):
                torch.zeros(1, requires_grad=True).backward(torch.ones(1))
            if self.config.scenario.name == "train":
                torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])

    def _graph(self) -> Graph:
        folder = self.cell["graph"]
        if not folder or not Path(folder).is_dir():
            name = self.config.dataset.name
            raise CellFailed("error", f"no prepared graph of {name} at {folder}: plan again, --with-data for elsewhere")
        return Graph.load(Path(folder))

    def _scenario(self) -> Scenario:
        scenario: Scenario = scenario_class(self.config.scenario.name)(self.config, self.graph)
        return scenario

    def _structure(self) -> Json:
        """Density, tiles and degrees of the ordered graph, read from the file that preparation wrote beside it."""
        path = Path(self.cell["graph"] or "") / "structure.json"
        return {"structure": json.loads(path.read_text())} if path.is_file() else {}

    def _prepare(self, limit: int | None) -> int | None:
        self.preparing = Clock(synchronize=self._synchronize)
        self.closed = False
        self.first_call = None
        self.scenario.prepare(self.preparing, limit)
        memory_pass.trim()
        self.prepared = memory.anonymous()
        return limit

    def _prepare_with_limit(self) -> int | None:
        """Prepare, for a few batches per epoch where whole epochs would take too long; returns that limit."""
        scenario, configured = self.scenario, self.config.training.batch_limit
        if configured or scenario.batches <= BATCH_LIMIT:
            return self._prepare(configured if configured and configured < scenario.batches else None)
        self._prepare(BATCH_LIMIT)
        seconds = [self._call()["seconds"] for _ in range(2)][-1]
        if seconds * scenario.batches / BATCH_LIMIT > self.config.measure.max_seconds:
            return BATCH_LIMIT
        self.close()
        del scenario, self.scenario
        # What the first engine derived from the graph, such as its transpose, stays with that graph.
        self.graph = self._graph()
        self.scenario = self._scenario()
        return self._prepare(None)

    def _verify(self) -> Json | None:
        if not self.config.measure.parity:
            return None
        gate, parity = gate_of(self.config.scenario.name), Json()
        for backend in self.scenario.gate_configs():
            options = {key: value for key, value in vars(backend).items() if value != vars(self.config.backend)[key]}
            name = "".join(f", {key}={value}" for key, value in options.items())
            try:
                answer = gate(replace(self.config, backend=backend), self.graph)
            except Incorrect as wrong:
                raise CellFailed("incorrect", f"{wrong}{name}", parity=wrong.parity) from wrong
            parity |= {f"{part}{name}": compared for part, compared in answer.items()}
        return parity

    def sample(self, calls: int = 1) -> TimedSample:
        """Run the timed call once and discard it, then ``calls`` times: their mean is the sample.

        The discarded call finds caches and threads as the cell before left them.
        """
        first = self._call()
        before = page_faults()
        counted = [self._call() for _ in range(calls)]
        answer = mean_of(first["seconds"], counted, page_faults().since(before))
        if cuda := self._cuda():
            answer["device_peak"] = int(cuda.max_memory_allocated())
        return answer

    def _warm_call(self, warmup: Sequence[float]) -> float | None:
        """Seconds of a warm call: of the last warm-up where that is long, else the median of some more calls."""
        if not warmup or self.scenario.now is not None or warmup[-1] > self.config.measure.turn_seconds / 2:
            return warmup[-1] if warmup else None
        calls, end = [self._call()["seconds"]], time.perf_counter() + self.config.measure.repeat_seconds
        while time.perf_counter() < end:
            calls.append(self._call()["seconds"])
        return float(np.median(calls))

    def _call(self) -> Call:
        self.scenario.draw(self.index)
        clock = Clock(self.scenario.now or time.perf_counter, self._synchronize)
        cpu, start = cpu_seconds(), clock.now()
        loss = self.scenario.run(self.index, clock)
        seconds = clock.now() - start
        self.index += 1
        if self.first_call is None:
            self.first_call = seconds
        if loss is not None and not np.isfinite(loss):
            advice = "lower training.rate, or scale large features"
            raise CellFailed("error", f"the loss of epoch {self.index - 1} is {loss}: {advice}")
        cpu = cpu_seconds() - cpu
        return {"seconds": seconds, "cpu_seconds": cpu, "phases": clock.seconds, "loss": loss}

    def trim(self) -> Json:
        """Return unused memory to the kernel before the memory pass.

        Answers with the bytes that stay resident, and those that the calls so far have left there (``retained``).
        Results of the last call that the scenario holds are freed before.
        """
        self.scenario.release()
        memory_pass.trim()
        if cuda := self._cuda():
            cuda.empty_cache()
            cuda.reset_peak_memory_stats()
        return {"resident": memory.resident(), "retained": max(0, memory.anonymous() - self.prepared)}

    def memory_growth(self) -> Json:
        """Run the timed call once; answers with the largest growth of this process and of its ranks, bytes.

        Where memory does not hold it with all of its large blocks mapped, the answer is a ``status`` alone.
        """
        return unless_out_of_memory(self._growth_of_a_call)

    def _growth_of_a_call(self) -> Json:
        answer: Json = {"growth": memory_pass.growth_of(self._call)}
        return answer | ({"device_peak": int(cuda.max_memory_allocated())} if (cuda := self._cuda()) else {})

    def accuracy(self) -> Json:
        """Train from the initial state to the end; answers with the validation curve and the metrics."""
        last = time.monotonic()

        def progress(epoch: int, score: float) -> None:
            nonlocal last
            if time.monotonic() - last >= 1.0:
                last = time.monotonic()
                self.tell({"event": "accuracy", "epoch": epoch, "score": score})

        return self.scenario.accuracy(progress)

    def facts(self) -> Json:
        """Answer with facts and metrics of the calls so far."""
        facts, metrics = self.scenario.facts(), self.scenario.metrics()
        if self.scenario.now is not None:
            facts["clock"] = "simulated"
        else:
            facts |= self._crowded(facts)
        self.facts_answer = plain({"facts": facts, "metrics": metrics})
        return self.facts_answer

    def finish(self, shared: Json | None = None, seconds: float | None = None) -> Json:
        """Answer with facts and what an epoch's seconds are for, metrics, hit rates and limits; then close the engine.

        ``shared`` are values that other cells of the group computed; the answer's ``shared`` adds those of this one.
        ``seconds`` is the cell's time of a timed call over all of its processes.
        """
        shared_values.adopt(shared or {})
        known = self.facts_answer or self.facts()
        facts, metrics, operands = known["facts"], known["metrics"], self._operands()
        if self.config.measure.limits and seconds is not None and self.scenario.now is None and not self._cuda():
            facts |= self._parts(seconds)
        # Before the machine is measured: a change of the kernels that this takes must not make a peer's record stale.
        self.tell_modules()
        answer = {"facts": facts, "metrics": metrics, "cache": self._cache(operands)}
        answer["limits"] = self._limits(facts, operands or (), seconds)
        answer["shared"] = shared_values.snapshot()
        self.close()
        return plain(answer)

    def close(self) -> None:
        """Close the engine unless it is closed already."""
        if not self.closed:
            self.closed = True
            self.scenario.close()

    def _operands(self) -> list[Json] | None:
        """The matrices of the timed call; None where the engine does not tell them or nothing is modelled from them."""
        needed = self.config.measure.cache == "simulate" or self.config.measure.limits
        operands = getattr(self.scenario.engine, "spmm_operands", None)
        return operands() if needed and operands is not None else None

    def _cache(self, operands: list[Json] | None) -> Json | None:
        if self.config.measure.cache != "simulate":
            return None
        if operands is None:
            return {"status": "not reported"}
        from harness.measure.cache import simulate

        accesses = self.config.measure.cache_accesses

        def modelled() -> Json:
            orders: Json = getattr(self.scenario.engine, "reading_orders", dict)()
            products = [one | ({"order": orders[one["name"]]} if one["name"] in orders else {}) for one in operands]
            key = f"cache of {accesses} accesses: {shared_values.digest_of_operands(products)}"
            return dict(shared_values.get_or_compute(key, lambda: simulate(products, accesses)))

        return unless_out_of_memory(modelled)

    def _limits(self, facts: Json, operands: Sequence[Json], seconds: float | None) -> Json | None:
        """Compare the time of a call with this machine's ceilings, measured now, while no other cell runs."""
        if not self.config.measure.limits or self.scenario.now is not None or seconds is None:
            return None
        if (dtype := self.config.training.dtype) != "float32":
            return {"status": f"not measured, the ceilings are of float32 and not of {dtype}"}
        # Not imported above: it imports torch, which a cell whose engine works without torch must not load.
        from harness.measure.limits import limits

        machine = self._machine()
        whole = seconds * (self.extrapolated or 1.0)
        floor = getattr(self.scenario, "dense_floor", lambda: None)
        return limits(facts, whole, machine, operands, floor) or None

    def _machine(self) -> "Machine":
        """What computes the calls: the processor, or the GPU of ``device``."""
        if self.config.device == "cpu":
            from harness.measure.ceilings import Cpu

            return Cpu(self.config.threads)
        from harness.measure.gpu_ceilings import Gpu

        return Gpu(self.config.device)

    def _crowded(self, facts: Json) -> Json:
        """What there is as ``oversubscribed``, where threads, ranks or workers have to share it."""
        return {} if self._cuda() else oversubscribed(self.config.threads, crowds(facts), self.cores)

    def _parts(self, seconds: float) -> Json:
        """What the seconds of a timed call are for, and its calls of torch, for scenarios that know."""
        parts_of = getattr(self.scenario, "parts", None)
        if parts_of is None or seconds > PROFILED:
            return {}

        def profiled() -> Json:
            parts = parts_of(seconds)
            return {} if parts is None else {"parts": parts.seconds, "torch_calls": parts.calls}

        facts = unless_out_of_memory(profiled)
        return {} if "status" in facts else facts

    def _cuda(self) -> Any:
        torch = sys.modules.get("torch")
        return torch.cuda if torch is not None and self.config.device.startswith("cuda") else None

    def _use_device(self) -> None:
        """Make a numbered GPU the current one; end as ``not_installed`` without the device, before any data are read.

        Waiting for the device, its memory and our kernels are those of the current one.
        """
        cuda, _, number = self._cuda(), *self.config.device.partition(":")[1:]
        if cuda and not int(number or 0) < cuda.device_count():
            raise CellFailed(
                "not_installed",
                f"device={self.config.device}: torch {sys.modules['torch'].__version__} finds "
                f"{cuda.device_count()} CUDA devices here; set device=cpu, or plan for another machine with "
                "`python -m harness plan --out DIR`",
            )
        if cuda and number:
            cuda.set_device(self.config.device)

    def _synchronize(self) -> None:
        if cuda := self._cuda():
            cuda.synchronize()


def mean_of(first: float, calls: Sequence[Call], faults: PageFaults) -> TimedSample:
    """Average the counted calls into one sample, with the loss of the last.

    ``first`` are the seconds of the call before them, ``faults`` the page faults of all of them.
    """
    count, names = len(calls), dict.fromkeys(name for call in calls for name in call["phases"])
    return {
        "seconds": sum(call["seconds"] for call in calls) / count,
        "cpu_seconds": sum(call["cpu_seconds"] for call in calls) / count,
        "phases": {name: sum(call["phases"].get(name, 0.0) for call in calls) / count for name in names},
        "loss": calls[-1]["loss"],
        "first": first,
        "calls": count,
        "ran": count + 1,
        "page_faults": {"minor": faults.minor, "major": faults.major},
    }


def plain(answer: Json) -> Json:
    """Turn an answer into JSON's own types; numpy scalars become numbers."""
    converted: Json = json.loads(json.dumps(answer, default=lambda value: value.item()))
    return converted


def dataset_facts(graph: Graph) -> Json:
    """The entries of a record's key ``dataset``."""
    keys = ("name", "sha256", "trust", "synthetic", "inductive", "task", "published")
    return {key: getattr(graph, key) for key in keys} | {"counts": graph.counts(), "notes": list(graph.notes)}
