"""Prepared graphs: parsed, ordered and written once by the parent, memory-mapped by every child.

Layout of the cache: ``prepared/<data set>/<order>/`` holds the arrays, ``graph.json``, ``structure.json`` (density,
tiles, degrees, the most memory that parse and order took) and ``phases.json`` (seconds of parse and order);
``prepared/known/<key>`` the sha256 of a data set that was read before, so that its files need not be hashed again.
"""

import errno
import hashlib
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache as memoized
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from datasets.cache import make_room, remove_unused, use
from datasets.files import atomic_folder, write_atomic
from datasets.hashes import digest
from datasets.high_water import HighWater
from datasets.order.packages import import_packages, order_packages
from datasets.paths import find_files
from datasets.plugins import plugins
from datasets.registry import Entry, entry_of, load_dataset

if TYPE_CHECKING:
    from datasets.graph import Graph

Phases = dict[str, float]
PHASES = "phases.json"
ATTEMPTS = 3
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
STRUCTURE = "structure.json"
PACKAGE = Path(__file__).resolve().parent


class Choice(Protocol):
    """A data set or an order of a cell: its registered name and its options."""

    @property
    def name(self) -> str:
        """The registered name."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Arguments of the loader or of the order."""
        ...


def prepare_graph(dataset: Choice, order: Choice, cache: Path) -> tuple[Path, Phases]:
    """Return the folder of a prepared graph and the seconds of ``parse`` and ``order`` at the time it was written.

    The folder is written under a temporary name and renamed, so it is complete or absent, and stays until this process
    ends. Where it would exceed the cache's bound, unused graphs are removed before it is written. Raises OSError of the
    disk, and the errors of loaders and orders for missing or wrong data.
    """
    for _ in range(ATTEMPTS):
        folder = prepared_graph(dataset, order, cache) or _write_graph(dataset, order, cache)
        if use(folder):
            _read(folder / STRUCTURE)
            return folder, _read(folder / PHASES)
    raise OSError(errno.EBUSY, f"another process removed the prepared graph {ATTEMPTS} times", str(folder))


def _read(path: Path) -> dict[str, Any]:
    """The content of a file of a prepared graph; raises ValueError for what a lost disk or power left."""
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (ValueError, FileNotFoundError) as error:
        advice = f"delete {path.parent} and run the same command again"
        raise ValueError(f"{path} of a prepared graph is absent or damaged ({error}): {advice}") from error
    return content


def _write_graph(dataset: Choice, order: Choice, cache: Path) -> Path:
    """Read, order and write a graph; returns its folder."""
    start, memory = time.perf_counter(), HighWater()
    known_as = _sha256_path(dataset, cache)
    graph = _identified(load_dataset(dataset.name, dataset.options, cache))
    if known_as not in (None, _sha256_path(dataset, cache)):
        raise ValueError(f"files of data set {dataset.name} changed while they were read: run the same command again")
    phases = {"parse": time.perf_counter() - start, "order": 0.0}
    peaks: dict[str, int | None] = {"parse": memory.growth(), "order": 0}
    folder = _folder(graph.sha256, dataset, order, cache)
    if (folder / PHASES).is_file():  # prepared from equal files of another place or time
        with suppress(OSError):  # a cache that can only be read
            _remember_sha256(dataset, cache, graph.sha256)
        return folder
    if order.name != "none":
        # Imported here: numpy comes with the orders, and the command line starts without it.
        from datasets.order import apply_order, renumbering_of

        import_packages(order.name, order.options)
        start, memory = time.perf_counter(), HighWater()
        renumbering = renumbering_of(order.name, graph.csr, order.options, inductive=graph.inductive)
        graph = apply_order(graph, renumbering.order, renumbering.part_bounds)
        phases["order"] = time.perf_counter() - start - renumbering.import_seconds
        peaks["order"] = memory.growth()
    from datasets.statistics import graph_statistics, rows_of_other_parts

    structure: dict[str, Any] = {**graph_statistics(graph.csr)}
    if None not in peaks.values():
        structure["peak_memory"] = peaks
    if graph.part_bounds is not None:
        structure["rows_of_other_parts"] = rows_of_other_parts(graph.csr, graph.part_bounds)
    texts = {STRUCTURE: json.dumps(structure), PHASES: json.dumps(phases)}
    make_room(cache, graph.nbytes)
    try:
        _save(graph, texts, folder)
    except OSError as error:
        if error.errno not in DISK_FULL or not remove_unused(cache):
            raise
        _save(graph, texts, folder)
    if known_as in (None, _sha256_path(dataset, cache)):  # else its files changed while it was ordered and written
        _remember_sha256(dataset, cache, graph.sha256)
    return folder


