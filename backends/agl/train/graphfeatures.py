"""GraphTrainer from GraphFeatures on disk: shards read in shuffled order, merged, vectorised (AGL, section 3.3)."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from backends.agl.backend import AglTrainer
from backends.agl.flat.flattener import strategy_of
from backends.agl.flat.job import Job, flatten_to
from backends.agl.flat.local import flattened
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.flat.source import Source
from backends.agl.flat.stored import Stored
from backends.agl.vectorize import inverse_sqrt, matrices
from backends.base.loss import targets_of
from backends.base.trainer import Batch
from backends.batches import BatchPlan
from backends.contract import Clock, Nodes
from backends.kernels.graphfeatures import Strings
from backends.model import ModelSpec, State, TrainingSpec
from backends.parallel.prefetch import overlapped
from datasets.graph import Graph


class GraphFeatureTrainer(AglTrainer):
    """Flattens the targets once (phase ``flatten``), then trains from the shards alone.

    Batches come in the order of shuffled shards, as the paper's workers read them: every target once in an epoch, but
    not in the batches of the plan. A plan with a limit has only as many targets flattened as it trains.
    ``loss_and_gradients`` flattens the targets that it is asked for by themselves.
    """

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """See ``backends.contract.Trainer``."""
        self.home = Path(tempfile.mkdtemp(prefix="graphfeatures-"))
        self._cleanup = weakref.finalize(self, shutil.rmtree, self.home, True)
        strategy = strategy_of(self.config, spec, training.seed)
        records = max(Job.shard_records, plan.size or len(plan.nodes))
        job = Job(strategy, self.config.filter, self.config.features == "embedded", records, threads=training.threads)
        held = plan.nodes if plan.limit is None else np.concatenate(plan.targets(0))
        with clock.phase("flatten"):
            self.manifest = flatten_to(self.home / "shards", graph, np.sort(held), job)
            self.source = Source.build(graph, strategy, job.filtering, self.home / "source")
        self.reader, self.strategy = GraphFeatureReader(self.home / "shards"), strategy
        super().prepare(graph, spec, training, state, plan, clock)

    def prepare_structure(self) -> None:
        """Map ids back to the numbers that labels and targets go by; a full batch is vectorised once."""
        ids = np.arange(self.graph.nodes) if self.graph.node_ids is None else np.asarray(self.graph.node_ids)
        self.by_id = np.argsort(ids, kind="stable")
        self.sorted_ids = ids[self.by_id]
        if self.plan.full_batch:
            batch = self.vectorized(next(self.reader.stored(len(self.reader))))
            self.full = replace(batch, labels=targets_of(self.graph, batch.targets))

    def mini_batch(self, targets: Nodes) -> Batch:
        """Vectorise the GraphFeatures of any targets, encoded and decoded like those on disk."""
        held = flattened(self.source, targets, self.strategy)
        strings = Strings.of([string for part in held for string in part.strings.strings.split()])
        return self.vectorized(Stored(None, strings, np.arange(len(targets))))

    def target_batch(self, targets: Nodes) -> Batch:
        """See ``TorchTrainer``; the labels are the targets' in the order of the batch."""
        batch = self.mini_batch(targets)
        return replace(batch, labels=targets_of(self.graph, batch.targets))

    def vectorized(self, stored: Stored) -> Batch:
        """Merge records, pruned per layer; what a layer multiplies with comes from the records alone."""
        gcn, weighted = self.spec.name == "gcn", self.reader.manifest["weighted"]
        form = self.config.form if self.config.on("pruning") else "full"
        merged, features = stored.merged(
            self.strategy.fanouts,
            apart=self.strategy.scope == "target",
            needed=form == "tight",
            degrees=("weighted_degrees" if weighted else "degrees") if gcn else None,
            edge_weights=gcn and weighted,
        )
        scale = None if merged.degrees is None else inverse_sqrt(1.0 + merged.degrees)
        structure = matrices(merged.neighbourhood, self.spec.name, self.spec.layers, form, scale, merged.edge_weights)
        targets = self.by_id[np.searchsorted(self.sorted_ids, merged.neighbourhood.nodes[merged.roots])]
        return Batch(structure, features, targets, torch.from_numpy(merged.roots))

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """Read, merge and vectorise shard by shard, ahead of the computation where the pipeline runs."""
        if self.plan.full_batch:
            yield self.full
            return
        made = map(self.vectorized, self.read(index))
        if self.overlaps:
            yield from overlapped(made, clock)
            return
        while True:
            with clock.phase("vectorize"):
                batch = next(made, None)
            if batch is None:
                return
            yield batch

    def read(self, index: int) -> Iterator[Stored]:
        """The batches of an epoch as they lie on disk."""
        assert self.plan.size is not None
        return islice(self.reader.stored(self.plan.size, self.plan.seed + index), self.plan.limit)

    def facts(self) -> dict[str, Any]:
        """See ``Trainer``; ``bytes_on_disk`` are the shards', ``duplication`` nodes stored per distinct node."""
        held = {"bytes_on_disk": sum(path.stat().st_size for path in self.home.rglob("*") if path.is_file())}
        held |= {"records": len(self.reader), "bytes_read": self.reader.bytes_read}
        return super().facts() | held | {"duplication": self.manifest["duplication"]}

    def close(self) -> None:
        """See ``Trainer``; the shards were made for this run and go with it."""
        super().close()
        self._cleanup()
