"""AGL's interfaces in Python: the four functions of its demo (section 3.5), and shards as batches of PyG and DGL.

``adj, node_feature, edge_feature = subgraph_vectorize(graph, targetID, hops)``, ``adj_list = pruning(adj)``, in layer k
``aggregator(adj_list[k], node_embedding)``, at the end ``look_up(node_embedding, targetID)``.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.agl.flat.reader import EncodedRecords, GraphFeatureReader, sampling_of
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.sampled_graph import SampledGraph
from backends.agl.user_network import dense_rows
from backends.agl.vectorize import EdgeValues, LayerBuilder, matrices, merged_records
from backends.base.layered import LayerMatrix
from backends.base.sparse_rows import features_of
from backends.kernels import Neighbourhood, layer_blocks, spmm
from backends.kernels.graphfeatures import MergedRecords
from datasets.features import dense_features
from datasets.graph import Graph


@dataclass(frozen=True, eq=False)
class SubgraphAdjacency:
    """A_B of a batch: the merged neighbourhood of its targets, edges by destination, and the values of its edges.

    ``builder`` and ``values`` are what ``pruning`` adds each layer's self loops and weights from.
    """

    neighbourhood: Neighbourhood
    builder: LayerBuilder
    values: EdgeValues


_sampled_graphs: "WeakKeyDictionary[Graph, dict[str, SampledGraph]]" = WeakKeyDictionary()


def subgraph_vectorize(
    graph: Graph | EncodedRecords,
    targets: NDArray[np.integer],
    hops: int,
    model: str = "gcn",
    fanouts: tuple[int | None, ...] | None = None,
    seed: int = 0,
) -> tuple[SubgraphAdjacency, Tensor, Tensor | None]:
    """Return A_B, X_B [nodes, width] and E_B [edges, width] or ``None`` of a batch of target nodes.

    ``model`` chooses what ``pruning`` adds: ``gcn`` self loops and symmetric weights, ``gat`` self loops only. Weights
    are normalised on the whole graph. ``fanouts``, one per layer, first layer first, sample neighbours before; E_B has
    the features of the edges, without self loops. In place of a graph, GraphFeatures of the targets as
    ``GraphFeatureReader.encoded_batches`` yields them: ``fanouts`` are then those of GraphFlat. Raises ValueError for a
    graph without features, a number of fanouts other than ``hops``, targets that are not those of the GraphFeatures, or
    GraphFeatures of fewer hops.
    """
    if isinstance(graph, Graph) and graph.features is None:
        raise ValueError(f"data set {graph.name} has no features: a model needs some")
    if fanouts is not None and len(fanouts) != hops:
        raise ValueError(f"fanouts={fanouts} has {len(fanouts)} entries for {hops} hops: give one per layer")
    fanouts = fanouts or (None,) * hops
    if isinstance(graph, EncodedRecords):
        return _of_records(graph, targets, model, fanouts)
    sampled = _sampled_graph(graph, model, SamplingStrategy(fanouts, seed=seed))
    neighbourhood = sampled.search(targets)
    assert graph.features is not None
    features = dense_features(graph.features[neighbourhood.nodes], "subgraph_vectorize")
    edge_features = EdgeValues(features=graph.edge_features).features_of(neighbourhood.positions)
    adj = SubgraphAdjacency(neighbourhood, sampled.builder, sampled.values_of(neighbourhood))
    return adj, torch.from_numpy(features), edge_features


def _sampled_graph(graph: Graph, model: str, strategy: SamplingStrategy) -> SampledGraph:
    """The graph to sample from by any strategy, prepared once for a model."""
    by_model = _sampled_graphs.setdefault(graph, {})
    if model not in by_model:
        by_model[model] = SampledGraph(graph, LayerBuilder(model), strategy, None)
    sampled = copy(by_model[model])
    sampled.strategy = strategy
    return sampled


def _of_records(
    records: EncodedRecords, targets: NDArray[np.integer], model: str, fanouts: tuple[int | None, ...]
) -> tuple[SubgraphAdjacency, Tensor, Tensor | None]:
    hops = len(records.manifest["strategy"]["fanouts"])
    if hops < len(fanouts):
        raise ValueError(
            f"the GraphFeatures have {hops} hops, {len(fanouts)} are asked for: flatten with -h {len(fanouts)}"
        )
    if not records.manifest["width"]:
        raise ValueError("the GraphFeatures have no features: a model needs some")
    builder = LayerBuilder(model)
    merged, rows, values = merged_records(records, builder, fanouts)
    if not np.array_equal(np.unique(targets), np.unique(merged.neighbourhood.nodes[merged.roots])):
        raise ValueError("targets are not those of the GraphFeatures: give the targets of the same records")
    features = torch.from_numpy(dense_features(features_of(rows), "subgraph_vectorize"))
    edge_features = None if merged.edge_features is None else torch.from_numpy(merged.edge_features)
    return SubgraphAdjacency(merged.neighbourhood, builder, values), features, edge_features


def pruning(adj: SubgraphAdjacency, form: str = "tight") -> list[LayerMatrix]:
    """Return each layer's matrix, first layer first, pruned to the nodes that the targets need (AGL, section 3.3.2)."""
    return matrices(adj.neighbourhood, adj.builder, form, adj.values)


