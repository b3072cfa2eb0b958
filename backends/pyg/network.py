"""PyG's convolutions as layers of a ``Network``, and the forms of the edges that they take."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, SimpleConv
from torch_geometric.typing import WITH_TORCH_SPARSE

from backends.base.network import Network
from backends.model import ModelSpec, TrainingSpec
from datasets.adjacency import Adjacency
from datasets.csr import Csr, index_dtype

# Where PyG keeps each canonical parameter of a layer, and whether it is stored transposed there.
PLACES: dict[str, dict[str, tuple[str, bool]]] = {
    "gcn": {"weight": ("lin.weight", True), "bias": ("bias", False)},
    "sage": {
        "weight_self": ("lin_r.weight", True),
        "weight_neigh": ("lin_l.weight", True),
        "bias": ("lin_l.bias", False),
    },
    "gat": {
        "weight": ("lin.weight", True),
        "att_src": ("att_src", False),
        "att_dst": ("att_dst", False),
        "bias": ("bias", False),
    },
}


@dataclass
class PygHop:
    """The graph of one layer: ``rows`` nodes, edges as EdgeIndex, [2, edges] or CSR, weights, the ``csr`` if known.

    ``features`` [edges, width] are those of the edges, for gat. Only the first ``outputs`` rows are wanted, or all.
    """

    rows: int
    edges: Tensor
    weight: Tensor | None
    csr: Csr | None = None
    features: Tensor | None = None
    outputs: int | None = None


@dataclass
class PygStructure:
    """The graphs of all layers, first layer first."""

    hops: list[PygHop]


class PygNetwork(Network):
    """GCNConv, SAGEConv and GATConv as PyG ships them; normalisation and self loops come with the matrices."""

    def make_parameters(self) -> None:
        """Create PyG's modules, whose parameters ``load`` fills; models of propagations have none."""
        spec = self.spec
        if spec.propagates:
            super().make_parameters()
            return
        self.convolutions = nn.ModuleList(_convolution(spec, self.settings, layer) for layer in range(spec.layers))
        if spec.head == "linear":
            self.head = nn.Linear(spec.width_out(spec.layers - 1), spec.classes)

    def canonical(self) -> dict[str, tuple[nn.Parameter, bool]]:
        """Map each canonical name to its parameter in PyG's modules and whether that is stored transposed."""
        if self.spec.propagates:
            return super().canonical()
        parameters: dict[str, tuple[nn.Parameter, bool]] = {}
        for layer, convolution in enumerate(self.convolutions):
            for name, (place, transposed) in (PLACES[self.spec.name] | self._edge_places()).items():
                parameters[f"layers.{layer}.{name}"] = (convolution.get_parameter(place), transposed)
        if self.spec.head == "linear":
            for name, transposed in (("weight", True), ("bias", False)):
                parameters[f"head.{name}"] = (self.head.get_parameter(name), transposed)
        return parameters

    def _edge_places(self) -> dict[str, tuple[str, bool]]:
        """Where GATConv keeps the parameters of edges' features."""
        places = {"weight_edge": ("lin_edge.weight", True), "att_edge": ("att_edge", False)}
        return places if self.spec.edge_width else {}

    def convolve(self, layer: int, hidden: Tensor, structure: Any) -> Tensor:
        """Apply PyG's convolution to the first ``rows`` nodes."""
        hop: PygHop = structure.hops[layer]
        inputs = hidden if len(hidden) == hop.rows else hidden[: hop.rows]
        if self.spec.name == "gcn":
            out: Tensor = self.convolutions[layer](inputs, hop.edges, hop.weight)
        elif hop.features is not None:
            out = self.convolutions[layer](inputs, hop.edges, hop.features)
        else:
            out = self.convolutions[layer](inputs, hop.edges)
        return out if hop.outputs is None else out[: hop.outputs]

    def propagate(self, x: Tensor, structure: Any) -> Tensor:
        """Multiply by the matrix, as in scenario ``spmm``."""
        return weighted_sum(x, structure.hops[0])


def weighted_sum(x: Tensor, hop: PygHop, reduce: str = "sum") -> Tensor:
    """Aggregate rows over in-edges: an EdgeIndex by its ``matmul``, as in GraphConv, other forms by SimpleConv."""
    if isinstance(hop.edges, EdgeIndex):
        out: Tensor = hop.edges.matmul(x, input_value=hop.weight, reduce=reduce, transpose=True)
    else:
        out = _simple_convolution(reduce)(x, hop.edges, hop.weight)
    return out


