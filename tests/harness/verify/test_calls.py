"""The gate compares what is timed: calls after the first, all batches of an epoch, and all nodes of inference."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from backends.ablation import resolve
from backends.agl.config import AglConfig
from backends.agl.sampled_graph import AglSampler, SampledBatch
from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Hop, Nodes
from backends.reference.backend import ReferenceMultiplier
from backends.reference.config import ReferenceConfig
from datasets.csr import Csr
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.verify.graphs import small_graph
from harness.verify.models import verify_model
from harness.verify.outcome import Incorrect
from harness.verify.products import verify_product
from harness.verify.sample import verify_sampling
from tests.harness.verify.wrong_engines import MutantConfig, MutantInferrer

GRAPH = small_graph("multiclass", 4, weighted=False, nodes=150)


@dataclass
class BatchesConfig(MutantConfig):
    """Inference batch by batch with one mistake, or none."""

    runtimes: ClassVar[dict[str, str]] = {"infer": f"{__name__}:BatchInferrer"}


class BatchInferrer(MutantInferrer):
    """Scores the plan's nodes in batches of its size."""

    def __init__(self, config: BatchesConfig) -> None:
        super().__init__(MutantConfig())
        self.wrong, self.stored = config.wrong, None

    def infer(self, clock: Clock) -> Floats:
        """Score the batches; a mistake is in one of them, or in the second call."""
        if self.stored is not None:
            return self.stored
        plan, scores = self.trainer.plan, super().infer(clock)
        size = plan.size or len(scores)
        if self.wrong == "only the first batch":
            scores[size:] = 0
        if self.wrong == "last batch of fewer nodes left out" and len(scores) % size:
            scores[-(len(scores) % size) :] = 0
        if self.wrong == "path of some nodes" and len(plan.nodes) == self.trainer.graph.nodes:
            scores[-1] = 0
        if self.wrong == "second call does nothing":
            self.stored = scores
        return scores


@dataclass
class ProductConfig(ReferenceConfig):
    """Plain torch whose second product does nothing, if ``stale``."""

    stale: bool = False
    runtimes: ClassVar[dict[str, str]] = {"spmm": f"{__name__}:LazyMultiplier"}


class LazyMultiplier(ReferenceMultiplier):
    """Multiplies once where it is stale."""

    def multiply(self, clock: Clock) -> None:
        """Multiply, or leave the first product."""
        if not (self.config.stale and hasattr(self, "out")):
            super().multiply(clock)


@dataclass
class SampleConfig(AglConfig):
    """GraphTrainer's sampling with one mistake in its epochs, or none."""

    wrong: str = ""
    runtimes: ClassVar[dict[str, str]] = {"sample": f"{__name__}:HastySampler"}


@dataclass
class OwnDrawsConfig(SampleConfig):
    """An engine that trains by its own sampler, which cannot be given the definition's draws."""

    runtimes: ClassVar[dict[str, str]] = {"train": AglConfig.runtimes["train"], **SampleConfig.runtimes}
    draws: ClassVar[tuple[str, ...]] = ()


class HastySampler(AglSampler):
    """Does less in an epoch than in a single draw, or draws without chance."""

    def prepare_structure(self) -> None:
        """Prepare the graph, of which only the first in-edges of each node may be left."""
        super().prepare_structure()
        self.places = np.arange(self.graph.csr.nnz)
        if self.config.wrong == "first in-edges of every node":
            csr, most = self.sampled_graph.csr, max(self.spec.fanouts)
            first = np.arange(csr.nnz) - csr.indptr[csr.destinations] < most
            indptr = np.concatenate(([0], np.cumsum(np.minimum(csr.in_degrees, most)))).astype(csr.indptr.dtype)
            self.sampled_graph.csr = Csr(indptr, csr.indices[first], csr.shape)
            self.places = np.flatnonzero(first)

    def neighbourhoods(self, batches: Sequence[Nodes], epoch: int) -> Iterator[SampledBatch]:
        """The neighbourhood of each batch, perhaps the same in every epoch."""
        return super().neighbourhoods(batches, 0 if self.config.wrong == "one draw for all epochs" else epoch)

    def hops(self, batch: SampledBatch) -> list[Hop]:
        """The hops, whose edges are places among all of the graph, or drawn again by a wrong algorithm."""
        hops = super().hops(batch)
        if self.config.wrong == "Floyd's range one too short":
            return [replace(hop, edges=short_floyd(self.graph.csr, hop)) for hop in hops]
        return [replace(hop, edges=self.places[hop.edges]) for hop in hops]

    def sample(self, index: int, clock: Clock) -> None:
        """Sample, leaving out hops or batches, or all of it after the first epoch."""
        strategy, plan = self.sampled_graph.strategy, self.plan
        if self.config.wrong == "first hop alone":
            self.sampled_graph.strategy = replace(strategy, fanouts=strategy.fanouts[:1])
        if self.config.wrong == "a batch left out":
            self.plan = BatchPlan(plan.nodes, plan.size, (plan.batches - 1) or None, plan.seed)
        if self.config.wrong != "nothing after the first epoch" or index == 0:
            super().sample(index, clock)
        else:
            self.counts = dict.fromkeys(self.counts, 0)
        self.sampled_graph.strategy, self.plan = strategy, plan


