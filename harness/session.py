"""One cell's work from its graph to its samples, wherever it runs: behind a pipe or inline."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from backends.registry import load_object
from datasets.graph import Graph
from harness.launcher.failure import CellFailed
from harness.measure import environment, memory
from harness.measure import shared as once
from harness.measure.clock import Clock, cpu_seconds
from harness.planning.schema import RunConfig, from_dict
from harness.scenario import Scenario, scenario_class
from harness.verify.flatten import verify_flattening
from harness.verify.gradients import Incorrect, verify
from harness.verify.sample import verify_sampling

BATCH_LIMIT = 8
GATES = {"flatten": verify_flattening, "sample": verify_sampling}
Json = dict[str, Any]


class Session:
    """The answers of one cell; what goes wrong is raised, what is worth saying on the way is ``say``-d."""

    def __init__(self, cell: Json, say: Callable[[Json], None]) -> None:
        self.cell, self.say = cell, say
        self.config: RunConfig = from_dict(RunConfig, cell["config"])
        self.index = 0
        self.seconds: list[float] = []
        self.extrapolated: float | None = None
        self.closed = True
        self.before = Clock()

    def start(self) -> None:
        """Say where this is and import the engine, which the cells of a group may do side by side."""
        config = self.config
        where = environment.describe(config.backend.name, config.threads, config.device)
        self.say({"event": "environment", "environment": where})
        with self.before.phase("import"):
            self._import_engine()

    def open(self) -> Json:
        """Load, prepare, verify and warm up; answers with what the record holds of it."""
        config, clock = self.config, self.before
        with clock.phase("load"):
            self.graph = self._graph()
        self.scenario: Scenario = scenario_class(config.scenario.name)(config, self.graph)
        limit = self._prepare_with_limit()
        held = dataset_facts(self.graph) | self._structure()
        answer: Json = {"dataset": held, "prepare": clock.seconds | self.prepared.seconds}
        answer["parity"] = self._verify()
        # After the gate, which loads libraries that no later call has to load again.
        memory.trim()
        answer["resident"] = memory.resident()
        answer["warmup"] = [self.sample()["seconds"] for _ in range(config.measure.warmup)]
        self.extrapolated = self.scenario.batches / limit if limit else None
        answer["extrapolated"] = self.extrapolated
        return answer | self._device_share()

    def _import_engine(self) -> None:
        """Import what the engine would import in its first calls, so that its own phases hold its own work."""
        load_object(self.config.backend.runtimes[self.config.scenario.name])
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(self.config.threads)
            if self.config.scenario.name == "train":
                torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])

    def _graph(self) -> Graph:
        folder = self.cell.get("graph")
        if not folder or not Path(folder).is_dir():
            name = self.config.dataset.name
            raise CellFailed("error", f"no prepared graph of {name} at {folder}: plan again, --with-data for elsewhere")
        return Graph.load(Path(folder))

    def _structure(self) -> Json:
        """Density, tiles and degrees of the graph as it is run, written beside it when it was prepared."""
        held = Path(self.cell["graph"]) / "structure.json"
        return {"structure": json.loads(held.read_text())} if held.is_file() else {}

    def _prepare(self, limit: int | None) -> None:
        self.prepared = Clock(synchronize=self._synchronize)
        self.closed = False
        self.scenario.prepare(self.prepared, limit)

    def _prepare_with_limit(self) -> int | None:
        """Prepare, for a few batches per epoch where whole epochs would take too long; returns that limit."""
        scenario, wanted = self.scenario, self.config.training.batch_limit
        if wanted or scenario.batches <= BATCH_LIMIT:
            limit = wanted if wanted and wanted < scenario.batches else None
            self._prepare(limit)
            return limit
        self._prepare(BATCH_LIMIT)
        seconds = [self.sample()["seconds"] for _ in range(2)][-1]
        if seconds * scenario.batches / BATCH_LIMIT > self.config.measure.max_seconds:
            return BATCH_LIMIT
        scenario.close()
        self._prepare(None)
        return None

    def _verify(self) -> Json | None:
        if not self.config.measure.parity:
            return None
        try:
            return GATES.get(self.config.scenario.name, verify)(self.config, self.graph)
        except Incorrect as wrong:
            raise CellFailed("incorrect", str(wrong), parity=wrong.parity) from wrong

    def sample(self) -> Json:
        """Run the timed call; answers with seconds, CPU seconds, phases, loss and how many ``calls`` they are of.

        A call shorter than ``measure.repeat_seconds`` is repeated for so long, and the sample is the mean of all but
        the first, which found caches and threads as the cell before had left them.
        """
        answer = self._call() | {"calls": 1, "ran": 1}
        if self.scenario.now is None and answer["seconds"] < self.config.measure.repeat_seconds:
            answer = mean_of(self._calls_for(self.config.measure.repeat_seconds))
        self.seconds.append(answer["seconds"])
        return answer | ({"device_peak": int(cuda.max_memory_allocated())} if (cuda := self._cuda()) else {})

    def _calls_for(self, seconds: float) -> list[Json]:
        calls, end = [self._call()], time.perf_counter() + seconds
        while time.perf_counter() < end:
            calls.append(self._call())
        return calls

    def _call(self) -> Json:
        clock = Clock(self.scenario.now or time.perf_counter, self._synchronize)
        cpu, start = cpu_seconds(), clock.now()
        loss = self.scenario.run(self.index, clock)
        seconds = clock.now() - start
        self.index += 1
        if loss is not None and not np.isfinite(loss):
            raise CellFailed("error", f"the loss of epoch {self.index - 1} is {loss}: lower training.rate")
        return {"seconds": seconds, "cpu_seconds": cpu_seconds() - cpu, "phases": clock.seconds, "loss": loss}

    def trim(self) -> Json:
        """Make ready for the memory pass: what is not in use goes back; answers with the bytes that are left."""
        memory.trim()
        if cuda := self._cuda():
            cuda.empty_cache()
            cuda.reset_peak_memory_stats()
        return {"resident": memory.resident()}

    def watched(self) -> Json:
        """Run the timed call once; answers with the bytes by which it grew this process, at its highest."""
        mark = memory.HighWater()
        self._call()
        answer: Json = {"growth": mark.growth()}
        return answer | ({"device_peak": int(cuda.max_memory_allocated())} if (cuda := self._cuda()) else {})

    def accuracy(self) -> Json:
        """Train from the start to the end; answers with the validation curve and the metrics."""
        said = time.monotonic()

        def progress(epoch: int, score: float) -> None:
            nonlocal said
            if time.monotonic() - said >= 1.0:
                said = time.monotonic()
                self.say({"event": "accuracy", "epoch": epoch, "score": score})

        return self.scenario.accuracy(progress)

    def finish(self, shared: Json | None = None) -> Json:
        """Answer with facts, what the scenario scored, hit rates and limits; then let the engine end.

        ``shared`` is what cells of the group found that holds for this one too; answered with what this one adds.
        """
        once.learn(shared or {})
        facts = self.scenario.engine.facts()
        if self.scenario.now is not None:
            facts["clock"] = "simulated"
        operands = self._operands()
        answer = {"facts": facts, "metrics": self.scenario.metrics(), "cache": self._cache(operands)}
        answer["limits"] = self._limits(facts, operands or ())
        answer["shared"] = once.known()
        self.close()
        return plain(answer)

    def close(self) -> None:
        """Let the engine end; once is enough."""
        if not self.closed:
            self.closed = True
            self.scenario.close()

    def _operands(self) -> list[Json] | None:
        """The matrices of the timed call, where the engine tells them and something is to be made of them."""
        wanted = self.config.measure.cache == "simulate" or self.config.measure.limits
        told = getattr(self.scenario.engine, "spmm_operands", None)
        return told() if wanted and told is not None else None

    def _cache(self, operands: list[Json] | None) -> Json | None:
        if self.config.measure.cache != "simulate":
            return None
        if operands is None:
            return {"status": "not reported"}
        from harness.measure.cache import simulate

        accesses = self.config.measure.cache_accesses
        key = f"cache of {accesses} accesses: {once.digest_of(operands)}"
        return dict(once.found(key, lambda: simulate(operands, accesses)))

    def _limits(self, facts: Json, operands: Sequence[Json]) -> Json | None:
        """Ceilings of this machine beside what was timed; the machine is this process's own while it finishes."""
        samples = self.seconds[self.config.measure.warmup :]
        if (
            not self.config.measure.limits
            or self.config.device != "cpu"
            or self.scenario.now is not None
            or not samples
        ):
            return None
        # torch is what it measures with: engines without it have no limits.
        from harness.measure.limits import limits

        seconds = float(np.median(samples)) * (self.extrapolated or 1.0)
        floor = getattr(self.scenario, "dense_floor", None)
        return limits(facts, seconds, self.config.threads, operands, floor() if floor else None) or None

    def _cuda(self) -> Any:
        torch = sys.modules.get("torch")
        return torch.cuda if torch is not None and self.config.device.startswith("cuda") else None

    def _synchronize(self) -> None:
        if cuda := self._cuda():
            cuda.synchronize()

    def _device_share(self) -> Json:
        if not (cuda := self._cuda()):
            return {}
        return {"device_share": cuda.memory_reserved() / cuda.mem_get_info()[1]}


def mean_of(calls: Sequence[Json]) -> Json:
    """Make one sample of several calls that followed one which does not count; the loss is the last one's."""
    count, names = len(calls), dict.fromkeys(name for call in calls for name in call["phases"])
    phases = {name: sum(call["phases"].get(name, 0.0) for call in calls) / count for name in names}
    means = {key: sum(call[key] for call in calls) / count for key in ("seconds", "cpu_seconds")}
    return means | {"phases": phases, "loss": calls[-1]["loss"], "calls": count, "ran": count + 1}


def plain(answer: Json) -> Json:
    """Turn what an engine answered into JSON's own types; numpy's scalars become numbers."""
    held: Json = json.loads(json.dumps(answer, default=lambda value: value.item()))
    return held


def dataset_facts(graph: Graph) -> Json:
    """What a record says of its data set."""
    keys = ("name", "sha256", "trust", "synthetic", "inductive", "task", "published")
    return {key: getattr(graph, key) for key in keys} | {"counts": graph.counts(), "notes": list(graph.notes)}
