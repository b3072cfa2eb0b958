"""Suites: the cells of one published table, written as small products of overrides per tier."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, get_type_hints

from harness.planning.compose import Composition, compose_one
from harness.store.violations import violations
from harness.usage import UsageError, unknown

Product = dict[str, list[Any]]
Compose = Callable[[list[str]], dict[str, Any]]


@dataclass
class Suite:
    """A table to reproduce.

    ``tiers`` maps quick and full to products (axis -> values), ``vary`` names the dotted keys that may differ inside
    a group, ``published`` the numbers to stand beside the measured ones. ``report`` names the sections of its page,
    ``claims`` the paper's claims in words, ``paper`` its numbers as rows of a section's table (section -> rows),
    ``unfair`` flaws of the published comparison, ``assumed`` the assumptions of a model on the page, ``constants``
    numbers of the paper that sections of the page compute with.
    """

    name: str
    title: str
    tiers: dict[str, list[Product]]
    vary: list[str] = field(default_factory=list)
    published: list[dict[str, Any]] = field(default_factory=list)
    report: list[str] = field(default_factory=list)
    claims: list[dict[str, str]] = field(default_factory=list)
    paper: dict[str, list[list[str]]] = field(default_factory=dict)
    unfair: list[str] = field(default_factory=list)
    assumed: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)


def read_suite(values: Any) -> Suite:
    """Check the content of a suite's file; raises UsageError."""
    if not isinstance(values, dict):
        raise UsageError(f"suite={values} is not the content of a suite's file: write +suite=NAME")
    keys = [item.name for item in fields(Suite)]
    for key in values:
        if key not in keys:
            raise unknown("key of a suite", str(key), keys)
    required = [item.name for item in fields(Suite) if item.default is item.default_factory is MISSING]
    missing = [key for key in required if key not in values]
    if missing:
        raise UsageError(f"the suite lacks {', '.join(missing)}: add it to its file in conf/suite")
    hints = get_type_hints(Suite)
    if wrong := [problem for key in keys if key in values for problem in violations(values[key], hints[key], key)]:
        raise UsageError(f"the suite's {wrong[0]}; mend its file in conf/suite")
    return Suite(**values)


def expand(composition: Composition, compose: Compose = compose_one) -> Iterator[tuple[Composition, Suite | None]]:
    """Yield a composition itself, or those of the suite that it names; the command line wins over an axis.

    Where the command line gives a value that some products list for its axis, only those products are expanded, so that
    ``backend=agl`` is not combined with axes of other engines; a value that no product lists replaces those of all.
    """
    if composition.values.get("suite") is None:
        yield composition, None
        return
    chosen = [override for override in composition.overrides if key_of(override) == "suite"]
    if any("[" in override or "," in override for override in chosen):
        raise UsageError(f"{' '.join(chosen)} names several suites, which Hydra would mix: run one after the other")
    suite = read_suite(composition.values["suite"])
    tier = composition.values["tier"]
    if tier not in suite.tiers:
        raise unknown(f"tier of suite {suite.name}", tier, suite.tiers)
    overrides = [override for override in composition.overrides if key_of(override) != "suite"]
    seen: set[str] = set()
    for product in matching_products(suite.tiers[tier], overrides):
        for cell in _compositions(product, overrides, compose):
            if repr(cell.values) not in seen:
                seen.add(repr(cell.values))
                yield Composition(cell.values | {"suite": suite.name}, cell.overrides), suite


def matching_products(products: list[Product], overrides: list[str]) -> list[Product]:
    """Drop products without the value of an override, where another product lists that value for the axis."""
    for override in overrides:
        axis, value = key_of(override), override.partition("=")[2]
        listed = [{key_of(key): values for key, values in product.items()}.get(axis) for product in products]
        matches = [values is not None and value in map(_text, values) for values in listed]
        if any(matches):
            rows = zip(products, listed, matches, strict=True)
            products = [product for product, values, match in rows if match or values is None]
    return products


def key_of(override: str) -> str:
    """Return the key of an override, without its plus or tilde and without a package."""
    return override.partition("=")[0].lstrip("+~").partition("@")[0]


def _compositions(product: Product, overrides: list[str], compose: Compose) -> Iterator[Composition]:
    """Compose every combination of a product's values; an axis that an override names is left to the override."""
    fixed = {key_of(override) for override in overrides}
    axes = {axis: values for axis, values in product.items() if key_of(axis) not in fixed}
    seeds = axes.pop("seed", [None])
    for choice in itertools.product(*axes.values()):
        chosen = [
            f"{axis}={_text(value)}" for axis, value in zip(axes, choice, strict=True) if not _left_out(axis, value)
        ]
        reads_seed = any("${seed" in override for override in chosen + overrides)
        values = {} if reads_seed and seeds != [None] else compose(chosen + overrides)
        for seed in seeds:
            # Composed once for all seeds where no value is made of it, because a seed selects no file.
            with_seed = [*chosen, *overrides, f"seed={seed}"]
            if seed is None:
                yield Composition(values, chosen + overrides)
            elif reads_seed:
                yield Composition(compose(with_seed), with_seed)
            else:
                yield Composition(values | {"seed": seed}, with_seed)


def _left_out(axis: str, value: Any) -> bool:
    """Tell whether null leaves out an axis: one that adds a group (``+ablation``); for a key, null is its value."""
    return value is None and axis.startswith("+")


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return "[" + ",".join(_text(item) for item in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
