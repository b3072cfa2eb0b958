"""Sampling strategies and their grammar: ``uniform(15);uniform(10)``, ``weighted_sampler(by=weight, limit=5)``.

A sampler of a user's own is named by its import path, and tried on a few edges before it is used.
"""

import ast
import hashlib
import re
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np

from backends.kernels.samplers import SAMPLERS, EdgeSampler, keys_of, named_failure
from backends.model import ModelSpec
from datasets.graph import Graph
from datasets.randomness import hash_ids, unit_interval

TRIED = 5  # edges that a user's sampler gives keys to before it is used
ALIASES = {"random_sampler": "uniform", "weighted_sampler": "weighted"}
LARGEST = 2**31 - 1
DRAWS = 2  # version of how samples are drawn: 1 ranked a key of each in-edge
OPTIONS = ("by", "limit", "replacement", "reverse", "seed")
KINDS: dict[str, type] = {"replacement": bool, "reverse": bool, "seed": int}
KIND_NAMES = {bool: "true or false", int: "a whole number"}
SCOPES = ("node", "target")
# of each column of edges: what it is called, how sampling and filters name it, and what to do where nothing reads it
EDGE_COLUMNS = {
    "weight": (
        "weights",
        r"\bweight\b",
        "train gcn, sample by them as in weighted(by=weight, limit=10), or name another column with --weight "
        "(dataset.options.weight)",
    ),
    "features": (
        "features",
        r"(?<!neighbor\.)\bfeature\[",
        "train a model that reads them, or leave out --edge-features (dataset.options.edge_features)",
    ),
}


class StrategyError(ValueError):
    """A sampling strategy that cannot be carried out; the message says what is allowed."""


def usable_sampler(name: str) -> tuple[EdgeSampler, str | None]:
    """The sampler of a name, and the digest of the file of a user's own.

    Raises StrategyError for one that is not there, whose module fails, or whose keys cannot be used.
    """
    path = name.rpartition(".")[0]
    try:
        if path:
            # the registry names what is not there
            with named_failure(f"sampler={name!r} cannot be imported"), suppress(ImportError):
                import_module(path)
        sampler = SAMPLERS[name]
        if path and sampler.keys is not None:
            _try_keys(name, sampler)
    except ValueError as error:
        raise StrategyError(str(error)) from error
    return sampler, _digest(path)


def _try_keys(name: str, sampler: EdgeSampler) -> None:
    """Raise ValueError for keys of some edges that fail, are not one number each, or depend on the call.

    Each part of AGL calls for other edges at a time, also for none, as nodes have that no edge enters.
    """
    hashes = hash_ids(0, "trial", np.arange(TRIED))
    weight = 1 + unit_interval(hashes)
    keys, again = (keys_of(name, sampler, hashes, weight) for _ in range(2))
    parts = [keys_of(name, sampler, hashes[some], weight[some]) for some in (slice(0), slice(2), slice(2, None))]
    for others, when in ((again, "in each call"), (np.concatenate(parts), "beside other edges")):
        if not np.array_equal(others, keys, equal_nan=True):
            raise ValueError(
                f"sampler={name!r} gives an edge another key {when}: compute it from the edge's hash and weight alone, "
                "as every call, in any process, must sample the same edges"
            )


