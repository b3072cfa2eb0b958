"""A pass of a user's model over three nodes: its widths, what it reads, and whether each node is computed alone."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from backends.agl.user_model import UserModelSpec
from backends.agl.user_network import MESSAGE, Edges, kind_of
from datasets.csr import Csr

NODES = 3
IN_EDGES = {0: [1, 1], 1: [0], 2: []}  # by node, the nodes that they come from
ALONE = {1: [0, 1], 2: [2]}  # nodes that are computed alone, and the only ones that they may depend on
READ = {"weight": "weight", "features": "features", "degrees": "degrees", "source_degrees": "degrees"}
TOLERANCE, ROUNDING = 1e-4, 1e-7  # of rows that are computed beside others, and of the same rows
AGAIN = (
    "when the model is built again: what is drawn at random is a parameter, of requires_grad=False where it is not "
    "trained"
)
TRAINED = "a pass of training, by values that are no parameters and not saved: use layers without state (LayerNorm)"


@dataclass
class _NotedEdges(Edges):
    """Edges that note which of their values are read."""

    read: set[str] = field(default_factory=set)

    def __getattribute__(self, name: str) -> Any:
        if name in READ:
            object.__getattribute__(self, "read").add(READ[name])
        return object.__getattribute__(self, name)


def tried(spec: UserModelSpec) -> UserModelSpec:
    """Complete a specification by passes over three nodes; raises UserModelError for a model that cannot be used."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        module = spec.build()
        _check_parameters(spec, module)
        read: set[str] = set()
        widths = _check_alike(spec, module.eval(), read, AGAIN)
        draws = _draws(spec, module.train(), read)
        # what training leaves beside parameters may be looked at; what is read changes the output, by however little
        _check_alike(spec, module.eval(), read, f"after {TRAINED}", ROUNDING)
    shapes = tuple((name, tuple(parameter.shape)) for name, parameter in module.named_parameters())
    return replace(spec, widths=widths, shapes=shapes, reads=tuple(sorted(read)),
                   self_loops=bool(getattr(module, "self_loops", False)), draws=draws)  # fmt: skip


def _check_parameters(spec: UserModelSpec, module: nn.Module) -> None:
    head = getattr(module, "head", None)
    parts: list[Any] = [module.layers, head] if isinstance(head, nn.Module) else [module.layers]
    of_parts = {id(parameter) for part in parts for parameter in part.parameters()}
    for name, parameter in module.named_parameters():
        if id(parameter) not in of_parts:
            spec.refuse(f"parameter {name} belongs neither to .layers nor to .head: no slice of the model has it")
        if parameter.dtype != torch.float32:
            spec.refuse(f"parameter {name} is {parameter.dtype}: parameters are torch.float32")
    buffers = [name for name, _ in module.named_buffers()]
    if buffers:
        spec.refuse(f"{buffers[0]} is a buffer, which servers do not exchange: use layers without state (LayerNorm)")


def _check_alike(
    spec: UserModelSpec, module: Any, read: set[str], when: str, tolerance: float = TOLERANCE
) -> tuple[int, ...]:
    """Widths of all embeddings; refuse a part that computes something else in a new module of the same parameters.

    Training and inference build the model anew, and copy its parameters alone.
    """
    again: Any = spec.build(anew=True).eval()
    with spec.running("a copy of its parameters"):
        for parameter, value in zip(again.parameters(), module.parameters(), strict=True):
            parameter.copy_(value)
    hidden, widths = torch.rand(NODES, spec.in_width), [spec.in_width]
    for number, layers in enumerate(zip(module.layers, again.layers, strict=True)):
        name = f"layers[{number}]"
        hidden, other = (_layer(spec, name, layer, hidden, read) for layer in layers)
        if not _equal(other, hidden, tolerance):
            spec.refuse(f"{name} computes something else {when}")
        widths.append(hidden.shape[1])
    logits, other = (_logits(spec, one, hidden) for one in (module, again))
    if not _equal(other, logits, tolerance):
        spec.refuse(f"head computes something else {when}")
    return tuple(widths)


