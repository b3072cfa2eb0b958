"""Registry of data sets: their loaders, files and options. numpy is imported only to load one."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets.fetch import DISK_FULL, FetchError, Progress, fetch
from datasets.hashes import combined_sha256, file_sha256, stored_sha256
from datasets.manifest import forget_first_use, has_address, manifest, replacement, trust
from datasets.options import OptionError, check_options, check_types, unknown_name
from datasets.paths import DatasetNotFound, data_folders, dataset_folder, default_cache, find_files
from datasets.plugins import Plugin, with_plugins

if TYPE_CHECKING:
    from datasets.graph import Graph


@dataclass(frozen=True)
class Entry:
    """A registered data set: ``loader`` is ``module:function``, ``family`` a folder that may contain its files.

    ``needs`` are the published files, ``also`` other layouts of the same graph that the loader reads. ``options`` maps
    the allowed options to their defaults. ``kind`` is ``real``, ``synthetic`` or ``user``; loaders of the last two
    check their options themselves. ``identity`` is the ``module:function`` that adds to the options of a user's data
    what tells its content from other content at the same path.
    """

    loader: str
    family: str
    title: str
    needs: tuple[str, ...] = ()
    also: tuple[tuple[str, ...], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "real"
    identity: str = ""


def _planetoid(name: str, title: str) -> Entry:
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    needs = tuple(f"ind.{name}.{part}" for part in parts)
    return Entry("datasets.published.planetoid:load", "planetoid", title, needs, options={"features": "auto"})


def _attributed(title: str, published: str, *also: str) -> Entry:
    others = tuple((file,) for file in also)
    options = {"split_seed": 0, "features": "auto"}
    return Entry("datasets.published.attributed:load", "attributed", title, (published,), others, options)


def _ogb(title: str, feature_file: str, split: str, **options: Any) -> Entry:
    raw = tuple(f"raw/{part}.csv.gz" for part in ("edge", "num-node-list", "node-label", feature_file))
    parts = tuple(f"split/{split}/{part}.csv.gz" for part in ("train", "valid", "test"))
    return Entry("datasets.published.ogb:load", "ogb", title, raw + parts, options=options)


def _structure(title: str, file: str) -> Entry:
    options = {"features": 0, "seed": 0}
    return Entry("datasets.published.structure_only:load", "structure", title, (file,), options=options)


def _lookalike(of: str) -> Entry:
    title = f"synthetic, with the published counts of {of}"
    return Entry("datasets.synthetic.lookalike.loader:load", "lookalike", title, kind="synthetic")


def _user(name: str, title: str) -> Entry:
    identity = f"datasets.{name}.identity:identified"
    return Entry(f"datasets.{name}.loader:load", name, title, kind="user", identity=identity)


_PPI_FILES = tuple(
    f"{part}_{file}"
    for part in ("train", "valid", "test")
    for file in ("graph.json", "feats.npy", "labels.npy", "graph_id.npy")
)
_ARCHAEA_FILES = ("arch_vs_arch_30_50length_propermm.mtx", "arch_vs_arch_30_50length.indexed.triples")

_SOURCES = {"synthetic": "generated", "user": "your tables"}

DATASETS: dict[str, Entry] = {
    "cora": _planetoid("cora", "citations of machine learning papers"),
    "citeseer": _planetoid("citeseer", "citations of computer science papers"),
    "pubmed": _planetoid("pubmed", "citations of diabetes papers"),
    "ppi": Entry("datasets.published.ppi:load", "ppi", "protein interactions in 24 tissues, inductive", _PPI_FILES),
    "ppi_recovered": Entry(
        "datasets.published.ppi:load_recovered",
        "ppi_recovered",
        "PPI with features and labels joined back",
        ("ppi_recovered.npz",),
    ),
    "amazon_computers": _attributed("computers bought together", "amazon_electronics_computers.npz", "amazon_cs.npz"),
    "amazon_photo": _attributed("photo goods bought together", "amazon_electronics_photo.npz"),
    "coauthor_cs": _attributed("coauthors in computer science", "ms_academic_cs.npz", "coauthor_cs.npz"),
    "coauthor_physics": _attributed("coauthors in physics", "ms_academic_phy.npz"),
    "reddit": Entry(
        "datasets.published.reddit:load",
        "reddit",
        "posts with common commenters",
        ("reddit_data.npz", "reddit_graph.npz"),
    ),
    "ogbn_products": _ogb("Amazon products bought together", "node-feat", "sales_ranking"),
    "ogbn_proteins": _ogb("protein associations in 8 species", "edge-feat", "species", edge_features=False),
    "ogbn_arxiv": _ogb("citations of arXiv papers, directed", "node-feat", "time"),
    "archaea": Entry(
        "datasets.published.archaea:load",
        "archaea",
        "protein similarity network of HipMCL",
        _ARCHAEA_FILES[:1],
        (_ARCHAEA_FILES[1:],),
        {"weights": False},
    ),
    "cnr_2000": _structure("web crawl of cnr.it, directed, structure only", "cnr-2000.npz"),
    "ego_twitter": _structure("circles of Twitter, both directions, structure only", "ego-twitter.npz"),
    "cit_hep_ph": _structure("citations in high energy physics, directed, structure only", "cit-hep-ph.npz"),
    "tables": _user("tables", "your own node and edge tables"),
    "partition": _user("partition", "parts written for DGL, in their order"),
    "uug": Entry("datasets.synthetic.uug:load", "uug", "synthetic, industrial user-user graph", kind="synthetic"),
    "mesh": Entry(
        "datasets.synthetic.mesh:load", "mesh", "synthetic, road-like grid, structure only", kind="synthetic"
    ),
    "rmat": Entry("datasets.synthetic.rmat:load", "rmat", "synthetic, hubs by R-MAT, structure only", kind="synthetic"),
    "lookalike_mag": Entry(
        "datasets.synthetic.mag:load",
        "lookalike_mag",
        "synthetic, typed, with the counts of OGBN-MAG",
        kind="synthetic",
    ),
    **{f"lookalike_{of}": _lookalike(of) for of in ("reddit", "proteins", "archaea", "products", "ppi")},
}


def dataset_names() -> tuple[str, ...]:
    """Names of all data sets: ours, then those of plug-ins; raises PluginError where two have the same."""
    return tuple(with_plugins("datasets", DATASETS))


def entry_of(name: str) -> Entry:
    """Return an entry; raises KeyError with the allowed names and the nearest, PluginError for a broken plug-in."""
    known = with_plugins("datasets", DATASETS)
    if name not in known:
        raise KeyError(unknown_name("data set", name, known))
    entry = known[name]
    return _plugin_entry(entry) if isinstance(entry, Plugin) else entry


def _plugin_entry(plugin: Plugin) -> Entry:
    """Return the entry of a plug-in; a plain loader becomes a synthetic data set with its docstring as title."""
    loaded = plugin.load()
    if isinstance(loaded, Entry):
        return loaded
    if not callable(loaded):
        raise plugin.error("is neither a datasets.registry.Entry nor a loader")
    title = (loaded.__doc__ or plugin.target).strip().partition("\n")[0].rstrip(".")
    return Entry(plugin.target, plugin.name, title, kind="synthetic")


def identified_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Add to the options of a user's data set what identifies its content; those of others stay.

    Raises ValueError where the content is not what the options say.
    """
    identity = entry_of(name).identity if name in dataset_names() else ""
    return dict(_imported(identity)(options, dataset_names())) if identity else dict(options)


