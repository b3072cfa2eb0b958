"""Layer-wise inference as DGL's examples do it: every layer over all nodes, in batches of one-hop blocks.

The blocks are sampled anew in every layer, inside the timed region.
"""

from collections.abc import Iterator

from backends.base.inferrer import Block, LayerwiseInferrer, run_of
from backends.contract import Inferrer, Nodes
from backends.dgl.backend import DglInferrer, DglTrainer
from backends.dgl.config import DglConfig
from backends.dgl.network import Structure
from backends.dgl.sampling import NeighbourSampler


def inferrer(config: DglConfig) -> Inferrer:
    """The inferrer that ``backend.infer`` names."""
    return DglLayerwise(config) if config.infer == "layerwise" else DglInferrer(config)


class DglLayerwise(LayerwiseInferrer):
    """Blocks from DGL's DataLoader."""

    trainer_class = DglTrainer
    trainer: DglTrainer

    def cut(self, batches: list[Nodes]) -> None:
        """See ``LayerwiseInferrer``; only the graph to sample from is made once."""
        trainer = self.trainer
        trainer.whole, trainer.sampler = trainer.whole_graph(trainer.graph), NeighbourSampler([-1])
        self.batches = batches

    def blocks(self) -> Iterator[Block]:
        """See ``LayerwiseInferrer``."""
        for rows, (inputs, _, (block,)) in zip(self.batches, self.trainer.sampled(self.batches), strict=True):
            hop = self.trainer.whole.hop(block)
            yield Block(run_of(rows), inputs, Structure([hop] * self.trainer.spec.layers))
