"""Partitioners of others, as peers."""

import importlib

from backends.partitioners.config import TOOLS, PartitionersConfig


def partitioner(config: PartitionersConfig) -> object:
    """The partitioner of a configured tool; the others are not imported."""
    module, kind = TOOLS[config.tool].runtime.split(":")
    return getattr(importlib.import_module(f"backends.partitioners.{module}"), kind)(config)
