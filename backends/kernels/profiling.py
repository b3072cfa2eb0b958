"""Names in torch's profiles for calls of the extension that are no operations of torch."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def named(name: str) -> AbstractContextManager[Any]:
    """A section of that name in a profile; without one, nothing: naming costs as much as a small kernel."""
    return torch.autograd.profiler.record_function(name) if torch.autograd._profiler_enabled() else nullcontext()