def _digest(module: str) -> str | None:
    """Digest of the file that a module was imported from, ``None`` where there is none."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    read = getattr(getattr(spec, "loader", None), "get_data", None)
    return hashlib.sha256(read(spec.origin)).hexdigest() if spec and spec.origin and read else None


@dataclass(frozen=True)
class SamplingStrategy:
    """How in-edges are sampled: ``fanouts`` per layer, layer 1 first; ``None`` keeps all in-edges.

    ``by`` is the edge column of weighted and topk sampling; ``reverse`` makes topk keep the smallest values. With
    ``scope="node"`` a node has one sample for all targets, with ``"target"`` another in every target's neighbourhood.
    ``sha256`` is the digest of the file of a user's sampler; files of earlier versions have none, so that strategies
    are equal without it, and ``refuse_other_file`` compares it. Scope is ``node`` where all in-edges are kept, as every
    target then reads the same.
    """

    fanouts: tuple[int | None, ...]
    method: str = "uniform"
    by: str | None = None
    replacement: bool = False
    reverse: bool = False
    scope: str = "node"
    seed: int = 0
    sha256: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Raise StrategyError for no hops or an unknown scope."""
        if not self.fanouts:
            raise StrategyError("hop 0 is not allowed: a neighbourhood has at least 1 hop")
        if self.scope not in SCOPES:
            raise StrategyError(f"scope={self.scope!r} is unknown: allowed are {', '.join(SCOPES)}")
        if self.method == "full":
            object.__setattr__(self, "scope", "node")  # the class is frozen

    @property
    def hops(self) -> int:
        """Hops of a neighbourhood, one per layer."""
        return len(self.fanouts)

    @property
    def text(self) -> str:
        """The strategy in the grammar that ``parse_sampling`` reads; hops and scope are not part of it."""
        named = {name: getattr(self, name) for name in ("by", "replacement", "reverse") if getattr(self, name)}
        calls = []
        for limit in reversed(self.fanouts):
            options = ({} if limit is None else {"limit": limit}) | named | {"seed": self.seed}
            calls.append(f"{self.method}({', '.join(f'{name}={value}' for name, value in options.items())})")
        return ";".join(calls)


def parse_sampling(text: str, hops: int, scope: str = "node", seed: int = 0) -> SamplingStrategy:
    """Parse ``method(limit)`` or ``method(by=column, limit=k, replacement=true, reverse=true, seed=n)`` per hop.

    Methods are those registered in ``backends.kernels.samplers.SAMPLERS``, AGL's two names, and import paths of others.
    ``;`` separates hops, hop 1 (at the target) first; the last one repeats. All hops must use the same method, as an
    edge has one rank. Raises StrategyError that says what is allowed.
    """
    if hops < 1:
        raise StrategyError(f"hop {hops} is not allowed: give at least 1 hop")
    parts = [part for part in text.split(";") if part.strip()]
    if not parts or len(parts) > hops:
        raise StrategyError(
            f"{text!r} describes {len(parts)} hops, the neighbourhood has {hops}: give 1 to {hops}, split by ';'"
        )
    calls = [_parse_call(part.strip()) for part in parts]
    calls += calls[-1:] * (hops - len(calls))
    limits = [options.get("limit") for options in calls]
    shared = [{name: value for name, value in options.items() if name != "limit"} for options in calls]
    if any(options != shared[0] for options in shared):
        raise StrategyError(f"{text!r} samples differently at different hops: only limit may differ between them")
    for limit in limits:
        if limit is not None and not (type(limit) is int and 1 <= limit <= LARGEST):
            raise StrategyError(
                f"limit={limit} of {text!r} is not allowed: give a whole number from 1 to {LARGEST}, or full()"
            )
    options = {"seed": seed} | shared[0] | {"fanouts": tuple(reversed(limits)), "scope": scope}
    return _check(SamplingStrategy(**options), text)


def columns_of(graph: Graph) -> set[str]:
    """Which of ``weight`` and ``features`` the edges of a graph have."""
    columns = {"weight": graph.edge_weights, "features": graph.edge_features}
    return {name for name, values in columns.items() if values is not None}


def refuse_unused_columns(
    spec: ModelSpec, strategy: SamplingStrategy, filtering: str | None, columns: set[str], source: str
) -> None:
    """Raise StrategyError for columns of the edges that neither the model, nor sampling, nor the filter reads.

    ``columns`` are those that the edges have, of ``weight`` and ``features``.
    """
    read = f"{strategy.by or ''} {filtering or ''}"
    for column, (words, pattern, advice) in EDGE_COLUMNS.items():
        if column in columns and column not in spec.edge_columns and not re.search(pattern, read):
            raise StrategyError(f"{source} holds edge {words}, which {spec.name} would drop: {advice}")


