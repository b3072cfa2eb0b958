"""Specification of a user's model: the text of its file, and what one pass over a small graph says of it."""

import ast
import hashlib
import inspect
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from backends.memory_errors import is_out_of_memory
from backends.model import ModelSpec, State

ENDING, FUNCTION = ".py", "model"
LAYER_METHODS = ("send", "receive")
# what the function may take, by name
SETTINGS = ("hidden", "heads", "output_heads", "slope", "dropout", "attention_dropout")
ARGUMENTS = ("in_width", "classes", "layers", "edge_width", "weighted", *SETTINGS)


class UserModelError(ValueError):
    """A user's model that cannot be used; the message names its file, what is wrong, and what is needed."""


@dataclass(frozen=True)
class UserModelSpec(ModelSpec):
    """A model that a function of a user's file builds; ``code`` is the file's text, so that every process has it.

    ``weighted`` says whether the edges of the data have weights. ``widths`` are those of all embeddings, the
    features first; ``shapes`` those of the parameters; ``reads`` which of ``weight``, ``features`` and ``degrees`` the
    layers read of their edges; ``draws`` whether passes of training draw random numbers, as dropout does.
    """

    file: str = ""
    function: str = FUNCTION
    code: str = ""
    weighted: bool = False
    dropout: float = 0.0
    attention_dropout: float = 0.0
    widths: tuple[int, ...] = ()
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    reads: tuple[str, ...] = ()
    self_loops: bool = False
    draws: bool = False

    @property
    def has_loops(self) -> bool:
        """Whether each node gets an edge from itself: where the module has ``self_loops = True``."""
        return self.self_loops

    @property
    def reads_edges(self) -> bool:
        """Yes: a layer gets the edges themselves."""
        return True

    @property
    def edge_columns(self) -> tuple[str, ...]:
        """What the layers read of their edges."""
        return self.reads

    @property
    def sha256(self) -> str:
        """Digest of the file, and of what it imports that is no installed package."""
        digest = hashlib.sha256(self.code.encode())
        for name, text in sorted(local_imports(self.code).items()):
            digest.update(f"\n{name}\n".encode() + text)
        return digest.hexdigest()

    def width_in(self, layer: int) -> int:
        """Width of a layer's input."""
        return self.widths[layer]

    def width_out(self, layer: int) -> int:
        """Width of a layer's output."""
        return self.widths[layer + 1]

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of all parameters, in the order of the module."""
        return dict(self.shapes)

    def arguments(self) -> dict[str, Any]:
        """The arguments that the function takes, by name; raises UserModelError for another one without a default."""
        parameters = self._takes()
        for parameter in parameters:
            is_rest = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            if parameter.name not in ARGUMENTS and parameter.default is parameter.empty and not is_rest:
                allowed = ", ".join(ARGUMENTS)
                self.refuse(f"{self.function}() takes {parameter.name!r}, which training does not know: {allowed}")
        named = {parameter.name for parameter in parameters}
        return {name: getattr(self, name) for name in ARGUMENTS if name in named}

    def with_own_defaults(self, stated: Sequence[str]) -> "UserModelSpec":
        """The settings that are not ``stated``, where the function has defaults of its own for them, as these are."""
        defaults = {parameter.name: parameter.default for parameter in self._takes()}
        own = {name: defaults[name] for name in SETTINGS if name in defaults and name not in stated}
        kinds = {name: type(getattr(self, name)) for name in own}
        fitting = {name: kinds[name](value) for name, value in own.items() if type(value) in (int, kinds[name])}
        return replace(self, **fitting)

    def _takes(self) -> list[inspect.Parameter]:
        """The parameters of the function."""
        return list(inspect.signature(self._function()).parameters.values())

    def build(self, anew: bool = False) -> nn.Module:
        """Build the module, with parameters drawn by torch's random numbers; raises UserModelError.

        ``anew`` executes the file again, as another process does.
        """
        with self.running(f"{self.function}()"):
            module = self._function(anew)(**self.arguments())
        layers = getattr(module, "layers", None)
        if not isinstance(module, nn.Module) or not isinstance(layers, nn.ModuleList):
            self.refuse(f"{self.function}() returns no torch.nn.Module with an nn.ModuleList of its layers as .layers")
        if len(layers) != self.layers:
            self.refuse(f"{self.function}() returns {len(layers)} layers for {self.layers} hops: build as many as hops")
        for number, layer in enumerate(layers):
            for method in LAYER_METHODS:
                if not callable(getattr(layer, method, None)):
                    self.refuse(f"layers[{number}] has no {method}(): a layer has send(h) and receive(h, sent, edges)")
        return module

    def _function(self, anew: bool = False) -> Any:
        module = _executed_anew(self.file, self.code) if anew else _module_of(self.file, self.code)
        function = getattr(module, self.function, None)
        if not callable(function):
            self.refuse(f"there is no function {self.function}(): name it as in {Path(self.file).name}:build")
        return function

    @contextmanager
    def running(self, what: str) -> Iterator[None]:
        """Name file and line where the user's code fails, as UserModelError; a want of memory stays what it is."""
        try:
            yield
        except UserModelError:
            raise
        except (Exception, SystemExit) as error:
            if is_out_of_memory(error):
                raise
            raise _failure(self.file, error, f"{what} fails: ") from error

    def refuse(self, reason: str) -> None:
        """Raise UserModelError."""
        raise UserModelError(f"{self.file}: {reason}")


