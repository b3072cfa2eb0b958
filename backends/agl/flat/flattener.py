"""GraphFlat as the scenario ``flatten``: shards in a temporary folder, or records encoded and discarded."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from backends.agl.config import AglConfig
from backends.agl.flat.drivers import BATCH, flatten_batches
from backends.agl.flat.job import FlattenJob, check_columns, flatten_to
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.flat.sampling_strategy import SamplingStrategy, parse_sampling
from backends.agl.flat.shards import Sizes
from backends.agl.flat.source import Source
from backends.agl.graphfeature import decode
from backends.batches import BatchPlan
from backends.contract import Clock, GraphFeature, Sampling, Unsupported
from backends.kernels.extension import require, using_threads
from backends.model import ModelSpec, TrainingSpec
from datasets.graph import Graph

BLOCK_BYTES, MOST_BYTES, TRIES = 8 << 20, 1 << 30, 3  # of what is written to time the disk


class AglFlattener:
    """Flattens the targets of a plan; phase ``flatten`` covers reading, sampling, encoding and writing."""

    def __init__(self, config: AglConfig) -> None:
        self.config = config

    def prepare(self, graph: Graph, spec: ModelSpec, training: TrainingSpec, plan: BatchPlan, clock: Clock) -> None:
        """Check the job, compute sampling column and degrees; ``flatten`` to disk computes them again each time."""
        if (self.config.run_on, self.config.sink) == ("ray", "none"):
            raise Unsupported("GraphFlat on Ray stores shards: backend.sink=disk with backend.run_on=ray")
        require("GraphFeatures are read")
        if self.config.sparse == "false":
            graph = graph.with_dense_features("backend.sparse=false")
        self.graph, self.targets = graph, np.sort(np.concatenate(plan.targets(0)))
        embed = self.config.features == "embedded"
        self.job = FlattenJob(
            strategy_of(self.config, spec, training.seed),
            self.config.filter,
            embed,
            run_on=self.config.run_on,
            threads=training.threads,
            partitions=self.config.partitions,
            hub_threshold=self.config.hub_threshold,
        )
        self.folder = Path(tempfile.mkdtemp(prefix="graphflat-"))
        with clock.phase("source"):
            try:
                check_columns(graph, self.job.strategy, self.job.filtering)
                self.source = Source.build(graph, self.job.strategy, self.job.filtering, self.folder / "source")
            except ValueError as error:
                raise Unsupported(str(error)) from error

    def flatten(self, clock: Clock) -> None:
        """Flatten all targets once."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        started = time.perf_counter()
        with clock.phase("flatten"):
            self.counts = self._to_disk() if self.config.sink == "disk" else self._without_sink()
        self.seconds = time.perf_counter() - started

    def _to_disk(self) -> dict[str, Any]:
        manifest = flatten_to(self.folder / "out", self.source.graph, self.targets, self.job)
        return manifest["sizes"] | {name: manifest[name] for name in ("duplication", "reducer_loads")}

    def _without_sink(self) -> dict[str, Any]:
        """Sample, join and encode, without writing."""
        job, features, sizes = self.job, self.graph.features, Sizes()
        seen = np.zeros(self.graph.nodes, dtype=bool)
        targets = job.dealt(self.targets)
        flattened = flatten_batches(self.source, targets, job.strategy, embed=job.embed, threads=job.threads)
        with using_threads(job.threads), closing(flattened) as batches:
            for batch in batches:
                sizes.count_batch(batch, features, job.embed)
                seen[batch.numbers] = True
        counts = {"records": sizes.records, "nodes": sizes.nodes, "edges": sizes.edges}
        return counts | {"embedded_bytes": sizes.embedded_bytes, "duplication": sizes.nodes / int(seen.sum())}

    def sampling(self) -> Sampling:
        """How neighbourhoods were sampled; the parity gate samples them again."""
        strategy, table = self.job.strategy, self.source.table
        method, fanouts, seed = strategy.method, strategy.fanouts, strategy.seed
        per_target = strategy.scope == "target"
        return Sampling(table.csr, method, fanouts, seed, table.weight, strategy.replacement, per_target)

    def stored(self) -> Iterator[GraphFeature]:
        """Yield the stored GraphFeatures; without a sink they are computed again, with features in each."""
        if self.config.sink == "disk":
            batches = GraphFeatureReader(self.folder / "out").batches(BATCH)
        else:
            encoded = flatten_batches(self.source, self.targets, self.job.strategy)
            batches = (decode(batch.strings.strings) for batch in encoded)
        for records in batches:
            yield from map(records.graph_feature, range(len(records)))

    def facts(self) -> dict[str, Any]:
        """Counts of the last call; ``duplication`` is stored nodes per distinct node.

        With a sink on disk also the write rate of that disk for as many bytes, and the edges that each reducer sampled.
        """
        rates = write_rates(self.folder, self.counts["file_bytes"]) if self.config.sink == "disk" else {}
        facts = {"records_per_second": self.counts["records"] / self.seconds, "sink": self.config.sink}
        return self.counts | facts | rates

    def close(self) -> None:
        """Remove the temporary folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def strategy_of(config: AglConfig, spec: ModelSpec, seed: int) -> SamplingStrategy:
    """The sampling of a model: ``backend.sampler`` if set, else uniform by the model's fanouts, else all in-edges."""
    if config.sampler:
        return parse_sampling(config.sampler, spec.layers, config.scope, seed)
    if spec.fanouts:
        return SamplingStrategy(spec.fanouts, "uniform", scope=config.scope, seed=seed)
    return SamplingStrategy((None,) * spec.layers, "full", scope=config.scope, seed=seed)


def write_rates(folder: Path, size: int) -> dict[str, float]:
    """Bytes per second of a sequential write of ``size`` bytes (at most 1 GiB) into ``folder``, the fastest of 3.

    ``write_rate`` is timed until the kernel has buffered the bytes, as for shards; ``synced_write_rate`` until they are
    on disk.
    """
    block, count = os.urandom(BLOCK_BYTES), max(1, min(size, MOST_BYTES) // BLOCK_BYTES)
    path = folder / "rate"
    buffered_seconds, synced_seconds = [], []
    for _ in range(TRIES):
        os.sync()
        started = time.perf_counter()
        with path.open("wb", buffering=0) as file:
            for _ in range(count):
                file.write(block)
            buffered_seconds.append(time.perf_counter() - started)
            os.fsync(file.fileno())
            synced_seconds.append(time.perf_counter() - started)
        path.unlink()
    total = count * BLOCK_BYTES
    return {"write_rate": total / min(buffered_seconds), "synced_write_rate": total / min(synced_seconds)}