def short_floyd(csr: Csr, hop: Hop) -> Nodes:
    """Edges by Floyd's algorithm with a range that is one too short, as torch-sparse 0.6.18 has it."""
    random, edges = np.random.default_rng(0), []
    for node in hop.nodes:
        first, last, drawn = csr.indptr[node], csr.indptr[node + 1], set[int]()
        for place in range(max(first, last - hop.fanout), last):
            edge = int(random.integers(first, place)) if last - first > hop.fanout else place
            drawn.add(place if edge in drawn else edge)
        edges += sorted(drawn)
    return np.array(edges)


def config(
    scenario: str, backend: Any, model: str = "gcn", batch_size: int | None = None, fanouts: Sequence[int] = ()
) -> RunConfig:
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig(model, hidden=4, heads=2, fanouts=list(fanouts)),
        backend=backend,
        training=TrainingConfig(batch_size=batch_size),
        scenario=ScenarioConfig(scenario),
        threads=1,
    )


@pytest.mark.parametrize("size", [None, 1, 16, 100_000])
def test_inference_in_batches_is_compared_on_all_nodes(size: int | None) -> None:
    parity = verify_model(config("infer", BatchesConfig(), batch_size=size), GRAPH)
    assert len(parity) == 2 and parity["small graph"]["nodes"] == 60


@pytest.mark.parametrize("size", [1, 16, 100_000])
@pytest.mark.parametrize("wrong", ["only the first batch", "path of some nodes", "second call does nothing"])
def test_inference_that_is_right_in_one_batch_or_call_alone_is_caught(wrong: str, size: int) -> None:
    with pytest.raises(Incorrect, match="small graph"):
        verify_model(config("infer", BatchesConfig(wrong=wrong), batch_size=size), GRAPH)


@pytest.mark.parametrize("size", [16, 100_000])
def test_inference_that_leaves_out_the_last_smaller_batch_is_caught(size: int) -> None:
    wrong = BatchesConfig(wrong="last batch of fewer nodes left out")
    with pytest.raises(Incorrect, match="small graph"):
        verify_model(config("infer", wrong, batch_size=size), GRAPH)


@pytest.mark.parametrize("wrong", ["first hop alone", "a batch left out", "nothing after the first epoch"])
def test_an_epoch_that_samples_less_than_its_batches_is_caught(wrong: str) -> None:
    assert verify_sampling(config("sample", SampleConfig()), GRAPH)
    with pytest.raises(Incorrect, match=r"an epoch of the small graph: .* were counted"):
        verify_sampling(config("sample", SampleConfig(wrong=wrong)), GRAPH)


@pytest.mark.parametrize("options", [{}, {"sampler": "uniform(2)", "scope": "target"}], ids=str)
def test_the_record_names_the_options_of_sampling_that_are_not_verified(options: dict[str, str]) -> None:
    parity = verify_sampling(config("sample", SampleConfig(**options)), GRAPH)
    assert parity.pop("not verified", {}) == options


@pytest.mark.parametrize("wrong", ["first in-edges of every node", "one draw for all epochs"])
def test_draws_without_chance_are_caught(wrong: str) -> None:
    cell = config("sample", SampleConfig(), fanouts=[3, 2])
    assert "a regular graph" in verify_sampling(cell, GRAPH)
    with pytest.raises(Incorrect, match=r"a regular graph: (it draws in-edge 0|5 epochs draw the same)"):
        verify_sampling(replace(cell, backend=SampleConfig(wrong=wrong)), GRAPH)


@pytest.mark.parametrize(
    "wrong", ["first in-edges of every node", "one draw for all epochs", "Floyd's range one too short"]
)
def test_training_on_wrong_draws_is_caught(wrong: str) -> None:
    cell = config("train", resolve(OwnDrawsConfig(), []), batch_size=16, fanouts=[3, 2])
    assert "a regular graph" in verify_model(cell, GRAPH)
    with pytest.raises(Incorrect, match="agl trains on draws that are wrong in a regular graph"):
        verify_model(replace(cell, backend=replace(cell.backend, wrong=wrong)), GRAPH)


@pytest.mark.parametrize("absent", [{"labels": None, "split": None}, {"split": None}], ids=str)
@pytest.mark.parametrize("scenario", ["infer", "spmm"])
def test_a_graph_on_which_nothing_can_be_trained_is_compared_on_a_part_of_it_too(
    scenario: str, absent: dict[str, None]
) -> None:
    backend, verify = (BatchesConfig(), verify_model) if scenario == "infer" else (ProductConfig(), verify_product)
    parity = verify(config(scenario, backend, batch_size=1), replace(GRAPH, **absent))
    assert set(parity) == {"small graph", "neighbourhood of 150 targets"}


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_a_product_that_is_computed_once_is_caught(model: str) -> None:
    assert verify_product(config("spmm", ProductConfig(), model), GRAPH)
    with pytest.raises(Incorrect, match="not finite"):
        verify_product(config("spmm", ProductConfig(stale=True), model), GRAPH)