def load_dataset(name: str, options: Mapping[str, Any], cache: Path, progress: Progress | None = None) -> "Graph":
    """Find the files of a data set, download them where they are absent, check and read them.

    Raises KeyError for unknown names, ValueError for unknown options and files that differ from the published ones,
    DatasetNotFound where no files are here and none can be downloaded, MemoryError for a graph that is too large.
    """
    try:
        return _load(name, entry_of(name), options, cache, progress)
    except MemoryError as error:
        raise MemoryError(f"data set {name} does not fit in memory ({error}): take fewer nodes or features") from error


def _load(name: str, entry: Entry, options: Mapping[str, Any], cache: Path, progress: Progress | None) -> "Graph":
    """Read or generate a data set of any kind."""
    if entry.kind == "synthetic":
        return _checked(_loader(entry)(name, dict(options)))
    if entry.kind == "user":
        return _checked(_loader(entry)(name, {}, dict(options)))
    changed = _changed_options(name, entry, options)
    files = _files(name, entry, cache) or _downloaded(name, entry, cache, progress)
    hashes = {need: file_sha256(path) for need, path in files.items()}
    origin = trust(name, hashes, cache, all(dataset_folder(name, cache) in path.parents for path in files.values()))
    try:
        graph = _read(name, entry, files, dict(entry.options) | changed)
        check_counts(name, graph)
    except ValueError as error:
        if origin == "first use" and not isinstance(error, OptionError):
            forget_first_use(cache, name)  # its hashes would refuse the right files
        raise
    published = manifest().get(name, {}).get("published", {})
    return replace(graph, sha256=combined_sha256(hashes, changed), trust=origin, published=published)


