"""PyG's sampling alone: NeighborSampler, which pyg-lib or torch-sparse carries out."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import torch
from torch_geometric.data import Data
from torch_geometric.sampler import NeighborSampler, NodeSamplerInput, SamplerOutput

from backends.base.sampler import BatchSampler
from backends.contract import Hop, Nodes, Unsupported
from backends.pyg.network import edge_list

LIBRARIES = ("pyg_lib", "torch_sparse")


class PygSampler(BatchSampler):
    """Draws once for each node of a batch, with the fanout of its distance from the targets."""

    def prepare_structure(self) -> None:
        """See ``BatchSampler``; raises Unsupported where nothing can sample."""
        if not any(map(find_spec, LIBRARIES)):
            raise Unsupported(
                f"backend pyg samples by {' or '.join(LIBRARIES)}, neither is installed: PyPI has no wheels, build one "
                "or name an interpreter that has it by launcher.python"
            )
        data = Data(edge_index=edge_list(self.graph.csr), num_nodes=self.graph.nodes)
        fanouts = list(self.spec.fanouts) or [-1] * self.spec.layers
        # Edges are sorted by destination already, so that their numbers stay those of the graph.
        self.sampler = NeighborSampler(data, fanouts[::-1], is_sorted=True)

    def neighbourhoods(self, batches: Sequence[Nodes], epoch: int) -> Iterator[SamplerOutput]:
        """See ``BatchSampler``; torch's generator draws."""
        torch.manual_seed(self.training.seed + epoch)
        targets = map(torch.from_numpy, batches)
        return (self.sampler.sample_from_nodes(NodeSamplerInput(mine, mine)) for mine in targets)

    def counted(self, held: SamplerOutput) -> tuple[int, int]:
        """See ``BatchSampler``."""
        return len(held.node), len(held.row)

    def hops(self, held: SamplerOutput) -> list[Hop]:
        """See ``BatchSampler``."""
        fanouts: Sequence[int | None] = self.spec.fanouts or [None] * self.spec.layers
        return hops_of(held, int(held.metadata[0].numel()), fanouts)


def hops_of(held: SamplerOutput, targets: int, fanouts: Sequence[int | None]) -> list[Hop]:
    """Tell the hops of a neighbourhood apart: its nodes stand hop by hop, its first are the ``targets``."""
    hops, first, last = [], 0, targets
    for fanout in reversed(fanouts):
        mine = (held.col >= first) & (held.col < last)
        hops.append(Hop(held.node[first:last].numpy(), fanout, held.edge[mine].numpy()))
        first, last = last, max(last, _end(held.row[mine]))
    return hops


def _end(places: torch.Tensor) -> int:
    """One more than the largest."""
    return int(places.max()) + 1 if len(places) else 0
