"""The published counts, addresses and sha256 of data sets, and the user's own manifest of first downloads."""

import fcntl
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache as memoized
from pathlib import Path
from typing import Any

from datasets.files import write_atomic


@memoized
def manifest() -> dict[str, dict[str, Any]]:
    """Read ``datasets/manifest.toml``: per data set downloads, sha256 of files, published and checked counts."""
    return tomllib.loads((Path(__file__).parent / "manifest.toml").read_text())


def first_uses(cache: Path) -> dict[str, dict[str, Any]]:
    """Read the user's manifest: per data set the sha256 of its files at the first download, and the addresses."""
    path = cache / "manifest.json"
    try:
        entries = json.loads(path.read_text()) if path.is_file() else {}
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, the next download writes it anew") from error
    if not isinstance(entries, dict):
        raise ValueError(f"{path} is damaged (it holds no object): delete it, the next download writes it anew")
    return entries


def record_first_use(cache: Path, name: str, hashes: Mapping[str, str], addresses: Sequence[str]) -> None:
    """Write down the hashes of a first download; raises ValueError if a later download differs from it."""
    with _locked(cache):
        entries = first_uses(cache)
        if name in entries:
            _refuse_changes(name, hashes, entries[name]["sha256"], f"the first download ({cache / 'manifest.json'})")
            return
        entries[name] = {"sha256": dict(hashes), "addresses": list(addresses)}
        _write(cache, entries)


def forget_first_use(cache: Path, name: str) -> None:
    """Remove the hashes of a first download, whose files turned out to be unreadable."""
    with _locked(cache):
        entries = first_uses(cache)
        if entries.pop(name, None) is not None:
            _write(cache, entries)


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """Hold the lock of the user's manifest, as downloads of other data sets write the same file."""
    with (cache / ".manifest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(cache: Path, entries: Mapping[str, Any]) -> None:
    write_atomic({cache / "manifest.json": json.dumps(entries, indent=1, sort_keys=True)})


def trust(name: str, hashes: Mapping[str, str], cache: Path, downloaded: bool) -> str:
    """Return the source of the hashes that files equal: ``manifest``, ``first use``, or ``local`` for neither.

    Raises ValueError when ``downloaded`` files differ from the published or first downloaded ones.
    """
    records = {"manifest": manifest().get(name, {}), "first use": first_uses(cache).get(name, {})}
    for origin, record in records.items():
        expected = record.get("sha256", {})
        if all(expected.get(file) == value for file, value in hashes.items()):
            return origin
        if downloaded:
            _refuse_changes(name, hashes, expected, f"the {origin} record")
    return "local"


def has_address(name: str) -> bool:
    """Whether a data set can be downloaded."""
    return bool(manifest().get(name, {}).get("downloads"))


def replacement(name: str) -> str:
    """Say how to replace wrong files of a data set: by a download where an address is known."""
    if has_address(name):
        return f"delete them and run: python -m harness fetch dataset={name}"
    return "no address is known for them: put the right ones into a folder of $HARNESS_DATA"


def _refuse_changes(name: str, hashes: Mapping[str, str], expected: Mapping[str, str], origin: str) -> None:
    for file, value in hashes.items():
        if expected.get(file, value) != value:
            raise ValueError(
                f"{name}: {file} has sha256 {value}, but {expected[file]} in {origin}: delete the file and run: python "
                f"-m harness fetch dataset={name}; if its source was changed for good, delete {name} from the "
                "manifest.json of the cache before"
            )
