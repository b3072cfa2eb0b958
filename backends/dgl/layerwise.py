"""Layer-wise inference as DGL's examples do it: every layer over all nodes, in batches of one-hop blocks.

The examples sample the blocks, of all in-edges, anew in every layer; here they are sampled once, before the timed
region, as those of other engines are cut.
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
        """Build the graph and sample the blocks of all batches, once for all passes."""
        self.trainer.sample_from_graph([-1])
        self.sampled_blocks: list[NodeBlock] = []
        for rows, (inputs, _, (block,)) in zip(batches, self.trainer.sample_blocks(batches), strict=True):
            structure = DglStructure([self.trainer.whole.hop(block)] * self.trainer.spec.layers)
            self.sampled_blocks.append(NodeBlock(slice_of(rows), inputs, structure))

    def blocks(self) -> Iterator[NodeBlock]:
        """The blocks of all batches, in their order."""
        return iter(self.sampled_blocks)
