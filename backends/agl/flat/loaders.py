"""GraphFlat's shards as batches of PyG and DGL: for models of these libraries, without the graph."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.agl.flat.reader import GraphFeatureReader, sampling_of
from backends.base.sparse_rows import Rows, SparseRows
from backends.kernels import layer_blocks
from backends.kernels.graphfeatures import MergedRecords


@dataclass(frozen=True, eq=False)
class _Batch:
    """Merged records: the neighbourhood, features [nodes, width], labels [records, ...] in the order of the targets."""

    merged: MergedRecords
    features: Tensor
    labels: Tensor

    @property
    def ids(self) -> Tensor:
        """Id of each node, int64."""
        return torch.from_numpy(np.asarray(self.merged.neighbourhood.nodes, dtype=np.int64))


def pyg_batches(folder: Path | str, size: int, seed: int | None = None, split: str | None = None) -> Iterator[Any]:
    """Yield ``torch_geometric.data.Data`` as NeighborLoader does, of ``size`` records of one shard each.

    ``x``, ``edge_index`` (source above destination), ``y`` of the first ``batch_size`` nodes, which are the targets;
    ``n_id``, ``num_sampled_nodes`` and ``num_sampled_edges`` per hop, as ``trim_to_layer`` takes them; ``edge_weight``
    and ``edge_attr`` where the edges have weights and features. PyG's layers read all sampled edges of a node, ours the
    first of them by the layer's own fanout: equal fanouts mean the same. ``seed`` shuffles shards and records,
    ``split`` takes the records of one split.
    """
    from torch_geometric.data import Data

    hops = sampling_of(GraphFeatureReader(folder)).hops
    for batch in _batches(folder, size, seed, split):
        merged, neighbourhood = batch.merged, batch.merged.neighbourhood
        csr, distance = neighbourhood.csr, neighbourhood.distance
        nodes = np.bincount(distance, minlength=hops + 1)
        edges = np.diff(csr.indptr[np.concatenate(([0], np.cumsum(nodes)))[: hops + 1]])
        columns = {"edge_weight": merged.edge_weights, "edge_attr": merged.edge_features}
        yield Data(
            x=batch.features,
            edge_index=torch.from_numpy(np.stack([csr.indices, csr.destinations]).astype(np.int64)),
            y=batch.labels,
            n_id=batch.ids,
            batch_size=len(batch.labels),
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

    hops = sampling_of(GraphFeatureReader(folder)).hops
    for batch in _batches(folder, size, seed, split):
        blocks = []
        for layer in layer_blocks(batch.merged.neighbourhood, hops):
            rows, columns = layer.csr.shape
            edges = torch.arange(layer.csr.nnz)
            indptr, indices = (
                torch.from_numpy(np.asarray(part, np.int64)) for part in (layer.csr.indptr, layer.csr.indices)
            )
            block = dgl.create_block(("csc", (indptr, indices, edges)), num_src_nodes=columns, num_dst_nodes=rows)
            for name, values in (("weight", batch.merged.edge_weights), ("feat", batch.merged.edge_features)):
                if values is not None:
                    block.edata[name] = torch.from_numpy(values[layer.positions])
            blocks.append(block)
        inputs, targets = blocks[0].num_src_nodes(), blocks[-1].num_dst_nodes()
        blocks[0].srcdata["feat"], blocks[-1].dstdata["label"] = batch.features[:inputs], batch.labels
        yield batch.ids[:inputs], batch.ids[:targets], blocks


def _batches(folder: Path | str, size: int, seed: int | None, split: str | None) -> Iterator[_Batch]:
    reader = GraphFeatureReader(folder)
    strategy, labels_of = sampling_of(reader), _Labels(reader)
    manifest = reader.manifest
    for records in reader.encoded_batches(size, seed, split):
        merged, features = records.merge(
            strategy.fanouts,
            apart=strategy.scope == "target",
            edge_weights=manifest["weighted"],
            edge_width=reader.edge_width,
        )
        targets = merged.neighbourhood.nodes[: len(merged.roots)]
        yield _Batch(merged, _dense(features), labels_of.at(targets))


class _Labels:
    """Labels of a folder's targets by id: a class, or 0/1 per class."""

    def __init__(self, reader: GraphFeatureReader) -> None:
        ids, labels, _ = reader.labelled()
        order = np.argsort(ids, kind="stable")
        single = reader.manifest["task"] == "multiclass" and labels.shape[1] == 1
        self.ids, self.labels = ids[order], (labels[:, 0] if single else labels)[order]

    def at(self, ids: NDArray[np.int64]) -> Tensor:
        """Labels of some targets."""
        return torch.from_numpy(self.labels[np.searchsorted(self.ids, ids)])


def _dense(rows: Rows) -> Tensor:
    """Features as these libraries take them; those of one batch at a time are turned dense."""
    return rows.dense() if isinstance(rows, SparseRows) else rows
