"""``python -m harness clean``: removes prepared graphs from the cache, and downloads on request."""

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

from datasets import cache
from datasets.paths import default_cache
from harness.usage import FAILED, OK, USAGE, complain, formatted_bytes

ABOUT = (
    "Remove prepared graphs that no process uses from the cache. Without an option: what killed processes left and the "
    "least recently used graphs beyond the bound ($HARNESS_CACHE_LIMIT_GIB). A run that needs a removed graph prepares "
    "it again."
)


def main(arguments: list[str]) -> int:
    """Remove and name each entry; 1 where one cannot be removed, 2 for wrong arguments."""
    parser = argparse.ArgumentParser("python -m harness clean", description=ABOUT)
    parser.add_argument("--older-than", type=_days, metavar="DAYS", help="graphs that were not used for DAYS days")
    parser.add_argument("--all", action="store_true", help="every prepared graph")
    parser.add_argument("--downloads", action="store_true", help="also the downloaded files of all data sets")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    options = parser.parse_args(arguments)
    folder = default_cache()
    try:
        chosen = _chosen(folder, options.all, options.older_than)
    except ValueError as error:
        return complain(error, USAGE)
    removals: list[tuple[cache.CacheEntry, Callable[[cache.CacheEntry], bool]]] = [
        (entry, cache.remove) for entry in chosen
    ]
    if options.downloads:
        removals += [(entry, cache.remove_download) for entry in cache.downloads(folder)]
    return _carry_out(removals, folder, options.dry_run)


def _days(text: str) -> float:
    """Parse a number of days; argparse names the option and the value of an error."""
    days = float(text)
    if not 0 <= days < math.inf:
        raise ValueError
    return days


_days.__name__ = "number of days"


def _chosen(folder: Path, everything: bool, days: float | None) -> list[cache.CacheEntry]:
    """What killed processes left, and the entries that the options choose; raises ValueError for a wrong bound."""
    entries = cache.entries(folder)
    if everything:
        return entries
    if days is not None:
        before = time.time() - days * 86400
        return [entry for entry in entries if entry.half_written or entry.used < before]
    return cache.beyond(entries, cache.limit(folder))


def _carry_out(
    removals: list[tuple[cache.CacheEntry, Callable[[cache.CacheEntry], bool]]], folder: Path, dry_run: bool
) -> int:
    code, freed = OK, 0
    for entry, remove in removals:
        name = f"{entry.dataset} {entry.order}".strip() + (" (half written)" if entry.half_written else "")
        if dry_run:
            outcome = "would be kept: a process uses it" if cache.in_use(entry) else "would be removed"
        else:
            try:
                removed = remove(entry)
            except OSError as error:
                code = complain(f"{entry.path} cannot be removed: {error.strerror or error}", FAILED)
                continue
            outcome, freed = ("removed", freed + entry.size) if removed else ("kept: a process uses it", freed)
        print(f"{name}, {formatted_bytes(entry.size)}: {outcome}")
    print(f"{formatted_bytes(freed)} freed in {folder}" if removals else f"nothing to remove in {folder}")
    return code
