"""Sections and measures of one paper's suites: a package per system, each with ``SECTIONS`` and ``MEASURES``."""
