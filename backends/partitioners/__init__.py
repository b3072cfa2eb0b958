"""Partitioners of others, as peers."""

import importlib

from backends.partitioners.config import KAMINPAR, PartitionersConfig


def partitioner(config: PartitionersConfig) -> object:
    """The partitioner of a configured tool; the others are not imported."""
    module = "kaminpar:KaminparPartitioner" if config.tool in KAMINPAR else "metis:MetisPartitioner"
    name, kind = module.split(":")
    return getattr(importlib.import_module(f"backends.partitioners.{name}"), kind)(config)
