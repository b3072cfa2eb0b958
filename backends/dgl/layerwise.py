"""Layer-wise inference as DGL's examples do it: every layer over all nodes, in batches of one-hop blocks.

The blocks are sampled anew in every layer, inside the timed region.
"""

from collections.abc import Iterator

from backends.base.inferrer import LayerwiseInferrer, NodeBlock, slice_of
from backends.contract import Inferrer, Nodes
from backends.dgl.backend import DglInferrer, DglTrainer
from backends.dgl.config import DglConfig
from backends.dgl.network import DglStructure


def inferrer(config: DglConfig) -> Inferrer:
    """Build the inferrer of ``backend.infer``."""
    return DglLayerwise(config) if config.infer == "layerwise" else DglInferrer(config)


class DglLayerwise(LayerwiseInferrer):
    """Blocks from DGL's DataLoader."""

    trainer_class = DglTrainer
    trainer: DglTrainer

    def cut(self, batches: list[Nodes]) -> None:
        """Build the graph to sample the blocks from, once for all passes."""
        self.trainer.sample_from_graph([-1])
        self.batches = batches

    def blocks(self) -> Iterator[NodeBlock]:
        """Sample the blocks of all batches, in their order."""
        samples = self.trainer.sample_blocks(self.batches)
        for rows, (inputs, _, (block,)) in zip(self.batches, samples, strict=True):
            hop = self.trainer.whole.hop(block)
            yield NodeBlock(slice_of(rows), inputs, DglStructure([hop] * self.trainer.spec.layers))