def aggregator(adj: LayerMatrix, h: Tensor, reduce: str = "sum") -> Tensor:
    """Aggregate embeddings over in-edges: [rows, width], with the edges' weights; ``reduce`` is sum or mean.

    All in-edges of a destination are aggregated by one thread (AGL, section 3.3.2). Differentiable in ``h``.
    """
    return spmm(adj.csr, h[: adj.csr.shape[1]], adj.weight, reduce)


def look_up(h: Tensor, targets: NDArray[np.integer]) -> Tensor:
    """Return the embeddings of a batch's targets in their order; ``targets`` are those that were vectorised."""
    ascending, rows = np.unique(targets, return_inverse=True)
    if len(h) < len(ascending):
        raise ValueError(f"{len(ascending)} targets but {len(h)} embeddings: look up the targets that were vectorised")
    return h[torch.from_numpy(rows)]


def pyg_batches(folder: Path | str, size: int, seed: int | None = None, split: str | None = None) -> Iterator[Any]:
    """Yield ``torch_geometric.data.Data`` as NeighborLoader does, of ``size`` records of one shard each.

    ``x``, ``edge_index`` (source above destination), ``y`` of the first ``batch_size`` nodes, which are the targets;
    ``n_id``, ``num_sampled_nodes`` and ``num_sampled_edges`` per hop, as ``trim_to_layer`` takes them; ``edge_weight``
    and ``edge_attr`` where the edges have weights and features. PyG's layers read all sampled edges of a node, ours the
    first of them by the layer's own fanout: equal fanouts mean the same. ``seed`` shuffles shards and records,
    ``split`` takes the records of one split.
    """
    from torch_geometric.data import Data

    for merged, ids, features, labels in _batches(folder, size, seed, split):
        neighbourhood = merged.neighbourhood
        csr, distance, hops = neighbourhood.csr, neighbourhood.distance, len(neighbourhood.fanouts)
        nodes = np.bincount(distance, minlength=hops + 1)
        edges = np.diff(csr.indptr[np.concatenate(([0], np.cumsum(nodes)))[: hops + 1]])
        columns = {"edge_weight": merged.edge_weights, "edge_attr": merged.edge_features}
        yield Data(
            x=features,
            edge_index=torch.from_numpy(np.stack([csr.indices, csr.destinations]).astype(np.int64)),
            y=labels,
            n_id=ids,
            batch_size=len(labels),
            num_sampled_nodes=nodes.tolist(),
            num_sampled_edges=edges.tolist(),
            **{name: torch.from_numpy(values) for name, values in columns.items() if values is not None},
        )


def dgl_blocks(
    folder: Path | str, size: int, seed: int | None = None, split: str | None = None
) -> Iterator[tuple[Tensor, Tensor, list[Any]]]:
    """Yield ids of inputs, ids of targets and a block per layer, as DGL's DataLoader does; arguments as of PyG's.

    ``srcdata["feat"]`` of the first block are the features, ``dstdata["label"]`` of the last one the labels;
    ``edata["weight"]`` and ``edata["feat"]`` are those of the edges where they have some.
    """
    import dgl

    for merged, ids, features, labels in _batches(folder, size, seed, split):
        blocks = []
        for layer in layer_blocks(merged.neighbourhood, len(merged.neighbourhood.fanouts)):
            rows, columns = layer.csr.shape
            edges = torch.arange(layer.csr.nnz)
            indptr, indices = (
                torch.from_numpy(np.asarray(part, np.int64)) for part in (layer.csr.indptr, layer.csr.indices)
            )
            block = dgl.create_block(("csc", (indptr, indices, edges)), num_src_nodes=columns, num_dst_nodes=rows)
            for name, values in (("weight", merged.edge_weights), ("feat", merged.edge_features)):
                if values is not None:
                    block.edata[name] = torch.from_numpy(values[layer.positions])
            blocks.append(block)
        inputs, targets = blocks[0].num_src_nodes(), blocks[-1].num_dst_nodes()
        blocks[0].srcdata["feat"], blocks[-1].dstdata["label"] = features[:inputs], labels
        yield ids[:inputs], ids[:targets], blocks


def _batches(
    folder: Path | str, size: int, seed: int | None, split: str | None
) -> Iterator[tuple[MergedRecords, Tensor, Tensor, Tensor]]:
    """Yield merged records, ids int64 [nodes], features [nodes, width], labels [targets] or 0/1 [targets, classes]."""
    reader = GraphFeatureReader(folder)
    strategy, manifest = sampling_of(reader), reader.manifest
    ids, labels, _ = reader.labelled()
    order = np.argsort(ids, kind="stable")
    single = manifest["task"] == "multiclass" and labels.shape[1] == 1
    ids, labels = ids[order], (labels[:, 0] if single else labels)[order]
    for records in reader.encoded_batches(size, seed, split):
        merged, features = records.merge(strategy.fanouts)
        nodes = np.asarray(merged.neighbourhood.nodes, dtype=np.int64)
        targets = np.searchsorted(ids, nodes[: len(merged.roots)])
        yield merged, torch.from_numpy(nodes), dense_rows(features), torch.from_numpy(labels[targets])
