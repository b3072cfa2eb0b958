"""What GraphTrainer's ``-c`` takes: the model's shape, how to train, and how many workers and servers."""

from dataclasses import dataclass
from math import isfinite

from backends.agl.pairs import read_pairs

LEAST = {
    **dict.fromkeys(("hidden", "heads", "output_heads", "epochs", "batch", "threads", "workers"), 1),
    **dict.fromkeys(("servers", "staleness", "checkpoint_every", "rate", "decay", "dropout", "attention_dropout"), 0),
}
NAMES = {"head": ("none", "linear"), "optimizer": ("adam", "sgd")}


@dataclass(frozen=True)
class Settings:
    """Settings of one training; ``batch`` counts records of a worker, ``servers=0`` keeps one in this process."""

    hidden: int = 64
    heads: int = 1
    output_heads: int = 1
    slope: float = 0.2
    head: str = "none"
    epochs: int = 10
    batch: int = 1024
    optimizer: str = "adam"
    rate: float = 0.01
    decay: float = 0.0
    dropout: float = 0.0
    attention_dropout: float = 0.0
    seed: int = 0
    threads: int = 2
    workers: int = 1
    servers: int = 0
    staleness: int = 2
    checkpoint_every: int = 100


def settings_of(pairs: list[str]) -> Settings:
    """Read ``key=value`` pairs; raises ValueError naming what is allowed."""
    settings = read_pairs(pairs, Settings)
    for name, least in LEAST.items():
        value = getattr(settings, name)
        if not (isfinite(value) and value >= least):
            raise ValueError(f"-c {name}={value} is not allowed: at least {least}")
    for name, allowed in NAMES.items():
        if getattr(settings, name) not in allowed:
            raise ValueError(f"-c {name}={getattr(settings, name)} is not allowed: one of {', '.join(allowed)}")
    for name in ("dropout", "attention_dropout"):
        if getattr(settings, name) >= 1:
            raise ValueError(f"-c {name}={getattr(settings, name)} is not allowed: below 1")
    return settings