def check_sampler(strategy: SamplingStrategy) -> None:
    """Raise StrategyError for a sampler that is not there, or a user's own that fails or whose file has changed."""
    refuse_other_file(strategy, usable_sampler(strategy.method)[1])


def refuse_other_file(strategy: SamplingStrategy, sha256: str | None) -> None:
    """Raise StrategyError where the file of a strategy's sampler has another digest, if both are known."""
    if strategy.sha256 is not None and sha256 is not None and strategy.sha256 != sha256:
        raise StrategyError(
            f"the file of sampler {strategy.method} changed, from SHA-256 {strategy.sha256[:12]} to {sha256[:12]}: "
            "restore it, or flatten and train again"
        )


def _parse_call(text: str) -> dict[str, Any]:
    """Parse ``method(value, name=value)`` into options; a method may be an import path."""
    match = re.fullmatch(r"([\w.]+)\s*(?:\((.*)\))?", text)
    method = "" if match is None else ALIASES.get(match[1], match[1])
    if match is None or not ("." in method or method in SAMPLERS):
        allowed = ", ".join([*SAMPLERS, *ALIASES])
        raise StrategyError(f"sampler {text!r} is unknown: allowed are {allowed}, as in uniform(15), or an import path")
    options: dict[str, Any] = {"method": method}
    for argument in filter(str.strip, (match[2] or "").split(",")):
        name, separator, value = (part.strip() for part in argument.partition("="))
        name, value = (name, value) if separator else ("limit", name)
        if name not in OPTIONS:
            raise StrategyError(f"option {name!r} of sampler {text!r} is unknown: allowed are {', '.join(OPTIONS)}")
        if name in options:
            raise StrategyError(f"option {name} of sampler {text!r} is given twice: give it once")
        options[name] = value if name == "by" else _parse_literal(value, text)
        kind = KINDS.get(name)
        if kind and type(options[name]) is not kind:
            raise StrategyError(f"{name}={value} of sampler {text!r} is not allowed: give {KIND_NAMES[kind]}")
    return options


def _parse_literal(value: str, text: str) -> Any:
    try:
        return ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(value.lower(), value))
    except (ValueError, SyntaxError) as error:
        raise StrategyError(f"value {value!r} in sampler {text!r} is neither a number nor true or false") from error


def _check(strategy: SamplingStrategy, text: str) -> SamplingStrategy:
    """Complete a strategy by what its sampler says; raises StrategyError for options that it does not take."""
    name = strategy.method
    sampler, sha256 = usable_sampler(name)
    strategy = replace(strategy, sha256=sha256)
    if sampler.everything:
        if any(limit is not None for limit in strategy.fanouts):
            raise StrategyError(f"{text!r}: {name}() takes no limit, it keeps every in-edge")
        if strategy != SamplingStrategy(strategy.fanouts, name, scope=strategy.scope, seed=strategy.seed):
            raise StrategyError(f"{text!r}: {name}() takes neither by, replacement nor reverse")
        return strategy
    if None in strategy.fanouts:
        raise StrategyError(f"{text!r} has a hop without limit: give one, as in uniform(15), or write full()")
    if strategy.reverse and strategy.method != "topk":
        raise StrategyError(f"{text!r}: only topk has reverse, which keeps the smallest")
    if strategy.replacement and not sampler.draws:
        raise StrategyError(f"{text!r}: {name} cannot draw with replacement")
    if strategy.by is not None and not sampler.needs_weight:
        raise StrategyError(f"{text!r}: {name} reads no column, by={strategy.by} would change nothing: leave it out")
    return replace(strategy, by="weight") if sampler.needs_weight and strategy.by is None else strategy