def files_sha256(name: str, options: Mapping[str, Any], cache: Path) -> str | None:
    """The hash that the graph of a real data set would have, from its files and options without reading it.

    ``None`` where its files are not here, and for generated graphs and user tables.
    """
    entry = entry_of(name)
    files = _files(name, entry, cache) if entry.kind == "real" else None
    if files is None:
        return None
    hashes = {need: stored_sha256(path) for need, path in files.items()}
    return combined_sha256(hashes, _other_than_default(entry, options))


def fetch_dataset(name: str, cache: Path, progress: Progress | None = None) -> dict[str, Path]:
    """Return the files of a real data set, downloaded into the cache unless they are here; raises FetchError."""
    entry = entry_of(name)
    if entry.kind != "real":
        raise FetchError(f"data set {name} is {_SOURCES[entry.kind]}: there is nothing to fetch, run it as it is")
    return _files(name, entry, cache) or fetch(name, entry.needs, cache, progress)


def available(name: str) -> tuple[bool, str]:
    """Return whether a data set can be read without a download, and from where."""
    entry = entry_of(name)
    if entry.kind != "real":
        return True, _SOURCES[entry.kind]
    files = _files(name, entry, default_cache())
    if files is None:
        return False, "not here" if has_address(name) else "not here, no address known"
    return True, str(min(files.values()).parent)


def check_counts(name: str, graph: "Graph") -> None:
    """Refuse a graph whose counts are not those of the manifest; ``rows`` are input rows, self loops included."""
    known = manifest().get(name, {})
    counts = graph.counts()
    counts["rows"] = counts["edges"] // (2 if known.get("undirected") else 1) + counts["self_loops_dropped"]
    for key, allowed in known.get("counts", {}).items():
        if counts[key] not in (allowed if isinstance(allowed, list) else [allowed]):
            raise ValueError(
                f"{name}: read {counts[key]} {key}, published are {allowed}: these are not the published files; "
                f"{replacement(name)}"
            )


def _changed_options(name: str, entry: Entry, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their defaults; raises ValueError for an unknown one or a wrong type."""
    check_options(f"option of data set {name}", options, entry.options)
    check_types(options, {option: type(default) for option, default in entry.options.items()})
    return _other_than_default(entry, options)


def _other_than_default(entry: Entry, options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value != entry.options.get(key)}


def _files(name: str, entry: Entry, cache: Path) -> dict[str, Path] | None:
    layouts = (find_files(name, entry.family, needs, cache) for needs in (entry.needs, *entry.also))
    return next((files for files in layouts if files), None)


def _downloaded(name: str, entry: Entry, cache: Path, progress: Progress | None) -> dict[str, Path]:
    try:
        return fetch(name, entry.needs, cache, progress)
    except (FetchError, OSError) as error:
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            raise
        folders = ", ".join(str(folder) for folder in data_folders()) or "not set"
        advice = f"; where there is a network, run: python -m harness fetch dataset={name}" if has_address(name) else ""
        raise DatasetNotFound(
            f"data set {name} is in none of its three places: $HARNESS_DATA ({folders}), the cache "
            f"({dataset_folder(name, cache)}), the network ({error}). "
            f"It needs {', '.join(entry.needs)}{advice}"
        ) from error


def _read(name: str, entry: Entry, files: Mapping[str, Path], options: Mapping[str, Any]) -> "Graph":
    """Run a loader; whatever a format's reader raises for damaged files becomes a ValueError that names them.

    Errors of the disk, of memory, of an option and of a package that is not installed stay.
    """
    loader = _loader(entry)
    try:
        from datasets.consistency import check_finite

        graph = _checked(loader(name, files, options))
        check_finite(graph)
    except (OptionError, ImportError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        folder = min(files.values()).parent
        raise ValueError(
            f"{name}: {', '.join(files)} in {folder} cannot be read ({error}): {replacement(name)}"
        ) from error
    return graph


def _checked(graph: "Graph") -> "Graph":
    """The graph, whose arrays fit each other; raises ValueError otherwise."""
    from datasets.consistency import check_lengths

    check_lengths(graph)
    return graph


def _loader(entry: Entry) -> Any:
    return _imported(entry.loader)


def _imported(target: str) -> Any:
    module, _, function = target.partition(":")
    return getattr(importlib.import_module(module), function)
