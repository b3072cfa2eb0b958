"""The graph with its features, labels and splits, which loaders return, orders renumber and engines read."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.array_files import save_array
from datasets.csr import Csr
from datasets.features import Features, SparseFeatures, dense_features
from datasets.files import atomic_file
from datasets.options import unknown_name
from datasets.schema import Schema

SPLITS = {"train": 0, "validation": 1, "test": 2}
NO_SPLIT = 3
MISSING = -1
_NODE_ARRAYS = ("features", "labels", "split", "graph_ids", "node_ids", "node_types")
_SPARSE = ("feature_indptr", "feature_indices", "feature_values")
_EDGE_ARRAYS = ("edge_weights", "edge_types", "edge_features")
_BOUNDS = "part_bounds"


@dataclass(frozen=True, eq=False)
class Graph:
    """A directed graph with the attributes of its nodes and edges; an edge is source -> destination.

    ``csr`` holds in-edges by destination, without self loops. ``features`` float32 [nodes, width], dense or, where few
    are set, ``SparseFeatures``. ``labels`` int64 [nodes] for ``task="multiclass"``, int8 [nodes, classes] for
    ``"multilabel"``; -1 is missing, and masked. ``split`` int8 [nodes]: 0 train, 1 validation, 2 test, 3 none.
    ``graph_ids`` int32 [nodes] tells the graphs of a block-diagonal union apart. Edge arrays stand in the order of
    ``csr``. ``node_ids`` are the original ids. ``schema`` names the types: ``node_types`` ascend then, and
    ``edge_types`` are numbers of relations. ``part_bounds`` int64 [parts + 1] are the first nodes of the parts of a
    graph in the order of a partition.
    """

    name: str
    csr: Csr
    features: Features | None = None
    labels: NDArray[np.integer] | None = None
    split: NDArray[np.int8] | None = None
    classes: int = 0
    task: str = "none"
    graph_ids: NDArray[np.int32] | None = None
    node_ids: NDArray[np.integer] | None = None
    node_types: NDArray[np.int32] | None = None
    edge_weights: NDArray[np.float32] | None = None
    edge_types: NDArray[np.int32] | None = None
    edge_features: NDArray[np.float32] | None = None
    schema: Schema | None = None
    part_bounds: NDArray[np.int64] | None = None
    inductive: bool = False
    synthetic: bool = False
    sha256: str = ""
    trust: str = "unchecked"
    self_loops_dropped: int = 0
    published: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.csr.shape[0]

    @property
    def width(self) -> int:
        """Features per node."""
        return 0 if self.features is None else int(self.features.shape[1])

    def nodes_of(self, split: str) -> NDArray[np.int64]:
        """Return the nodes of a split that carry a label, ascending."""
        if split not in SPLITS:
            raise ValueError(unknown_name("split", split, SPLITS))
        if self.split is None or self.labels is None:
            return np.zeros(0, dtype=np.int64)
        labelled = self.labels >= 0 if self.labels.ndim == 1 else (self.labels >= 0).any(axis=1)
        return np.flatnonzero((self.split == SPLITS[split]) & labelled)

    def counts(self) -> dict[str, int]:
        """Count nodes, directed edges without self loops, features, classes and split sizes of this graph."""
        counts = {"nodes": self.nodes, "edges": self.csr.nnz, "features": self.width, "classes": self.classes}
        sizes = {} if self.split is None else {name: len(self.nodes_of(name)) for name in SPLITS}
        return counts | sizes | {"self_loops_dropped": self.self_loops_dropped}

    @cached_property
    def _training_view(self) -> "Graph":
        if not self.inductive or self.graph_ids is None or self.split is None:
            return self
        training = np.unique(self.graph_ids[self.split == SPLITS["train"]])
        return self.subgraph(np.flatnonzero(np.isin(self.graph_ids, training)))

    def training_view(self) -> "Graph":
        """Return the training graphs of an inductive data set, otherwise the graph itself."""
        return self._training_view

    def subgraph(self, nodes: NDArray[np.integer]) -> "Graph":
        """Return the subgraph induced by ``nodes``, numbered in their order; edge ids and original node ids stay."""
        position = np.full(self.nodes, -1, dtype=self.csr.indices.dtype)
        position[nodes] = np.arange(len(nodes), dtype=position.dtype)
        rows, positions = self.csr.rows(nodes)
        columns = position[rows.indices]
        inside = columns >= 0
        destinations = rows.destinations[inside]
        order = np.lexsort((columns[inside], destinations))
        indptr = np.concatenate(([0], np.cumsum(np.bincount(destinations, minlength=len(nodes)))))
        edges = positions[inside][order]
        csr = Csr(indptr.astype(self.csr.indptr.dtype), columns[inside][order], (len(nodes),) * 2, self.csr.ids[edges])
        original = np.arange(self.nodes) if self.node_ids is None else self.node_ids
        attributes = self._map_arrays(lambda array: array[nodes], lambda array: array[edges])
        # other orders of nodes mix the types, whose ids a schema promises to be contiguous
        schema = self.schema if (np.diff(nodes) > 0).all() else None
        changed = attributes | {"node_ids": original[nodes], "schema": schema, _BOUNDS: None}
        return replace(self, csr=csr, **changed)

    def _map_arrays(self, on_nodes: Callable[[Any], Any], on_edges: Callable[[Any], Any]) -> dict[str, Any]:
        functions = dict.fromkeys(_NODE_ARRAYS, on_nodes) | dict.fromkeys(_EDGE_ARRAYS, on_edges)
        arrays = {name: getattr(self, name) for name in functions}
        return {name: None if array is None else functions[name](array) for name, array in arrays.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(array.nbytes) for array in self._arrays().values())

    def with_dense_features(self, why: str) -> "Graph":
        """The same graph with its features as an array, for ``why``; raises MemoryError naming that reason."""
        if not isinstance(self.features, SparseFeatures):
            return self
        return replace(self, features=dense_features(self.features, why))

    def save(self, folder: Path) -> None:
        """Write the graph as ``*.npy`` and ``graph.json`` into an existing ``folder``."""
        for name, array in self._arrays().items():
            save_array(folder / f"{name}.npy", array)
        self.save_facts(folder)

    def _arrays(self) -> dict[str, Any]:
        arrays: dict[str, Any] = {"indptr": self.csr.indptr, "indices": self.csr.indices, "edge_ids": self.csr.edge_ids}
        arrays |= {name: getattr(self, name) for name in (*_NODE_ARRAYS, *_EDGE_ARRAYS, _BOUNDS)}
        if isinstance(self.features, SparseFeatures):
            arrays["features"] = None
            for name, part in zip(_SPARSE, self.features.arrays, strict=True):
                arrays[name] = part
        return {name: array for name, array in arrays.items() if array is not None}

    def save_facts(self, folder: Path) -> None:
        """Write ``graph.json`` alone, whole or not at all, into a ``folder`` whose arrays are already written."""
        skipped = {"csr", *_NODE_ARRAYS, *_EDGE_ARRAYS, _BOUNDS}
        names = [attribute.name for attribute in fields(self) if attribute.name not in skipped]
        facts = {name: getattr(self, name) for name in names}
        facts["schema"] = None if self.schema is None else self.schema.as_json()
        facts |= {"shape": list(self.csr.shape), "width": self.width, "arrays": list(self._arrays())}
        with atomic_file(folder / "graph.json") as temporary:
            temporary.write_text(json.dumps(facts, indent=1, sort_keys=True))

    @classmethod
    def load(cls, folder: Path) -> "Graph":
        """Memory-map a graph that ``save`` wrote; raises OSError or ValueError naming a missing or damaged file."""
        path = folder / "graph.json"
        try:
            facts = json.loads(path.read_text())
        except ValueError as error:
            raise _damaged(path, error) from error
        try:
            return cls._from_facts(folder, facts)
        except (KeyError, TypeError) as error:
            advice = "give the folder of one, or prepare the graph again"
            raise ValueError(f"{path} does not describe a prepared graph ({error!r}): {advice}") from error

    @classmethod
    def _from_facts(cls, folder: Path, facts: dict[str, Any]) -> "Graph":
        arrays: dict[str, Any] = {name: _mapped(folder / f"{name}.npy") for name in facts.pop("arrays")}
        shape, width = tuple(facts.pop("shape")), facts.pop("width", 0)
        csr = Csr(arrays.pop("indptr"), arrays.pop("indices"), shape, arrays.pop("edge_ids", None))
        if _SPARSE[0] in arrays:
            indptr, indices, values = (arrays.pop(name) for name in _SPARSE)
            arrays["features"] = SparseFeatures(Csr(indptr, indices, (shape[0], width)), values)
        facts["notes"] = tuple(facts["notes"])
        facts["schema"] = None if facts.get("schema") is None else Schema.from_json(facts["schema"])
        return cls(csr=csr, **facts, **arrays)


def _mapped(path: Path) -> NDArray[Any]:
    """Memory-map one array of a saved graph."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _damaged(path, error) from error
    return array


def _damaged(path: Path, error: Exception) -> ValueError:
    return ValueError(f"{path} is damaged ({error}): delete {path.parent} and prepare the graph again")
