"""Preparation of a plan's graphs: each once, before any cell starts; its cells memory-map it."""

import errno
import pickle
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from datasets.cache import limit
from datasets.hashes import digest
from datasets.prepare import Phases, prepare_graph
from datasets.refusal import OrderRefused
from harness.launcher.messages import PlannedCell, PlannedGroup
from harness.measure.memory import within_machine
from harness.planning.cells import Cell
from harness.planning.plan import Group
from harness.store.writable import DISK_FULL
from harness.usage import UsageError

FULL = (*DISK_FULL, errno.EFBIG)
DENIED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO)
DATA_ERRORS = (ValueError, KeyError, RuntimeError, ImportError, pickle.UnpicklingError, OSError, MemoryError)
UNCHECKED = (TypeError, AttributeError, IndexError)  # of a value or a file that a loader or an order does not check
PreparedGraph = tuple[Path, Phases]


def graph_key(cell: Cell) -> str:
    """Name the graph that a cell needs: its data set and its order, with their options."""
    return digest([asdict(cell.config.dataset), asdict(cell.config.order)])


def graph_keys(group: Group) -> list[str]:
    """Name the graphs of the cells of a group that will be started."""
    return [graph_key(cell) for cell in group.cells if cell.status is None]


def prepare_graphs(groups: Iterable[Group], cache: Path) -> tuple[dict[str, PreparedGraph], list[str]]:
    """Prepare the graphs of all cells to be started; also return one sentence per graph that is not available.

    Cells whose graph cannot have their order become ``unsupported``, with the reason; the others of their group stay.
    A full disk or a cache that cannot be written ends the run: raises OSError; a wrong bound of the cache UsageError.
    Files of a data set that cannot be read cost its own groups.
    """
    try:
        limit(cache)  # a wrong bound is told now, not when a graph is written
    except ValueError as error:
        raise UsageError(str(error)) from error
    prepared: dict[str, PreparedGraph] = {}
    failures: dict[str, str] = {}
    refused: dict[str, str] = {}
    for cell in (cell for group in groups for cell in group.cells if cell.status is None):
        key = graph_key(cell)
        if key not in prepared | failures | refused:
            try:
                with within_machine():
                    prepared[key] = prepare_graph(cell.config.dataset, cell.config.order, cache)
            except OrderRefused as error:
                refused[key] = str(error)
            except (*DATA_ERRORS, *UNCHECKED) as error:
                if isinstance(error, OSError) and ends_run(error, cache):
                    raise
                failures[key] = _sentence(cell, error)
        if key in refused:
            cell.status, cell.message = "unsupported", refused[key]
    return prepared, list(failures.values())


def ends_run(error: OSError, cache: Path) -> bool:
    """Whether an error is of the disk or the cache, which all graphs share, and not of one data set's files."""
    path = Path(error.filename) if isinstance(error.filename, str | Path) else cache
    return error.errno in FULL or (error.errno in DENIED and path.absolute().is_relative_to(cache.absolute()))


def _sentence(cell: Cell, error: Exception) -> str:
    """Say why the graph of a cell is not available."""
    dataset, order = cell.config.dataset, cell.config.order
    options = f"dataset.options={dataset.options} and order.options={order.options}"
    return why_not_available(error, f"data set {dataset.name} in order {order.name}", options)


def why_not_available(error: Exception, what: str, options: str) -> str:
    """Say why data are not available; of an error that their code does not check, what to look at: the options."""
    if isinstance(error, UNCHECKED):
        return f"{what}: {type(error).__name__} ({error}): check {options}"
    return str(error.args[0] if isinstance(error, KeyError) else error)


def plain_groups(groups: Iterable[Group], machine: str, prepared: dict[str, PreparedGraph]) -> list[PlannedGroup]:
    """Return the JSON form of groups that the launcher reads; a graph that is not prepared is left out."""
    return [
        {
            "id": group.id,
            "key": group.key,
            "cells": [_plain_cell(cell, group.id, machine, prepared) for cell in group.cells],
        }
        for group in groups
    ]


def _plain_cell(cell: Cell, group: str, machine: str, prepared: dict[str, PreparedGraph]) -> PlannedCell:
    graph = prepared.get(graph_key(cell)) if cell.status is None else None
    folder, phases = graph or (None, {})
    return cell.plain(machine, group, None if folder is None else str(folder), phases)