def _layer(spec: UserModelSpec, name: str, layer: Any, hidden: Tensor, read: set[str]) -> Tensor:
    """Output of a layer on three nodes, one of them without in-edges; computed again for two of them alone."""
    with spec.running(f"{name}.send"), _unchanged(spec, f"{name}.send", [hidden]):
        sent, alone = layer.send(hidden), layer.send(hidden[1:2])
    for part, value in _named(sent).items():
        if isinstance(sent, dict) and (part == MESSAGE or not str(part).isidentifier()):
            spec.refuse(f"{name}.send names a message {part!r}: give a word, as in {{'z': z}}")
        if not isinstance(value, Tensor) or value.dtype != torch.float32 or value.dim() < 1 or len(value) != NODES:
            what = f"{name}.send returns {kind_of(value)}"
            spec.refuse(f"{what}: it returns a float32 tensor of a row per node, or a dict of some")
        if not _equal(_named(alone).get(part), value[1:2]):
            spec.refuse(f"{name}.send mixes nodes: a node's message may depend on its own embedding alone")
    edges = _edges(spec, [0, 1, 2], [0, 1, 2], read)
    inputs = [hidden, *_named(sent).values(), *(value for value in vars(edges).values() if isinstance(value, Tensor))]
    with spec.running(f"{name}.receive"), _unchanged(spec, f"{name}.receive", inputs):
        out = layer.receive(hidden, sent, edges)
        others = [
            layer.receive(hidden[row : row + 1], _at(sent, columns), _edges(spec, [row], columns, read))
            for row, columns in ALONE.items()
        ]
    if not isinstance(out, Tensor) or out.dtype != torch.float32 or out.dim() != 2 or len(out) != NODES:
        spec.refuse(f"{name}.receive returns {kind_of(out)} for {NODES} rows: it returns float32 [rows, width]")
    if not all(_equal(other, out[row : row + 1]) for row, other in zip(ALONE, others, strict=True)):
        spec.refuse(f"{name}.receive mixes rows: a row may depend on its own embedding and its in-edges alone")
    return out


@contextmanager
def _unchanged(spec: UserModelSpec, what: str, inputs: Iterable[Tensor]) -> Iterator[None]:
    """Refuse code that changes its inputs, which may be a file that is mapped for reading."""
    versions = [tensor._version for tensor in inputs]
    yield
    if versions != [tensor._version for tensor in inputs]:
        spec.refuse(f"{what} changes its inputs in place: make a new tensor, as relu(h) does and relu_(h) does not")


def _logits(spec: UserModelSpec, module: nn.Module, hidden: Tensor) -> Tensor:
    """Output of the head, if there is one, on three nodes."""
    head = getattr(module, "head", None)
    with spec.running("head"), _unchanged(spec, "head", [hidden]):
        logits, alone = (rows if head is None else head(rows) for rows in (hidden, hidden[1:2]))
    if not isinstance(logits, Tensor) or tuple(logits.shape) != (NODES, spec.classes):
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        last = "the last layer" if head is None else "head"
        spec.refuse(f"{last} returns {shape} for {NODES} nodes: it returns [nodes, {spec.classes} classes]")
    if not _equal(alone, logits[1:2]):
        spec.refuse("head mixes nodes: the logits of a node may depend on its own embedding alone")
    return logits


def _draws(spec: UserModelSpec, module: Any, read: set[str]) -> bool:
    """Whether a pass of training over the three nodes, forward and backward, draws torch's random numbers."""
    hidden, rows = torch.rand(NODES, spec.in_width), [0, 1, 2]
    before = torch.get_rng_state()
    with spec.running("a pass of training"), torch.enable_grad():
        for layer in module.layers:
            hidden = layer.receive(hidden, layer.send(hidden), _edges(spec, rows, rows, read))
        if getattr(module, "head", None) is not None:
            hidden = module.head(hidden)
        if hidden.requires_grad:
            hidden.sum().backward()
    return not torch.equal(before, torch.get_rng_state())


def _edges(spec: UserModelSpec, rows: list[int], columns: list[int], read: set[str]) -> Edges:
    """In-edges of some of the three nodes, from ``columns``, which hold all of their sources."""
    sources = [columns.index(source) for row in rows for source in IN_EDGES[row]]
    indptr = np.cumsum([0, *(len(IN_EDGES[row]) for row in rows)]).astype(np.int32)
    csr = Csr(indptr, np.array(sources, dtype=np.int32), (len(rows), len(columns)))
    degrees = torch.tensor([2.0, 1.0, 0.0])
    weight = torch.full((len(sources),), 0.5) if spec.weighted else None
    features = torch.ones(len(sources), spec.edge_width) if spec.edge_width else None
    return _NotedEdges(
        csr, weight, features=features, degrees=degrees[rows], source_degrees=degrees[columns], read=read
    )


def _at(sent: Any, columns: list[int]) -> Any:
    """What some nodes sent."""
    return {part: value[columns] for part, value in sent.items()} if isinstance(sent, dict) else sent[columns]


def _equal(value: Any, expected: Tensor, tolerance: float = TOLERANCE) -> bool:
    """Whether a value is the expected tensor to rounding error; NaN equals NaN."""
    if not isinstance(value, Tensor) or value.shape != expected.shape:
        return False
    return torch.allclose(value, expected, atol=tolerance, rtol=tolerance, equal_nan=True)


def _named(sent: Any) -> dict[str, Any]:
    return sent if isinstance(sent, dict) else {MESSAGE: sent}
