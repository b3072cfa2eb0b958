"""Options of the engine that tests the harness."""

from dataclasses import dataclass, replace
from typing import ClassVar

from backends.registry import BackendConfig

FAILURES = ("none", "raise", "oom", "hang", "crash", "wrong", "slow_child")
PLACES = ("prepare", "epoch", "predict")


@dataclass
class DummyConfig(BackendConfig):
    """An engine on numpy whose clock is simulated: every batch counts as ``seconds``, and nothing waits.

    ``fail`` happens at ``fail_at``, in epochs from ``fail_epoch`` on: ``raise`` an exception, allocate until memory is
    out, ``hang`` with a grandchild, ``crash`` with SIGSEGV, give ``wrong`` gradients (wherever ``fail_at`` points),
    leave a ``slow_child`` that keeps a core busy. Parameters change only with ``learn``, and in the parity gate.
    """

    name: str = "dummy"
    seconds: float = 0.01
    learn: bool = False
    fail: str = "none"
    fail_at: str = "epoch"
    fail_epoch: int = 2

    runtimes: ClassVar[dict[str, str]] = {
        "train": "backends.dummy.backend:DummyTrainer",
        "infer": "backends.dummy.backend:DummyInferrer",
    }
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)  # float64 inside, float32 for the harness
    models: ClassVar[tuple[str, ...]] = ("gcn", "sage", "gat")
    kind: ClassVar[str] = "test"

    def for_parity_gate(self) -> "DummyConfig":
        """Epochs train in the gate, which nothing simulated would pass."""
        return replace(self, learn=True)

    def __post_init__(self) -> None:
        """Refuse unknown failures and places."""
        for name, allowed in (("fail", FAILURES), ("fail_at", PLACES)):
            if getattr(self, name) not in allowed:
                value = getattr(self, name)
                raise ValueError(f"backend.{name}={value!r} is not allowed: one of {', '.join(allowed)}")
