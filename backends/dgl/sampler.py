"""DGL's sampling alone: the blocks of each batch by NeighborSampler's fused kernel."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from backends.base.sampler import BatchSampler
from backends.contract import Hop, Nodes
from backends.dgl.backend import load_blocks
from backends.dgl.quiet import dgl
from backends.dgl.sampling import NeighbourSampler
from datasets.csr import Csr, index_dtype


class DglSampler(BatchSampler):
    """Draws the edges of each layer anew, as DGL does; uses DataLoader only where there are loader processes."""

    def prepare_structure(self) -> None:
        """Build a graph of in-edges in the order of ``csr``, and DGL's sampler."""
        dgl.utils.set_num_threads(self.training.threads)
        dgl.seed(self.training.seed)
        torch.manual_seed(self.training.seed)  # draws the seeds of loader processes
        self.in_edges = in_edges_of(self.graph.csr, wide=self.config.variant == "int64")
        self.fanouts = list(self.spec.fanouts) or [-1] * self.spec.layers
        self.sampler = NeighbourSampler(self.fanouts)

    def neighbourhoods(self, batches: Sequence[Nodes], epoch: int) -> Iterator[Any]:
        """Draw the blocks of each batch by DGL's own generator, which is not seeded again between epochs."""
        targets = [torch.from_numpy(nodes).to(self.in_edges.idtype) for nodes in batches]
        if self.config.workers:
            return load_blocks(self.in_edges, targets, self.sampler, self.config.workers)
        return (self.sampler.sample_blocks(self.in_edges, nodes) for nodes in targets)

    def count(self, neighbourhood: Any) -> tuple[int, int]:
        """Distinct nodes and drawn edges of a batch's blocks."""
        nodes, _, blocks = neighbourhood
        return len(nodes), sum(block.num_edges() for block in blocks)

    def hops(self, neighbourhood: Any) -> list[Hop]:
        """The hops of a batch's blocks, targets first: the last block is the first hop."""
        blocks = zip(reversed(neighbourhood[2]), reversed(self.fanouts), strict=True)
        return [
            Hop(_numbers(block.dstdata[dgl.NID]), None if fanout < 0 else fanout, _numbers(block.edata[dgl.EID]))
            for block, fanout in blocks
        ]

    def facts(self) -> dict[str, Any]:
        """Counts and rates of drawing, and the type of ids."""
        return super().facts() | {"index": str(self.in_edges.idtype).rpartition(".")[2]}


def in_edges_of(csr: Csr, wide: bool) -> Any:
    """A DGL graph of in-edges, numbered in the order of ``csr``; on int32 ids while they fit, unless ``wide``."""
    kind = np.int64 if wide else index_dtype(max(csr.nnz, *csr.shape))
    rows, columns = (torch.from_numpy(np.array(array, dtype=kind)) for array in (csr.indptr, csr.indices))
    graph = dgl.graph(("csc", (rows, columns, [])), num_nodes=csr.shape[0], idtype=rows.dtype)
    return graph.formats(["csc"])


def _numbers(ids: torch.Tensor) -> Nodes:
    return ids.numpy().astype(np.int64)
