"""``-c KEY=VALUE`` of AGL's command lines: the settings of training and inference, typed and checked."""

from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, TypeVar

from backends.agl.cluster import Cluster
from backends.agl.config import RUN_ON

Settings = TypeVar("Settings")

TRAIN_MINIMA = {
    **dict.fromkeys(("hidden", "heads", "output_heads", "epochs", "batch_size", "threads"), 1),
    "workers": 1,
    **dict.fromkeys(("servers", "staleness", "checkpoint_every", "rate", "decay", "dropout", "attention_dropout"), 0),
}
# Keys of earlier versions, now named as the options of the harness are.
RENAMED = {"batch": "batch_size", "engine": "run_on", "replace": "replacement", "hub": "hub_threshold"}
METHODS = ("graphinfer", "neighbourhood")
TRAIN_CHOICES = {"head": ("none", "linear"), "optimizer": ("adam", "sgd"), "source": ("shards", "graph")}


@dataclass(frozen=True)
class TrainSettings:
    """Settings of one training; ``batch_size`` is per worker, ``servers=0`` is one server in this process.

    ``source`` is ``shards``, or ``graph``: the graph in memory that GraphFlat kept beside them.
    """

    hidden: int = 64
    heads: int = 1
    output_heads: int = 1
    slope: float = 0.2
    head: str = "none"
    epochs: int = 10
    batch_size: int = 1024
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
    source: str = "shards"


@dataclass(frozen=True)
class InferSettings:
    """Settings of one inference; ``fanouts`` has one entry per layer, first layer first.

    ``infer`` is ``graphinfer`` or ``neighbourhood``, empty to choose by the sampling. The settings of sampling are for
    parameters whose file does not say how they were trained. ``address`` is that of a running Ray cluster, whose
    machines find the graph in ``store``.
    """

    run_on: str = "local"
    infer: str = ""
    batch_size: int = 1024
    partitions: int = 0
    threads: int = 2
    seed: int = 0
    fanouts: tuple[int, ...] = ()
    sampler: str = "uniform"
    replacement: bool = False
    hub_threshold: int = 10_000
    unmap: bool = False
    slope: float = 0.2
    address: str = ""
    store: str = ""


def read_train_settings(pairs: list[str]) -> TrainSettings:
    """Read ``key=value`` pairs; raises ValueError naming what is allowed."""
    settings = read_pairs(pairs, TrainSettings)
    for name, least in TRAIN_MINIMA.items():
        value = getattr(settings, name)
        if not (isfinite(value) and value >= least):
            raise ValueError(f"-c {name}={value} is not allowed: at least {least}")
    for name, allowed in TRAIN_CHOICES.items():
        if getattr(settings, name) not in allowed:
            raise ValueError(f"-c {name}={getattr(settings, name)} is not allowed: one of {', '.join(allowed)}")
    for name in ("dropout", "attention_dropout"):
        if getattr(settings, name) >= 1:
            raise ValueError(f"-c {name}={getattr(settings, name)} is not allowed: below 1")
    return settings


def read_infer_settings(pairs: list[str]) -> InferSettings:
    """Read ``key=value`` pairs; raises ValueError naming what is allowed."""
    settings = read_pairs(pairs, InferSettings)
    if settings.run_on not in RUN_ON:
        raise ValueError(f"-c run_on={settings.run_on} is not allowed: one of {', '.join(RUN_ON)}")
    if settings.infer not in ("", *METHODS):
        raise ValueError(f"-c infer={settings.infer} is not allowed: one of {', '.join(METHODS)}")
    if settings.infer == "neighbourhood" and settings.run_on == "ray":
        raise ValueError("-c infer=neighbourhood runs in this process: give run_on=local")
    Cluster(settings.address or None, settings.store or None).check(settings.run_on)
    for name in ("threads", "batch_size"):
        if getattr(settings, name) < 1:
            raise ValueError(f"-c {name}={getattr(settings, name)} is not allowed: at least 1")
    if settings.hub_threshold < 0:
        setting = f"-c hub_threshold={settings.hub_threshold}"
        raise ValueError(f"{setting} is not allowed: at least 1, or 0 to cut no node into pieces")
    return settings


def read_pairs(pairs: list[str], kind: type[Settings]) -> Settings:
    """Read pairs into a dataclass whose fields have defaults; raises ValueError naming what is allowed."""
    types = {setting.name: type(setting.default) for setting in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if RENAMED.get(key) in types:
            raise ValueError(f"-c {key} is now {RENAMED[key]}: give {RENAMED[key]}={text}")
        if key not in types or not sign:
            raise ValueError(f"-c {pair} is not understood: give key=value with a key of {', '.join(types)}")
        values[key] = _parse_value(key, text, types[key])
    return kind(**values)


def _parse_value(key: str, text: str, kind: type) -> Any:
    try:
        if kind is tuple:
            return tuple(int(part) for part in text.split(",") if part)
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(text)
    except (ValueError, KeyError) as error:
        descriptions: dict[Any, str] = {tuple: "whole numbers with commas between", bool: "true or false"}
        expected = descriptions.get(kind, f"one {kind.__name__}")
        raise ValueError(f"-c {key}={text} is not understood: give {expected}") from error