def _identified(graph: "Graph") -> "Graph":
    """The graph with a hash of its arrays where its loader, of a plug-in, gave it none: it names the folder."""
    if graph.sha256:
        return graph
    from datasets.synthetic.content_hash import with_content_hash

    return replace(with_content_hash(graph), trust=graph.trust)


def _save(graph: "Graph", texts: Mapping[str, str], folder: Path) -> None:
    with atomic_folder(folder) as temporary:
        graph.save(temporary)
        for name, text in texts.items():
            (temporary / name).write_text(text)


def prepared_graph(dataset: Choice, order: Choice, cache: Path) -> Path | None:
    """Return the folder of a graph that was prepared from the present files, or ``None``."""
    sha256 = known_sha256(dataset, cache)
    folder = None if sha256 is None else _folder(sha256, dataset, order, cache)
    return folder if folder is not None and (folder / PHASES).is_file() else None


def known_sha256(dataset: Choice, cache: Path) -> str | None:
    """Return the hash of a data set that was read before, unless its files or the loaders changed since."""
    path = _sha256_path(dataset, cache)
    return path.read_text() if path is not None and path.is_file() else None


def _remember_sha256(dataset: Choice, cache: Path, sha256: str) -> None:
    path = _sha256_path(dataset, cache)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic({path: sha256})


def _sha256_path(dataset: Choice, cache: Path) -> Path | None:
    """Return the file for a data set's hash, named by its options, the stamps of its files and the loaders."""
    stamps = _stamps(dataset, entry_of(dataset.name), cache)
    if stamps is None:
        return None
    return cache / "prepared" / "known" / digest([dataset.name, dataset.options, stamps, loader_hash(dataset.name)])


def _stamps(dataset: Choice, entry: Entry, cache: Path) -> list[Any] | None:
    """Return path, size and modification time of a data set's files, nothing where its options name its content.

    ``None`` for absent files, and for user tables of unknown content.
    """
    if entry.kind != "real":
        return [] if entry.kind == "synthetic" or dataset.options.get("sha256") else None
    for needs in (entry.needs, *entry.also):
        files = find_files(dataset.name, entry.family, needs, cache)
        if files:
            stats = [(path, path.stat()) for _, path in sorted(files.items())]
            return [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats]
    return None


def _folder(sha256: str, dataset: Choice, order: Choice, cache: Path) -> Path:
    """Name a prepared graph's folder by its data, options and loaders, then by the order with its own options."""
    text = json.dumps([sha256, dataset.name, dataset.options, loader_hash(dataset.name)], sort_keys=True, default=str)
    return cache / "prepared" / hashlib.sha256(text.encode()).hexdigest() / _order_folder(order)


def _order_folder(order: Choice) -> str:
    """Name the folder of an order, by its options, the packages that it calls and, for a plug-in, its sources.

    Of ``blockwise`` these are its inner order's. ``loaders_hash`` covers our own sources.
    """
    computed = str(order.options.get("inner", "rcm")) if order.name == "blockwise" else order.name
    plugin, packages = plugins("orders").get(computed), order_packages(order.name, order.options)
    sources = None if plugin is None else plugin.source_hash()
    identity = [part for part in (order.options, packages, sources) if part]
    return f"{order.name}-{digest(identity)}" if identity else order.name


def loader_hash(dataset: str) -> str:
    """Hash the sources that read a data set: this package, and the package of its plug-in."""
    plugin = plugins("datasets").get(dataset)
    return loaders_hash() if plugin is None else digest([loaders_hash(), plugin.source_hash()])


@memoized
def loaders_hash() -> str:
    """Hash sources and manifest of the package ``datasets``: another version may read or expect another graph."""
    files = (path for pattern in ("*.py", "*.toml") for path in PACKAGE.rglob(pattern))
    sources = {str(path.relative_to(PACKAGE)): path.read_text() for path in files}
    return digest(sources)
