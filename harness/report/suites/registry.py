"""Sections and measures that suites may name: the general ones and those of every package in ``report/papers``."""

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

from harness.report import papers
from harness.report.suites import general
from harness.report.suites.section import Measure, SuiteSection
from harness.usage import unknown


@cache
def sections() -> dict[str, SuiteSection]:
    """All sections by the name that a suite's ``report`` gives them."""
    return {name: section for module in _modules() for name, section in module.SECTIONS.items()}


@cache
def measures() -> dict[str, Measure]:
    """All measures by the name that a suite's ``claims`` give them."""
    return {name: measure for module in _modules() for name, measure in module.MEASURES.items()}


def section_of(name: str) -> SuiteSection:
    """Find a section; raises UsageError with the names there are."""
    if name not in sections():
        raise unknown("section of a suite's report", name, sections())
    return sections()[name]


def measure_of(name: str) -> Measure:
    """Find a measure; raises UsageError with the names there are."""
    if name not in measures():
        raise unknown("measure of a suite's claim", name, measures())
    return measures()[name]


def _modules() -> list[Any]:
    return [
        general,
        *(import_module(f"{papers.__name__}.{module.name}") for module in pkgutil.iter_modules(papers.__path__)),
    ]
