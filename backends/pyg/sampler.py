"""PyG's sampling alone: NeighborSampler, which pyg-lib or torch-sparse carries out."""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import torch
from torch_geometric import typing as installed
from torch_geometric.data import Data
from torch_geometric.sampler import NeighborSampler, NodeSamplerInput, SamplerOutput

from backends.base.sampler import BatchSampler
from backends.contract import Hop, Nodes, Unsupported
from backends.pyg.config import SAMPLERS
from backends.pyg.network import edge_list


class PygSampler(BatchSampler):
    """Draws once for each node of a batch, with the fanout of its distance from the targets."""

    def prepare_structure(self) -> None:
        """Build PyG's sampler; raises Unsupported where the libraries that it needs are not installed."""
        if not any(map(find_spec, SAMPLERS)):
            raise Unsupported(
                f"backend pyg samples by {' or '.join(SAMPLERS)}, neither is installed: make peers builds one into an "
                "interpreter of its own for launcher.python"
            )
        data = Data(edge_index=edge_list(self.graph.csr), num_nodes=self.graph.nodes)
        fanouts = list(self.spec.fanouts) or [-1] * self.spec.layers
        # Edges are sorted by destination already, so that their numbers stay those of the graph.
        self.sampler = NeighborSampler(data, fanouts[::-1], is_sorted=True)

    def neighbourhoods(self, batches: Sequence[Nodes], epoch: int) -> Iterator[SamplerOutput]:
        """Draw the neighbourhood of each batch with torch's generator, seeded by the epoch."""
        torch.manual_seed(self.training.seed + epoch)
        targets = map(torch.from_numpy, batches)
        return (self.sampler.sample_from_nodes(NodeSamplerInput(nodes, nodes)) for nodes in targets)

    def count(self, neighbourhood: SamplerOutput) -> tuple[int, int]:
        """Distinct nodes and drawn edges of a neighbourhood."""
        return len(neighbourhood.node), len(neighbourhood.row)

    def hops(self, neighbourhood: SamplerOutput) -> list[Hop]:
        """The hops of a neighbourhood, targets first."""
        fanouts: Sequence[int | None] = self.spec.fanouts or [None] * self.spec.layers
        return hops_of(neighbourhood, int(neighbourhood.metadata[0].numel()), fanouts)

    def facts(self) -> dict[str, Any]:
        """Counts and rates of drawing, and the library that draws."""
        return super().facts() | {"library": sampler_library()}


def sampler_library() -> str:
    """The library that draws for PyG, with its version: pyg-lib where it can be imported, else torch-sparse."""
    name = "pyg_lib" if installed.WITH_PYG_LIB else "torch_sparse"
    return f"{name} {version(name)}"


def hops_of(neighbourhood: SamplerOutput, targets: int, fanouts: Sequence[int | None]) -> list[Hop]:
    """Split a neighbourhood, whose nodes stand hop by hop with the ``targets`` first, into its hops."""
    hops, first, last = [], 0, targets
    for fanout in reversed(fanouts):
        edges = (neighbourhood.col >= first) & (neighbourhood.col < last)
        hops.append(Hop(neighbourhood.node[first:last].numpy(), fanout, neighbourhood.edge[edges].numpy()))
        first, last = last, max(last, _end(neighbourhood.row[edges]))
    return hops


def _end(places: torch.Tensor) -> int:
    """One more than the largest place, 0 where there is none."""
    return int(places.max()) + 1 if len(places) else 0