@cache
def _simple_convolution(reduce: str) -> SimpleConv:
    return SimpleConv(reduce)


def _convolution(spec: ModelSpec, training: TrainingSpec, layer: int) -> Any:
    in_width, out = spec.width_in(layer), spec.width_out(layer)
    if spec.name == "gcn":
        return GCNConv(in_width, out, normalize=False)
    if spec.name == "sage":
        return SAGEConv(in_width, out, aggr="mean")
    return GATConv(
        in_width,
        out,
        heads=spec.heads_of(layer),
        concat=not spec.is_last(layer),
        negative_slope=spec.slope,
        dropout=training.attention_dropout,
        add_self_loops=False,
        edge_dim=spec.edge_width or None,
    )


def edge_list(csr: Csr, kind: DTypeLike = np.int64) -> Tensor:
    """Edges [2, nnz], sources above destinations, sorted by destination."""
    return torch.from_numpy(np.stack([csr.indices, csr.destinations]).astype(kind))


def edge_weights(adjacency: Adjacency) -> Tensor | None:
    """The weight of each edge, where the model has one."""
    return None if adjacency.weight is None else torch.from_numpy(np.array(adjacency.weight))


def whole_graph(adjacency: Adjacency, model: str, variant: str, device: torch.device, product: bool = False) -> PygHop:
    """The graph of every layer of a full batch, on a device; for ``weighted_sum`` if it is a ``product``."""
    # torch_sparse, which PyG takes on a GPU where it is installed, reads int64 only.
    wide = device.type == "cuda" and WITH_TORCH_SPARSE
    indices = (np.int64 if wide else index_dtype(adjacency.csr.nnz)) if product else None
    hop = hop_of(adjacency.csr, edge_weights(adjacency), model, variant, indices)
    weight = None if hop.weight is None else hop.weight.to(device)
    features = None if adjacency.edge_features is None else torch.from_numpy(adjacency.edge_features).to(device)
    return replace(hop, edges=hop.edges.to(device), weight=weight, features=features)


def hop_of(
    csr: Csr, weight: Tensor | None, model: str, variant: str, product_indices: DTypeLike | None = None
) -> PygHop:
    """The graph of one layer over a square matrix, in the form of the variant.

    An EdgeIndex is for ``weighted_sum`` if the type of its indices is given, else for convolutions.
    """
    if variant == "csr":
        return PygHop(csr.shape[0], csr_tensor(csr.indptr, csr.indices, weight, model), None, csr)
    if variant == "torch_sparse":
        return PygHop(csr.shape[0], sparse_tensor(csr, weight), None, csr)
    if variant != "edge_index":  # Dynamo cannot trace one.
        return PygHop(csr.shape[0], edge_list(csr), weight, csr)
    # Convolutions scatter, which takes int64 only, and read no transpose; products are faster with int32.
    edges = edge_list(csr, np.int64 if product_indices is None else product_indices)
    index = EdgeIndex(edges, sparse_size=csr.shape, sort_order="col")
    index.fill_cache_(no_transpose=product_indices is None)
    return PygHop(csr.shape[0], index, weight, csr)


def sparse_tensor(csr: Csr, weight: Tensor | None) -> Any:
    """A SparseTensor of torch_sparse, row = destination, its transpose built."""
    from torch_sparse import SparseTensor  # optional: PyPI has no wheels

    indptr, indices = (torch.from_numpy(np.array(array, dtype=np.int64)) for array in (csr.indptr, csr.indices))
    return SparseTensor(rowptr=indptr, col=indices, value=weight, sparse_sizes=csr.shape, is_sorted=True).fill_cache_()


def csr_tensor(indptr: NDArray[np.integer], indices: NDArray[np.integer], weight: Tensor | None, model: str) -> Tensor:
    """A square ``torch.sparse`` CSR matrix, row = destination; weights of 1 unless given.

    Products are a third faster with int32 indices; GATConv gathers with them, and its backward takes int64 only.
    """
    kind = np.int64 if model == "gat" else index_dtype(len(indices))
    rows, columns = (torch.from_numpy(np.array(array, dtype=kind)) for array in (indptr, indices))
    values = torch.ones(len(indices)) if weight is None else weight
    size = (len(indptr) - 1,) * 2
    return torch.sparse_csr_tensor(rows, columns, values, size, check_invariants=False)
