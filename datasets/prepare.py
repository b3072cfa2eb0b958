"""The graph of a cell, parsed, ordered and written once; every child memory-maps the same files."""

import hashlib
import json
import time
from collections.abc import Mapping
from functools import cache as memoized
from pathlib import Path
from typing import Any, Protocol

from datasets.files import digest, whole_or_nothing, write_atomic
from datasets.paths import find_files
from datasets.plugins import plugins
from datasets.registry import Entry, entry_of, load_dataset

Phases = dict[str, float]
PHASES = "phases.json"
STRUCTURE = "structure.json"
LOADERS = Path(__file__).resolve().parent


class Choice(Protocol):
    """A data set or an order as it was chosen: its registered name, and the options that go to it."""

    @property
    def name(self) -> str:
        """The registered name."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """What goes to the loader, or to the order."""
        ...


def prepare_graph(dataset: Choice, order: Choice, cache: Path) -> tuple[Path, Phases]:
    """Return the folder of a prepared graph and the seconds of ``parse`` and ``order`` when it was made.

    Written beside its place and renamed, so that it is there whole or not at all. Raises OSError as the disk gives
    it, and what loaders and orders raise for data that is missing or wrong.
    """
    held = prepared_graph(dataset, order, cache)
    if held is not None:
        return held, json.loads((held / PHASES).read_text())
    start = time.perf_counter()
    graph = load_dataset(dataset.name, dataset.options, cache)
    phases = {"parse": time.perf_counter() - start, "order": 0.0}
    folder = _folder(graph.sha256, dataset, order, cache)
    if order.name != "none":
        # numpy comes with the orders; the command line lives without it until there is something to do.
        from datasets.order import apply_order, permutation_of

        start = time.perf_counter()
        graph = apply_order(graph, permutation_of(order.name, graph.csr, order.options))
        phases["order"] = time.perf_counter() - start
    # After the order, which changes it.
    from datasets.statistics import summary

    with whole_or_nothing(folder) as temporary:
        graph.save(temporary)
        (temporary / STRUCTURE).write_text(json.dumps(summary(graph.csr)))
        (temporary / PHASES).write_text(json.dumps(phases))
    _remember(dataset, cache, graph.sha256)
    return folder, json.loads((folder / PHASES).read_text())


def prepared_graph(dataset: Choice, order: Choice, cache: Path) -> Path | None:
    """Return the folder of a graph that was prepared from the files as they lie now, or ``None``."""
    sha256 = known_sha256(dataset, cache)
    folder = None if sha256 is None else _folder(sha256, dataset, order, cache)
    return folder if folder is not None and (folder / PHASES).is_file() else None


def known_sha256(dataset: Choice, cache: Path) -> str | None:
    """Return the hash of the data if it was read before and neither its files nor the loaders moved since."""
    note = _note(dataset, cache)
    return note.read_text() if note is not None and note.is_file() else None


def _remember(dataset: Choice, cache: Path, sha256: str) -> None:
    note = _note(dataset, cache)
    if note is not None:
        note.parent.mkdir(parents=True, exist_ok=True)
        write_atomic({note: sha256})


def _note(dataset: Choice, cache: Path) -> Path | None:
    """Where the hash of a data set is written down: named by its options, its files' stamps and the loaders."""
    stamps = _stamps(dataset.name, entry_of(dataset.name), cache)
    if stamps is None:
        return None
    return cache / "prepared" / "known" / digest([dataset.name, dataset.options, stamps, loader_hash(dataset.name)])


def _stamps(name: str, entry: Entry, cache: Path) -> list[Any] | None:
    """Stamp the files of a data set by path, size and time; ``None`` where they are not known or not here."""
    if entry.kind != "real":
        return [] if entry.kind == "synthetic" else None
    for needs in (entry.needs, *entry.also):
        files = find_files(name, entry.family, needs, cache)
        if files:
            stats = [(path, path.stat()) for _, path in sorted(files.items())]
            return [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats]
    return None


def _folder(sha256: str, dataset: Choice, order: Choice, cache: Path) -> Path:
    """Name a prepared graph's folder by its data, options and loaders, then by the order with its own options."""
    text = json.dumps([sha256, dataset.name, dataset.options, loader_hash(dataset.name)], sort_keys=True, default=str)
    return cache / "prepared" / hashlib.sha256(text.encode()).hexdigest() / _order_folder(order)


def _order_folder(order: Choice) -> str:
    """Name the folder of an order, by its options and, of a plug-in, by its sources: ours are in ``loaders_hash``."""
    plugin = plugins("orders").get(order.name)
    if plugin is not None:
        return f"{order.name}-{digest([order.options, plugin.source_hash()])}"
    return order.name if not order.options else f"{order.name}-{digest(order.options)}"


def loader_hash(dataset: str) -> str:
    """Hash the sources that read a data set: this package, and the package of its plug-in."""
    plugin = plugins("datasets").get(dataset)
    return loaders_hash() if plugin is None else digest([loaders_hash(), plugin.source_hash()])


@memoized
def loaders_hash() -> str:
    """Hash the sources of the package ``datasets``: a graph made by another loader is another graph."""
    texts = {str(path.relative_to(LOADERS)): path.read_text() for path in LOADERS.rglob("*.py")}
    return digest(texts)
