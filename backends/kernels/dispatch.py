"""Choice of the implementation that computes a call, by the device of its tensors; no other module knows devices.

An implementation is a package with the functions of ``plain``, each of the same arguments: ``plain`` is torch alone,
``native`` calls the compiled extension, ``triton`` is for CUDA devices. It may add fused ones, ``gat_layer``,
``spmm_layer`` and ``spmm_with_own``; where it has none, they are put together.
"""

import importlib
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from torch import Tensor

from backends.kernels import definition, native, plain
from backends.kernels.definition import Drawing
from backends.kernels.extension import extension

IMPLEMENTATIONS: dict[str, ModuleType] = {"cpu": plain if extension is None else native}


def implementation(name: str, tensor: Tensor) -> Any:
    """Return the implementation for the device of ``tensor``, the argument ``name``; raises ValueError for others."""
    kind = tensor.device.type
    if kind == "cuda" and kind not in IMPLEMENTATIONS:  # not before: Triton takes a second to import
        has_triton = find_spec("triton") is not None
        IMPLEMENTATIONS[kind] = importlib.import_module("backends.kernels.triton") if has_triton else plain
    chosen = IMPLEMENTATIONS.get(kind)
    if chosen is None:
        allowed = ", ".join(IMPLEMENTATIONS)
        raise ValueError(f"{name} is on {tensor.device}: the kernels run on {allowed}, call .to({allowed!r}) first")
    return chosen


def sampling_implementation(drawing: Drawing) -> ModuleType:
    """Return the module that samples and searches on the host.

    It is native code, or the definition where the extension is not built or lacks a sampler that a user registered.
    """
    return native.sampling if extension is not None and native.sampling.has(drawing) else definition
