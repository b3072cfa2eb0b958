"""What is known of the published files: the repository's manifest, and the user's own of first downloads."""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache as remembered
from pathlib import Path
from typing import Any


@remembered
def manifest() -> dict[str, dict[str, Any]]:
    """Read ``datasets/manifest.toml``: per data set downloads, sha256 of files, published and checked counts."""
    return tomllib.loads((Path(__file__).parent / "manifest.toml").read_text())


def first_uses(cache: Path) -> dict[str, dict[str, Any]]:
    """Read the user's manifest: per data set the sha256 of its files at the first download, and the addresses."""
    path = cache / "manifest.json"
    held: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else {}
    return held


def record_first_use(cache: Path, name: str, hashes: Mapping[str, str], addresses: Sequence[str]) -> None:
    """Write down the hashes of a first download; raises ValueError if a later download differs from it."""
    held = first_uses(cache)
    if name in held:
        _refuse_changes(name, hashes, held[name]["sha256"], f"the first download ({cache / 'manifest.json'})")
        return
    held[name] = {"sha256": dict(hashes), "addresses": list(addresses)}
    partial = cache / f"manifest.json.{os.getpid()}"
    partial.write_text(json.dumps(held, indent=1, sort_keys=True))
    partial.replace(cache / "manifest.json")


def trust(name: str, hashes: Mapping[str, str], cache: Path, downloaded: bool) -> str:
    """Say why files are believed: ``manifest``, ``first use``, or ``local`` if nothing is known of them.

    Raises ValueError when ``downloaded`` files no longer equal what was published or first downloaded.
    """
    known = {"manifest": manifest().get(name, {}), "first use": first_uses(cache).get(name, {})}
    for origin, entry in known.items():
        expected = entry.get("sha256", {})
        if all(expected.get(file) == value for file, value in hashes.items()):
            return origin
        if downloaded:
            _refuse_changes(name, hashes, expected, f"the {origin} record")
    return "local"


def _refuse_changes(name: str, hashes: Mapping[str, str], expected: Mapping[str, str], origin: str) -> None:
    for file, value in hashes.items():
        if expected.get(file, value) != value:
            raise ValueError(
                f"{name}: {file} has sha256 {value}, but {expected[file]} in {origin}: "
                f"delete the file and run: python -m harness fetch dataset={name}"
            )
