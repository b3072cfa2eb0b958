"""GraphFlat under the harness: the same job into a temporary folder, or its records into nothing."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from backends.agl.config import AglConfig
from backends.agl.flat.disk import write_rates
from backends.agl.flat.job import Job, check, flatten_to
from backends.agl.flat.local import BATCH, flattened
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.flat.shards import Sizes
from backends.agl.flat.source import Source
from backends.agl.flat.strategy import Strategy, parse
from backends.agl.graphfeature import decode
from backends.batches import BatchPlan
from backends.contract import Clock, GraphFeature, Sampling, Unsupported
from backends.model import ModelSpec, TrainingSpec
from datasets.graph import Graph

REDUCERS = 4


class AglFlattener:
    """Flattens the targets of a plan; phase ``flatten`` is all of it, reading, sampling, encoding and writing."""

    def __init__(self, config: AglConfig) -> None:
        self.config = config

    def prepare(self, graph: Graph, spec: ModelSpec, training: TrainingSpec, plan: BatchPlan, clock: Clock) -> None:
        """See ``backends.contract.Flattener``; a sink on disk repeats the sampling column and degrees in each call."""
        if (self.config.run_on, self.config.sink) == ("ray", "none"):
            raise Unsupported("GraphFlat on Ray stores shards: backend.sink=disk with backend.run_on=ray")
        self.graph, self.targets = graph, np.sort(np.concatenate(plan.targets(0)))
        embed = self.config.features == "embedded"
        self.job = Job(
            strategy_of(self.config, spec, training.seed),
            self.config.filter,
            embed,
            engine=self.config.run_on,
            threads=training.threads,
            partitions=self.config.partitions or REDUCERS,
            hub_threshold=self.config.hub_threshold,
        )
        self.home = Path(tempfile.mkdtemp(prefix="graphflat-"))
        with clock.phase("source"):
            try:
                check(graph, self.job)
                self.source = Source.build(graph, self.job.strategy, self.job.filtering, self.home / "source")
            except ValueError as error:
                raise Unsupported(str(error)) from error

    def flatten(self, clock: Clock) -> None:
        """See ``backends.contract.Flattener``."""
        shutil.rmtree(self.home / "out", ignore_errors=True)
        started = time.perf_counter()
        with clock.phase("flatten"):
            self.held = self._to_disk() if self.config.sink == "disk" else self._to_nothing()
        self.seconds = time.perf_counter() - started

    def _to_disk(self) -> dict[str, Any]:
        manifest = flatten_to(self.home / "out", self.source.graph, self.targets, self.job)
        return manifest["sizes"] | {name: manifest[name] for name in ("duplication", "reducer_loads")}

    def _to_nothing(self) -> dict[str, Any]:
        """Do everything but writing."""
        job, width, sizes = self.job, self.graph.width, Sizes()
        seen = np.zeros(self.graph.nodes, dtype=bool)
        for batch in flattened(self.source, self.targets, job.strategy, embed=job.embed, threads=job.threads):
            sizes.see(batch, width, job.embed)
            seen[batch.numbers] = True
        held = {"records": sizes.records, "nodes": sizes.nodes, "edges": sizes.edges}
        return held | {"embedded_bytes": sizes.embedded_bytes, "duplication": sizes.nodes / int(seen.sum())}

    def sampling(self) -> Sampling:
        """See ``backends.contract.Flattener``."""
        how, table = self.job.strategy, self.source.table
        per_target = how.scope == "target"
        return Sampling(table.csr, how.method, how.fanouts, how.seed, table.weight, how.replacement, per_target)

    def stored(self) -> Iterator[GraphFeature]:
        """See ``backends.contract.Flattener``; without a sink the strings are made once more, features in each."""
        if self.config.sink == "disk":
            batches = GraphFeatureReader(self.home / "out").batches(BATCH)
        else:
            again = flattened(self.source, self.targets, self.job.strategy)
            batches = (decode(batch.strings.strings) for batch in again)
        for records in batches:
            yield from map(records.graph_feature, range(len(records)))

    def facts(self) -> dict[str, Any]:
        """See ``backends.contract.Flattener``; ``duplication`` is nodes stored per distinct node.

        With a sink on disk also how fast that takes plain bytes, as many as the shards had, and the edges that came to
        each reducer of tasks.
        """
        rates = write_rates(self.home, self.held["file_bytes"]) if self.config.sink == "disk" else {}
        own = {"records_per_second": self.held["records"] / self.seconds, "sink": self.config.sink}
        return self.held | own | rates

    def close(self) -> None:
        """See ``backends.contract.Flattener``."""
        shutil.rmtree(self.home, ignore_errors=True)


def strategy_of(config: AglConfig, spec: ModelSpec, seed: int) -> Strategy:
    """How a model's neighbourhoods are sampled: as the config says, else uniformly by the model's fanouts, else not."""
    if config.sampler:
        return parse(config.sampler, spec.layers, config.scope, seed)
    if spec.fanouts:
        return Strategy(spec.fanouts, "uniform", scope=config.scope, seed=seed)
    return Strategy((None,) * spec.layers, "full", scope=config.scope, seed=seed)
