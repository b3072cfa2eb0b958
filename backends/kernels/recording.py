"""Recordings of a step's kernels, repeated without the Python and the autograd that led to them.

As with graphs of CUDA calls, all memory stays where it was while a step was recorded: calling the same functions again
with the same arrays repeats the step on what parameters hold now. Only keys of dropout belong to an epoch.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from backends.kernels.extension import extension
from backends.kernels.native.dropout import MaskArguments
from backends.kernels.profiling import is_profiling, named

_ONE_AT_A_TIME = threading.Lock()  # functions of the extension are replaced while a thread records
_UNWRITTEN = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}  # allocations, left as they are


@dataclass
class Recording:
    """Calls in the order in which a step made them."""

    calls: list[tuple[Callable[..., Any], list[Any]]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # in profiles: of kernels, with the shapes of their arrays
    masks: list[tuple[list[Any], int]] = field(default_factory=list)  # arguments, and where a mask of dropout is there

    def add(self, function: Callable[..., Any], arguments: tuple[Any, ...], name: str = "") -> None:
        """Append a call; operations of torch need no ``name``, as profiles name them."""
        self.calls.append((function, list(arguments)))
        self.names.append(name)
        places = (place for place, argument in enumerate(arguments) if isinstance(argument, MaskArguments))
        self.masks += [(self.calls[-1][1], place) for place in places]

    def replay(self, epoch: int) -> None:
        """Make all calls again, with the keys of an epoch."""
        for arguments, place in self.masks:
            arguments[place] = arguments[place].of_epoch(epoch)
        if is_profiling():
            self._replay_named()
            return
        for function, arguments in self.calls:
            function(*arguments)

    def _replay_named(self) -> None:
        for (function, arguments), name in zip(self.calls, self.names, strict=True):
            if name:
                with named(name):
                    function(*arguments)
            else:
                function(*arguments)


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record what this thread computes: calls of the extension, and operations of torch that write a tensor."""
    recording = Recording()
    with _ONE_AT_A_TIME, _recorded_extension(recording), _Operations(recording):
        yield recording


@contextmanager
def _recorded_extension(recording: Recording) -> Iterator[None]:
    functions = {
        name: value
        for name, value in vars(extension).items()
        if callable(value) and not isinstance(value, type) and not name.startswith("_")
    }
    thread = threading.get_ident()

    def recorder_of(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if threading.get_ident() == thread:
                recording.add(function, arguments, _name_of(name, arguments))
            return function(*arguments)

        return call

    for name, function in functions.items():
        setattr(extension, name, recorder_of(name, function))
    try:
        yield
    finally:
        for name, function in functions.items():
            setattr(extension, name, function)


def _name_of(name: str, arguments: tuple[Any, ...]) -> str:
    matrices = (array for array in arguments if isinstance(array, np.ndarray) and array.ndim > 1)
    shapes = " ".join("x".join(map(str, array.shape)) for array in matrices)
    return f"kernel {name} {shapes}"


class _Operations(TorchDispatchMode):
    """Records operations of torch: those in place as they are, others so that they write where their result was."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Not, as torch would import its compiler for that: 140 MiB."""
        return False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = function(*args, **kwargs)
        schema, results = function._schema, [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        views = any(one.alias_info is not None for one in schema.returns)
        writes = any(one.alias_info is not None and one.alias_info.is_write for one in schema.arguments)
        if writes or (results and not views and function.overloadpacket.__name__ not in _UNWRITTEN):
            # detached: what autograd keeps for the backward pass is freed after it
            args, kwargs, results = tree_map_only(Tensor, Tensor.detach, (args, kwargs, results))
            self.recording.add(partial(function, **kwargs) if writes else _writing(function, kwargs, results), args)
        return out


def _writing(function: Any, options: dict[str, Any], results: list[Tensor]) -> Callable[..., Any]:
    """The operation that writes ``results`` in place of new tensors: its form with ``out``, or a copy."""
    into = getattr(function.overloadpacket, "out", None)
    if len(results) == 1 and into is not None and _inputs(into) == _inputs(function):
        return partial(into, **options, out=results[0])

    def call(*arguments: Any) -> None:
        for tensor, result in zip(tree_leaves(function(*arguments, **options)), results, strict=True):
            result.copy_(tensor)

    return call


def _inputs(function: Any) -> list[tuple[str, str]]:
    return [(one.name, str(one.type)) for one in function._schema.arguments if not one.is_out]
