"""One inference: graph, model, targets, sampling and partitions; the nodes that each round computes; its folder."""

import hashlib
import json
import mmap
import shutil
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from backends.agl.config import MOST_ON_RAY
from backends.agl.flat.rounds import InEdgeTable
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.networks import SENT, check_state, model_slices, send, width_of
from backends.agl.user_model import UserModelSpec
from backends.agl.vectorize import NodeValues
from backends.kernels import sample_neighbors
from backends.kernels.operand import partition_rows
from backends.model import ModelSpec, State
from datasets.array_files import create_array, save_array
from datasets.csr import Csr
from datasets.features import SparseFeatures
from datasets.graph import Graph

Array = NDArray[Any]
SCRATCH_BYTES = 1 << 28
Nodes = NDArray[np.int64]
Mask = NDArray[np.bool_]
EDGES_PER_PARTITION = 1 << 22
ROWS_AT_ONCE = 1 << 16
SHOWN = 100  # characters of a value in a message


class Workspace:
    """Arrays as memory-mapped files; a step without a marker is computed again.

    With ``unmap`` mapped pages are released after use, not only when the system reclaims them. Raises ValueError where
    ``folder`` holds anything but an earlier run of the same ``job``.
    """

    def __init__(self, folder: Path, job: dict[str, Any], unmap: bool = False) -> None:
        self.folder, self.written, self.unmap = folder, 0, unmap
        job_file = folder / "job.json"
        if job_file.is_file():
            earlier, now = _by_name(json.loads(job_file.read_text())), _by_name(job)
            changed = [name for name in sorted({*earlier, *now}) if earlier.get(name) != now.get(name)]
            if changed:
                what = _change(changed[0], str(earlier.get(changed[0])), str(now.get(changed[0])))
                raise ValueError(
                    f"{folder} holds the work of another inference ({what}): give an empty folder, or remove that one"
                )
        elif folder.exists() and any(path != _temporary(job_file) for path in folder.iterdir()):
            raise ValueError(f"{folder} holds files of something else: give an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        _temporary(job_file).write_text(json.dumps(job, indent=1, sort_keys=True))
        _temporary(job_file).replace(job_file)

    def create(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Create an array of zeros and reserve its space; raises OSError where the disk has no room for it."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written += int(np.prod(shape)) * np.dtype(dtype).itemsize
        if 0 in shape:
            save_array(path, np.empty(shape, dtype))
            return np.empty(shape, dtype)
        return create_array(path, dtype, shape)

    def rows(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> "RowFile":
        """Create an array that is written by consecutive rows; raises OSError where the disk has no room for it."""
        self.create(name, shape, dtype)
        return RowFile(self.path(name))

    def scratch(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Create an array for one step: in memory where it is small, which allows large pages, else mapped."""
        return np.empty(shape, dtype) if self.small(shape, dtype) else self.create(name, shape, dtype)

    @staticmethod
    def small(shape: tuple[int, ...], dtype: DTypeLike) -> bool:
        """Whether an array for one step is created in memory."""
        return int(np.prod(shape)) * np.dtype(dtype).itemsize <= SCRATCH_BYTES

    def open(self, name: str) -> Array:
        """Memory-map an array that an earlier step created."""
        path = self.path(name)
        mode: Any = None if path.stat().st_size <= 128 else "r"  # an empty array cannot be mapped
        array: Array = np.load(path, mmap_mode=mode, allow_pickle=False)
        return array

    def drop(self, name: str) -> None:
        """Remove an array, or a folder of arrays."""
        self.path(name).unlink(missing_ok=True)
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def release(self, array: Array) -> None:
        """With ``unmap``, release the pages of an array, or of a part, that this round does not use again."""
        if self.unmap:
            unmap_pages(array)

    def finish(self, step: str) -> None:
        """Mark a step as finished: its arrays are complete."""
        (self.folder / f"{step}.done").touch()

    def finished(self, step: str) -> bool:
        """Whether a step was finished, here or by an earlier process."""
        return (self.folder / f"{step}.done").is_file()

    def forget(self, step: str) -> None:
        """Remove the marker of a step, so that it runs again."""
        (self.folder / f"{step}.done").unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """The file of an array."""
        return self.folder / f"{name}.npy"


def _by_name(facts: dict[str, Any], of: str = "") -> dict[str, Any]:
    """What identifies a job, one value per name: those of its model are ``model.hidden`` and the like."""
    values: dict[str, Any] = {}
    for name, value in facts.items():
        values |= _by_name(value, f"{of}{name}.") if isinstance(value, dict) else {of + name: value}
    return values


def _change(name: str, earlier: str, now: str) -> str:
    """How a value changed; a long one, such as the code of a model, is only named."""
    return f"{name} was {earlier}, is {now}" if max(len(earlier), len(now)) <= SHOWN else f"{name} is another"


def _temporary(path: Path) -> Path:
    """The name under which a file is written before it is renamed; a full disk or a kill may leave it."""
    return path.with_name(f".{path.name}.tmp")


class RowFile:
    """A ``.npy`` file written by rows with plain writes, which take less time than page faults of a mapping."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            self.start = file.tell()
        self.width = int(np.prod(shape[1:])) * dtype.itemsize

    def put(self, first: int, values: Array) -> None:
        """Write consecutive rows from ``first`` on."""
        with self.path.open("r+b", buffering=0) as file:
            file.seek(self.start + first * self.width)
            remaining = np.ascontiguousarray(values).data.cast("B") if values.size else memoryview(b"")
            while remaining:
                remaining = remaining[file.write(remaining) :]


def unmap_pages(array: Array) -> None:
    """Unmap the whole pages of a mapped array; they stay in the system's cache, and written data is not lost."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not isinstance(owner.base, mmap.mmap):
        owner = owner.base
    if not isinstance(owner, np.ndarray) or not array.size:
        return
    mapped: Any = owner.base
    start = array.__array_interface__["data"][0] - np.frombuffer(mapped, dtype=np.uint8).__array_interface__["data"][0]
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if length > 0:
        mapped.madvise(mmap.MADV_DONTNEED, first, length)


@dataclass(frozen=True, eq=False)
class HubSamples:
    """Samples of hubs, drawn in pieces beforehand: ascending nodes, and by fanout the places of each one's edges."""

    nodes: Nodes
    positions: dict[int, list[Nodes]]

    def split(self, rows: Nodes, fanout: int) -> tuple[Nodes, Nodes]:
        """The nodes of ascending ``rows`` that are no hubs, and the sampled edges of those that are."""
        hubs = np.flatnonzero(np.isin(self.nodes, rows))
        edges = [self.positions[fanout][hub] for hub in hubs]
        return rows[~np.isin(rows, self.nodes)], np.concatenate([*edges, np.empty(0, dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class InferenceJob:
    """One inference; ``targets=None`` scores every node, ``partitions=0`` cuts by size, into ``least_partitions``.

    ``strategy`` says which in-edges a layer reads; without one they are uniform by ``spec.fanouts``, or all. ``table``
    holds the edges that pass ``filtering``, and the column that the strategy samples by with its sums
    (``flat.source``); without it they are the graph's, and its edge weights. ``node_values`` are what layers read of
    each node, from degrees of the whole graph: gcn's scale, a user's in-degrees; Map writes or computes them. Raises
    ValueError for a model, targets, sampling or partitions that do not fit the graph.
    """

    graph: Graph
    spec: ModelSpec
    state: State
    targets: Nodes | None = None
    strategy: SamplingStrategy | None = None
    partitions: int = 0
    filtering: str | None = None
    table: InEdgeTable | None = None
    hubs: HubSamples | None = None
    least_partitions: int = 1
    node_values: NodeValues | NDArray[np.floating] | None = None

    def __post_init__(self) -> None:
        check_state(self.spec, self.state, "the state")
        of_edges = 0 if self.graph.edge_features is None else self.graph.edge_features.shape[1]
        refuse_other_widths(self.spec, self.graph.width, of_edges, self.graph.name)
        if self.sampling.hops != self.spec.layers:
            raise ValueError(f"fanouts {self.sampling.fanouts} are not one per layer: the model has {self.spec.layers}")
        if self.partitions < 0:
            raise ValueError(f"partitions={self.partitions} is not allowed: at least 1, or 0 to cut by size")
        if self.targets is not None and len(self.targets):
            low, high = self.targets.min(), self.targets.max()
            if low < 0 or high >= self.graph.nodes:
                raise ValueError(f"targets reach from {low} to {high}: allowed are 0 to {self.graph.nodes - 1}")

    @cached_property
    def sampling(self) -> SamplingStrategy:
        """How in-edges are sampled."""
        if self.strategy is not None:
            return self.strategy
        fanouts: tuple[int | None, ...] = self.spec.fanouts or (None,) * self.spec.layers
        return SamplingStrategy(fanouts, "uniform" if self.spec.fanouts else "full")

    @cached_property
    def edges(self) -> InEdgeTable:
        """The edges to sample from; raises ValueError where a node has no sample of its own, or without their table."""
        if self.sampling.scope == "target":
            raise ValueError("samples of scope target differ between targets: score them by their neighbourhoods")
        if self.table is None and needs_table(self.sampling, self.filtering):
            raise ValueError(
                "a filter, draws by weight, or sampling by another column need the table of their edges: give that of "
                "Source.build"
            )
        return self.table or InEdgeTable(self.graph.csr, self.graph.edge_weights)

    @cached_property
    def bounds(self) -> Nodes:
        """Partition p holds nodes ``bounds[p]`` to ``bounds[p + 1]``; partitions have about equally many edges.

        With ``partitions=0`` also what is stored or gathered for their edges, or the widest rows of their nodes, take
        ``SCRATCH_BYTES``, with Ray in up to ``MOST_ON_RAY`` partitions by edges.
        """
        csr, spec, most_bytes = self.edges.csr, self.spec, SCRATCH_BYTES
        if self.partitions:
            return partition_rows(csr, self.partitions)
        columns, least = spec.edge_width if "features" in spec.edge_columns else 0, self.least_partitions
        if isinstance(spec, UserModelSpec):
            columns = max(columns, self._widest, self._sent)  # gathered by edge
        elif least > 1 and 4 * self._sent * self.graph.nodes > most_bytes:
            columns = max(columns, self._sent)  # Ray sends a task the rows that its edges read
        edges = max(min(EDGES_PER_PARTITION, most_bytes // max(4 * columns, 1)), 1)
        count = -(-csr.nnz // edges)
        by_edges = partition_rows(csr, max(least, count if least == 1 else min(count, MOST_ON_RAY)))
        return np.union1d(by_edges, np.arange(0, self.graph.nodes, max(most_bytes // (4 * self._widest), 1)))

    @property
    def _widest(self) -> int:
        """Columns of the widest row that a round computes of each node: of an embedding, of messages, of their sums."""
        spec = self.spec
        widths = [spec.width_out(layer) * spec.heads_of(layer) for layer in range(spec.layers)]
        multiplies = self.sparse_input and not isinstance(spec, UserModelSpec)  # sparse features as they are
        return max(*widths, 1 if multiplies else spec.in_width)

    @cached_property
    def _sent(self) -> int:
        """Columns that a layer sends of each node at most, as it does of the first."""
        widths = [width_of(self.spec, layer) for layer in range(self.spec.layers)]
        inputs = [self.graph.features[np.arange(1)], *(np.ones((1, width), np.float32) for width in widths)]
        layers = model_slices(self.spec, self.state, self.sparse_input)[:-1]
        sent = [send(layer, number, inputs[number]) for number, layer in enumerate(layers)]
        return max(sum(value[0].size for name, value in part.items() if name.startswith(SENT)) for part in sent)

    @cached_property
    def parts(self) -> list[tuple[int, int]]:
        """First and last node (exclusive) of every partition that is not empty."""
        ranges = zip(self.bounds[:-1], self.bounds[1:], strict=True)
        return [(int(first), int(last)) for first, last in ranges if last > first]

    def fanout(self, layer: int) -> int | None:
        """Neighbours that a layer (0-based) reads of each node, ``None`` for all."""
        return self.sampling.fanouts[layer]

    @cached_property
    def needed(self) -> list[Mask | None]:
        """Per layer k (0: features), the nodes whose embedding some target depends on; ``None`` for all nodes."""
        layers = self.spec.layers
        if self.targets is None:
            return [None] * (layers + 1)
        mask = np.zeros(self.graph.nodes, dtype=bool)
        mask[self.targets] = True
        masks: list[Mask | None] = [mask]
        for layer in reversed(range(layers)):
            computed, mask = mask, mask.copy()
            for start in range(0, len(mask), ROWS_AT_ONCE):
                rows = start + np.flatnonzero(computed[start : start + ROWS_AT_ONCE])
                mask[self.in_edges(rows, layer)[0].indices] = True
            masks.insert(0, mask)
        return masks

    def in_edges(self, rows: Nodes, layer: int) -> tuple[Csr, Nodes]:
        """In-edges that a layer reads of ascending nodes, and their positions in the graph's edge order, ascending."""
        csr, places = self._places(rows, layer)
        return csr, places if self.edges.positions is None else np.asarray(self.edges.positions[places])

    def _places(self, rows: Nodes, layer: int) -> tuple[Csr, Nodes]:
        """In-edges that a layer reads of ascending nodes, and their places in the table of edges."""
        csr, fanout, sampling = self.edges.csr, self.fanout(layer), self.sampling
        if fanout is not None:
            others, of_hubs = rows, np.empty(0, dtype=np.int64)
            if self.hubs is not None and fanout in self.hubs.positions:
                others, of_hubs = self.hubs.split(rows, fanout)
            options = sampling.seed, sampling.method, self.edges.sampled_by, sampling.replacement
            sample = sample_neighbors(csr, others, fanout, *options)
            positions = np.sort(np.concatenate((sample.positions, of_hubs)))
            indptr = np.concatenate(([0], np.cumsum(self.degrees(rows, layer))))
            return Csr(indptr, np.asarray(csr.indices[positions]), (len(rows), csr.shape[1])), positions
        if not len(rows) or rows[-1] - rows[0] + 1 != len(rows):
            return csr.rows(rows)
        first, last = int(rows[0]), int(rows[-1]) + 1
        start, end = int(csr.indptr[first]), int(csr.indptr[last])
        indptr = np.asarray(csr.indptr[first : last + 1]) - csr.indptr[first]
        return Csr(indptr, np.asarray(csr.indices[start:end]), (last - first, csr.shape[1])), np.arange(start, end)

    @property
    def sparse_input(self) -> bool:
        """Whether the graph's features are sparse."""
        return isinstance(self.graph.features, SparseFeatures)

    def degrees(self, rows: Nodes, layer: int) -> Nodes:
        """Number of edges that ``in_edges`` returns of each node, without sampling them."""
        indptr = self.edges.csr.indptr
        in_degrees: Nodes = (indptr[rows + 1] - indptr[rows]).astype(np.int64)
        fanout = self.fanout(layer)
        if fanout is None:
            return in_degrees
        return np.where(in_degrees > 0, fanout, 0) if self.sampling.replacement else np.minimum(in_degrees, fanout)

    def identity(self) -> dict[str, Any]:
        """The inputs, with digests of arrays; a run resumes the work of an earlier one with equal inputs."""
        return {
            "graph": [self.graph.name, self.graph.sha256, self.graph.nodes, self.graph.csr.nnz],
            "model": json.loads(json.dumps(asdict(self.spec))),
            "state": _digest(*(self.state[name] for name in sorted(self.state))),
            "targets": None if self.targets is None else _digest(self.targets),
            "sampling": json.loads(json.dumps(asdict(self.sampling))),
            "filter": self.filtering,
        }


def refuse_other_widths(spec: ModelSpec, of_nodes: int, of_edges: int, source: str) -> None:
    """Raise ValueError where nodes or edges of ``source`` have other numbers of features than a model takes."""
    if spec.in_width != of_nodes:
        raise ValueError(f"the model takes {spec.in_width} features, {source} has {of_nodes}")
    if "features" in spec.edge_columns and spec.edge_width != of_edges:
        raise ValueError(f"the model takes {spec.edge_width} features of each edge, {source} has {of_edges}")


def needs_table(strategy: SamplingStrategy, filtering: str | None) -> bool:
    """Whether edges are filtered, drawn by sums of weights, or sampled by anything but the graph's as they are."""
    return bool(filtering) or strategy.method == "weighted" or strategy.reverse or strategy.by not in (None, "weight")


def _digest(*arrays: NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
