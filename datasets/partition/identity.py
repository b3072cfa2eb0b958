"""Content hash of a partition, which tells two of them at the same path apart."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from datasets.hashes import combined_sha256, stored_sha256
from datasets.options import OptionError
from datasets.partition.description import part_folders, read_description

GRAPH, NODE_FEATURES, EDGE_FEATURES = "graph.dgl", "node_feat.dgl", "edge_feat.dgl"
ORIGINAL_NODES, ORIGINAL_EDGES = "orig_nids.dgl", "orig_eids.dgl"  # not written by DGL
FILES = (GRAPH, NODE_FEATURES, EDGE_FEATURES, ORIGINAL_NODES, ORIGINAL_EDGES)
DIGITS = 12


def identified(options: Mapping[str, Any], _taken: Iterable[str] = ()) -> dict[str, Any]:
    """Add ``sha256`` to the options of a partition, as far as its files can be read: the loader says why they cannot.

    It is the beginning of ``content_sha256``. Raises ValueError where a given ``sha256`` is that of other files.
    """
    try:
        sha256 = content_sha256(config_path(options))
    except (OSError, ValueError, RuntimeError):  # the last for a home folder that is unknown
        return dict(options)
    expected = options.get("sha256")
    if expected is not None and not sha256.startswith(str(expected)):
        raise ValueError(
            f"{options['config']} and its parts have sha256 {sha256[:DIGITS]}, but dataset.options.sha256={expected}: "
            "this is another partition; leave the option out to measure it"
        )
    return dict(options) | {"sha256": sha256[:DIGITS]}


def config_path(options: Mapping[str, Any]) -> Path:
    """The path of the JSON that the options name; raises OptionError where they name none."""
    if not options.get("config"):
        raise OptionError("data set partition needs +dataset.options.config=PATH, the JSON of a partition")
    return Path(str(options["config"])).expanduser()


def content_sha256(config: Path) -> str:
    """Hash the JSON and the files of all parts; raises OSError and ValueError where they cannot be read."""
    folders = part_folders(config, read_description(config))
    hashes = {config.name: stored_sha256(config)}
    for part, folder in enumerate(folders):
        present = [file for file in FILES if (folder / file).is_file()]
        hashes |= {f"part-{part}/{file}": stored_sha256(folder / file) for file in present}
    return combined_sha256(hashes)
