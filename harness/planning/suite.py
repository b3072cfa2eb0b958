"""Suites: the cells of one published table, written as small products of overrides per tier."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from harness.planning.compose import Composition, compose_one
from harness.usage import UsageError, unknown

KEYS = ("name", "title", "vary", "tiers", "published", "report", "claims", "paper", "unfair", "assumed")


@dataclass
class Suite:
    """A table to reproduce.

    ``tiers`` maps quick and full to products (axis -> values), ``vary`` names the dotted keys that may differ inside
    a group, ``published`` the numbers to stand beside the measured ones. ``report`` names the blocks of its page,
    ``claims`` what the paper says in words, ``paper`` its numbers as rows of a block's table (block -> rows of cells),
    ``unfair`` what is unfair in the published comparison, ``assumed`` what a model of the page assumes.
    """

    name: str
    title: str
    tiers: dict[str, list[dict[str, list[Any]]]]
    vary: list[str] = field(default_factory=list)
    published: list[dict[str, Any]] = field(default_factory=list)
    report: list[str] = field(default_factory=list)
    claims: list[dict[str, str]] = field(default_factory=list)
    paper: dict[str, list[list[str]]] = field(default_factory=dict)
    unfair: list[str] = field(default_factory=list)
    assumed: dict[str, list[dict[str, float]]] = field(default_factory=dict)


def read_suite(values: Any) -> Suite:
    """Check the content of a suite's file; raises UsageError."""
    if not isinstance(values, dict):
        raise UsageError(f"suite={values} is no suite's content: write +suite=NAME")
    for key in values:
        if key not in KEYS:
            raise unknown("key of a suite", str(key), KEYS)
    missing = [key for key in ("name", "title", "tiers") if key not in values]
    if missing:
        raise UsageError(f"the suite lacks {', '.join(missing)}: add it to its file in conf/suite")
    return Suite(**values)


def expand(
    job: Composition, compose: Callable[[list[str]], dict[str, Any]] = compose_one
) -> Iterator[tuple[Composition, Suite | None]]:
    """Yield a job itself, or the jobs of the suite that it names; what the command line says wins over an axis.

    A value that some products list for an axis keeps only those, so that ``backend=agl`` meets no axis of another
    engine; one that no product lists takes the place of all values.
    """
    if job.values.get("suite") is None:
        yield job, None
        return
    suite = read_suite(job.values["suite"])
    tier = job.values["tier"]
    if tier not in suite.tiers:
        raise unknown(f"tier of suite {suite.name}", tier, suite.tiers)
    given = [text for text in job.overrides if key_of(text) != "suite"]
    fixed = {key_of(text) for text in given}
    seen: set[str] = set()
    for product in asked(suite.tiers[tier], given):
        for inner in _jobs(product, given, fixed, compose):
            if repr(inner.values) not in seen:
                seen.add(repr(inner.values))
                yield Composition(inner.values | {"suite": suite.name}, inner.overrides), suite


def asked(products: list[dict[str, list[Any]]], given: list[str]) -> list[dict[str, list[Any]]]:
    """Return the products that the overrides ask for: see ``expand``."""
    for override in given:
        name, value = key_of(override), override.partition("=")[2]
        lists = [{key_of(axis): values for axis, values in product.items()}.get(name) for product in products]
        named = [values is not None and value in map(_text, values) for values in lists]
        if any(named):
            products = [
                product
                for product, values, holds in zip(products, lists, named, strict=True)
                if holds or values is None
            ]
    return products


def key_of(override: str) -> str:
    """Return the key of an override, without its plus or tilde and without a package."""
    return override.partition("=")[0].lstrip("+~").partition("@")[0]


def _jobs(
    product: dict[str, list[Any]], given: list[str], fixed: set[str], compose: Callable[[list[str]], dict[str, Any]]
) -> Iterator[Composition]:
    axes = {axis: values for axis, values in product.items() if key_of(axis) not in fixed}
    seeds = axes.pop("seed", [None])
    for choice in itertools.product(*axes.values()):
        overrides = [f"{axis}={_text(value)}" for axis, value in zip(axes, choice, strict=True) if value is not None]
        values = compose(overrides + given)
        for seed in seeds:
            # A seed chooses no file, so that composing once serves all of them.
            own = [] if seed is None else [f"seed={seed}"]
            yield Composition(values | ({} if seed is None else {"seed": seed}), overrides + given + own)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(_text(item) for item in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
