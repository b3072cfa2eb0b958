"""Names in torch's profiles for calls of the extension that are no operations of torch."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def is_profiling() -> bool:
    """Whether torch's profiler runs."""
    return bool(torch.autograd._profiler_enabled())


def named(name: str) -> AbstractContextManager[Any]:
    """A section of that name in a profile; without one, nothing: naming costs as much as a small kernel."""
    return torch.autograd.profiler.record_function(name) if is_profiling() else nullcontext()