def initial_parameters(spec: UserModelSpec, seed: int) -> State:
    """The parameters as the user's module draws them after ``torch.manual_seed(seed)``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = spec.build()
    return {name: parameter.detach().numpy().copy() for name, parameter in module.named_parameters()}


def is_user_model(name: str) -> bool:
    """Whether a model is named by a file: ``net.py``, or ``net.py:function``."""
    return name.partition(":")[0].endswith(ENDING)


def code_of(name: str) -> dict[str, str]:
    """File, function and text of ``net.py`` or ``net.py:function``; raises UserModelError for one that is missing."""
    path, _, function = name.partition(":")
    try:
        code = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserModelError(f"{path} cannot be read ({error}): give the Python file of the model") from error
    return {"file": str(Path(path).resolve()), "function": function or FUNCTION, "code": code}


def local_imports(code: str) -> dict[str, bytes]:
    """Texts of the modules that a text imports, and of those that these import, without installed packages, by name."""
    texts: dict[str, bytes] = {}
    remaining = [(code, "")]
    while remaining:
        for name in _imported(*remaining.pop()):
            origin = None if name in texts else _local_file(name)
            if origin is not None:
                texts[name] = origin.read_bytes()
                package = name if origin.name == "__init__.py" else name.rpartition(".")[0]
                remaining.append((texts[name].decode(errors="replace"), package))
    return texts


def _imported(code: str, package: str) -> set[str]:
    """The names that a module of a ``package`` may import, those of its modules' values among them."""
    names: set[str] = set()
    try:
        nodes = [*ast.walk(ast.parse(code))]
    except (SyntaxError, ValueError):
        return names
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):  # beyond the outermost package
                module = resolve_name("." * node.level + (node.module or ""), package)
                names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return names


def _local_file(name: str) -> Path | None:
    """The Python file of a module that no package has installed, found without importing it; ``None`` for any other."""
    if name.partition(".")[0] in {*sys.stdlib_module_names, "backends", "datasets", "harness"}:
        return None
    for folder in (Path(entry).resolve() for entry in sys.path):
        if not {"site-packages", "dist-packages"} & {*folder.parts}:
            stem = folder.joinpath(*name.split("."))
            for file in (stem / "__init__.py", stem.parent / f"{stem.name}.py"):
                if file.is_file():
                    return file
    return None


@lru_cache(maxsize=16)
def _module_of(file: str, code: str) -> ModuleType:
    """Execute a file's text once, as a module of its own."""
    return _executed(file, code)


def _executed_anew(file: str, code: str) -> ModuleType:
    """Execute a file's text again, beside the module of the first time, whose name stays its own."""
    first = _module_of(file, code)
    try:
        return _executed(file, code)
    finally:
        sys.modules[first.__name__] = first


def _executed(file: str, code: str) -> ModuleType:
    name = f"agl_user_model_{hashlib.sha256(code.encode()).hexdigest()[:16]}"
    module = ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    try:
        exec(compile(code, file, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failure(file, error) from error
    return module


def _failure(file: str, error: BaseException, what: str = "") -> UserModelError:
    """An error that names file and line where the user's code fails, and what fails."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    line = f", line {lines[-1]}" if lines else ""
    return UserModelError(f"{file}{line}: {what}{type(error).__name__}: {' '.join(str(error).split())}")
