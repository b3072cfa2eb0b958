"""Scenario ``dispatch``: the whole job, from the graph to the files of all parts, is timed."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from backends.contract import Clock, Dispatcher
from backends.registry import runtime
from datasets.graph import Graph
from harness.measure.partition_quality import quality_of
from harness.measure.written_parts import parts_of, wrong_maps
from harness.planning.schema import RunConfig
from harness.scenario.base import EngineScenario
from harness.scenario.partition import task_of


class Dispatch(EngineScenario):
    """A dispatcher on the whole graph; each call writes to a new folder, what the one before wrote is removed."""

    engine: Dispatcher
    batches = 1

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        self.config, self.graph, self.task = config, graph, task_of(config, graph)
        self.place = Path(tempfile.mkdtemp(prefix="dispatch-"))

    def prepare(self, clock: Clock, limit: int | None) -> None:
        """Build and prepare the dispatcher."""
        self.engine = runtime(self.config.backend, "dispatch")
        self.engine.prepare(self.graph, self.task, clock)

    def draw(self, index: int) -> None:
        """Make room for the next call."""
        shutil.rmtree(self.place / "parts", ignore_errors=True)

    def run(self, index: int, clock: Clock) -> None:
        """Assign all nodes and write all parts."""
        self.engine.dispatch(self.place / "parts", clock)

    def facts(self) -> dict[str, Any]:
        """Facts of the engine, bytes on disk, quality of the assignment; raises ValueError for lost nodes or edges."""
        written = self.engine.written()
        if wrong := wrong_maps(self.graph, written):
            raise ValueError(f"the parts of {self.graph.name} are wrong: {wrong}")
        quality = quality_of(self.graph, self.task, parts_of(written))
        return self.engine.facts() | {"partition": quality | {"bytes": self._bytes()}}

    def _bytes(self) -> int:
        return sum(path.stat().st_size for path in (self.place / "parts").rglob("*") if path.is_file())

    def close(self) -> None:
        """Close the engine and remove what it wrote."""
        super().close()
        shutil.rmtree(self.place, ignore_errors=True)
