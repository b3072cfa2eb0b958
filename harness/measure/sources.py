"""The code that a measured process ran: which modules count, their digests, and whether these are still the same.

A record is finished only while the modules that its own process had loaded digest as they did. What Ray workers, ranks
and parameter servers import beyond the process that started them does not count; they run modules of the same packages,
and the starting process loads nearly all of them itself. Inline cells count what the parent had loaded, too.
"""

import hashlib
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.measure.code import digest_of

ROOT = Path(__file__).resolve().parents[2]
# Code that can change a time: engines, data, and the part of the harness that runs while the clock does.
TIMED = ("backends", "datasets", "harness.session", "harness.scenario", "harness.measure.clock")
PACKAGES = ("backends", "datasets", "harness")


def loaded_modules(packages: Iterable[str] = ()) -> dict[str, str]:
    """Map the loaded modules of ``TIMED`` and of further packages to the files or folders that hold their code."""
    counted = (*TIMED, *packages)
    names = [name for name in sys.modules if any(name == top or name.startswith(f"{top}.") for top in counted)]
    paths = {name: _source_of(name, getattr(sys.modules[name], "__file__", None)) for name in sorted(names)}
    return {name: str(path) for name, path in paths.items() if path is not None}


def _source_of(name: str, file: str | None) -> Path | None:
    """The Python file of a module; for an extension the folder ``cpp`` of its package or, without one, the binary."""
    if file is None or file.endswith(".py"):
        return None if file is None else Path(file)
    package = getattr(sys.modules.get(name.rpartition(".")[0]), "__file__", None)
    folder = Path(package or file).parent / "cpp"
    return folder if folder.is_dir() else Path(file)


def with_sources(environment: Mapping[str, Any], modules: Mapping[str, str]) -> dict[str, Any]:
    """Add the digests of ``modules`` (name -> path) to an environment, and their hash to its checked part."""
    digests = {name: digest_of(Path(path)) for name, path in sorted(modules.items())}
    checked = dict(environment["checked"]) | {"sources": combined(digests)}
    return dict(environment) | {"checked": checked, "modules": digests}


def combined(digests: Mapping[str, str]) -> str:
    """Digest modules and their digests."""
    lines = "\n".join(f"{name} {digest}" for name, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def is_current(environment: Mapping[str, Any]) -> bool:
    """Whether the modules that an environment lists have the same code today; False where it lists none."""
    digests = environment.get("modules")
    if digests is None:
        return False
    return combined({name: digest_today(name) for name in digests}) == str(environment["checked"]["sources"])


@cache
def digest_today(name: str) -> str:
    """Digest a module as it lies on this machine, without importing it; ``missing`` where there is none.

    A plan compares thousands of records with the same modules: each is looked at once until ``forget_digests``.
    """
    path = path_today(name)
    return "missing" if path is None else digest_of(path)


def forget_digests() -> None:
    """Let modules be looked at anew: their files may have changed since records were last compared with them."""
    digest_today.cache_clear()


def path_today(name: str) -> Path | None:
    """The file or folder that holds a module's code on this machine, found without importing it."""
    top, *submodules = name.split(".")
    base = ROOT / top if top in PACKAGES else _folder_of(top)
    if base is None or base.is_file():
        return base
    stem = base.joinpath(*submodules)
    extensions = sorted(stem.parent.glob(f"{stem.name}.*.so"))
    candidates = (stem.with_name(f"{stem.name}.py"), stem / "__init__.py", stem.parent / "cpp", *extensions)
    return next((path for path in candidates if path.exists()), None)


def _folder_of(package: str) -> Path | None:
    """Folder of an installed top-level package, or the file of a single module."""
    spec = find_spec(package)
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or ())
    return Path(places[0]) if places else Path(spec.origin or package)


@cache
def commit() -> dict[str, Any] | None:
    """Revision of this checkout and whether its code has uncommitted changes, at the first call of this process.

    None outside git, and where git cannot tell one of the two.
    """
    revision, top = _git("rev-parse", "HEAD"), _git("rev-parse", "--show-toplevel")
    changes = _git("status", "--porcelain", "--", *PACKAGES, "conf")
    if revision is None or top is None or changes is None or Path(top) != ROOT:
        return None
    return {"revision": revision, "dirty": bool(changes)}


def _git(*arguments: str) -> str | None:
    try:
        answer = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
