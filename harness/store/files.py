"""Files of records and environments: paths, atomic writes, side files, reading."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from datasets.files import write_atomic
from harness.store.completion import complete
from harness.store.digest import digest_of
from harness.store.left_out import LeftOut
from harness.store.processor import processor
from harness.store.record import REQUIRED, DamagedFile, Record, RecordError, StoredRecord
from harness.store.rules import FILE, depth_problems, environment_problems, place_problems, problems
from harness.store.strict_json import read_object, read_with_bytes
from harness.store.upgraders import upgrade
from harness.store.violations import abridged

LARGEST_BYTES = 16 * 1024
LONGEST_NAME = 100
NEVER_ASIDE = frozenset((*REQUIRED, "message", "ablations", "dataset", "side", "digest"))
ENVIRONMENT_NAME = re.compile("[0-9a-f]{12}")
RESTORE = "copy it from the machine that wrote the record"
WITH_DIGEST = 2  # the first schema version whose files have one


def machine_slug() -> str:
    """Name this machine by its processor with its generation, cores and GPU, fit for a folder name."""
    words = [processor().title, f"{os.cpu_count() or 1}c", *_gpu_names()[:1]]
    return slug(" ".join(words))[:LONGEST_NAME].strip("-")


def slug(text: str) -> str:
    """Lower-case ``text`` to letters, digits and single hyphens; marks such as (R) and the clock are dropped."""
    plain = re.sub(r"\((r|tm|c)\)|@.*?ghz|\bcpu\b|\bprocessor\b", " ", text.lower())
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def _gpu_names() -> list[str]:
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return answer.stdout.split("\n")[:-1] if answer.returncode == 0 else []


def write_record(results: Path, relative: Path | str, record: Mapping[str, Any]) -> Path:
    """Write a record to ``results/relative``, whole or not at all, and return its path.

    Floats keep 6 significant digits; where it is larger than 16 KB, its largest keys go to ``<name>.side.json``.
    Versions, time and digest are added. Measurements are dropped unless the status is ok, and a measured value that
    breaks a rule makes the status ``error``. Raises RecordError for what else breaks one, OSError as the disk gives it.
    """
    completed = complete(record)
    path = Path(results) / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    # An old record must never stand beside the side file of the new one.
    write_split(path, completed, (path,) if side_path(path).exists() else ())
    return path


def write_split(path: Path, record: Mapping[str, Any], deleted_first: Sequence[Path] = ()) -> None:
    """Write a complete record with its digest and, where it is too large, its side file."""
    main, side = split_side(dict(record) | {"digest": digest_of(record, path)})
    write_atomic(({side_path(path): dump(side)} if side else {}) | {path: dump(main)}, deleted_first)
    if not side:
        side_path(path).unlink(missing_ok=True)


def write_environment(results: Path, environment: Mapping[str, Any]) -> str:
    """Write ``environments/<hash>.json`` unless it is there, and return the hash of its content (12 hex digits).

    Raises RecordError for one that breaks its type.
    """
    if wrong := environment_problems(environment):
        raise RecordError(f"not an environment: {'; '.join(wrong)}")
    text, name = _text_of(environment), environment_name(environment)
    path = Path(results) / "environments" / f"{name}.json"
    if not path.exists() or path.read_bytes() != text.encode():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic({path: text})
    return name


def environment_of(results: Path, name: str) -> dict[str, Any]:
    """Read the environment of a hash; raises RecordError when its file is missing or is not the one of that hash."""
    if not ENVIRONMENT_NAME.fullmatch(name):
        raise RecordError(f"environment is {abridged(name)}: allowed are 12 hexadecimal digits")
    path = Path(results) / "environments" / f"{name}.json"
    try:
        environment, content = read_with_bytes(path, RESTORE)
    except DamagedFile as damaged:
        if isinstance(damaged.__cause__, FileNotFoundError):
            raise RecordError(f"environment {name} has no file {path}: {RESTORE}") from damaged
        raise
    wrong = environment_problems(environment)
    if not wrong and _hash_of(content) != name:
        wrong = [f"was changed, as its content has another hash: {RESTORE}"]
    if wrong:
        raise DamagedFile(path, tuple(wrong))
    return environment


def environment_name(environment: Mapping[str, Any]) -> str:
    """Hash the content of an environment's file (12 hex digits)."""
    return _hash_of(_text_of(environment).encode())


def _text_of(environment: Mapping[str, Any]) -> str:
    return json.dumps(environment, indent=1, sort_keys=True) + "\n"


def _hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def record_paths(results: Path, left_out: LeftOut | None = None) -> Iterator[Path]:
    """Yield whatever below ``results`` is named like a record, sorted; side files are not.

    Links to folders elsewhere are followed. Folders that cannot be read are added to ``left_out``.
    """

    def name_folder(error: OSError) -> None:
        if left_out is not None:
            left_out.add(Path(error.filename or results), [f"cannot be read ({error.strerror})"])

    if not Path(results).is_dir():
        return
    paths = [
        Path(folder, name)
        for folder, names in _walk(results, name_folder)
        for name in names
        if name.startswith("seed=") and name.endswith(".json") and not name.endswith(".side.json")
    ]
    yield from sorted(paths)


def _walk(root: Path, on_error: Callable[[OSError], None]) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder at or below ``root`` once, with the names in it; one that a link leads to by its own name."""
    root = Path(root)
    status = root.stat()
    top, visited = root.resolve(), {(status.st_dev, status.st_ino)}
    for folder, folders, names in os.walk(root, onerror=on_error, followlinks=True):
        yield folder, [*folders, *names]
        folders[:] = [name for name in sorted(folders) if _is_new(Path(folder, name), top, visited)]


def _is_new(folder: Path, top: Path, visited: set[tuple[int, int]]) -> bool:
    """Whether a folder was not visited yet; a link to one below ``top`` is not, as that is visited by its own name."""
    if folder.is_symlink() and (top == folder.resolve() or top in folder.resolve().parents):
        return False
    try:
        status = folder.stat()
    except OSError:
        return True  # the walk tells the error
    identity = (status.st_dev, status.st_ino)
    if identity in visited:
        return False
    visited.add(identity)
    return True


def find_records(results: Path, left_out: LeftOut | None = None) -> Iterator[StoredRecord]:
    """Read all records below ``results`` that are whole, in their place and have their environment, in path order.

    The others are added to ``left_out`` and named on stderr.
    """
    left_out = LeftOut() if left_out is None else left_out
    root, part = root_and_part(results)
    known: dict[str, list[str]] = {}
    for path, record in readable_records(record_paths(results, left_out), left_out):
        name = record["environment"]
        if name not in known:
            known[name] = list(_environment_problems(root, name))
        if wrong := [*depth_problems(part / path.relative_to(results)), *known[name]]:
            left_out.add(path, wrong)
        else:
            yield path, record


def rooted_records(results: Path, left_out: LeftOut | None = None) -> tuple[Path, list[StoredRecord]]:
    """The folder with the environments of the records below ``results``, and those records by their paths in it."""
    root, part = root_and_part(results)
    records = find_records(results, left_out)
    return root, [(root / part / path.relative_to(results), record) for path, record in records]


def readable_records(paths: Iterable[Path], left_out: LeftOut) -> Iterator[StoredRecord]:
    """Read the records of ``paths``; damaged ones are added to ``left_out`` and named on stderr."""
    for path in paths:
        try:
            record = read_record(path)
        except DamagedFile as damaged:
            left_out.add(path, damaged.problems)
        else:
            yield path, record


def root_and_part(results: Path) -> tuple[Path, Path]:
    """The folder at or above ``results`` with the environments of its records, and where in it ``results`` lies."""
    above = (results, *Path(results).resolve().parents)
    root = next((path for path in above if (path / "environments").is_dir()), results)
    return root, results.resolve().relative_to(root.resolve())


def _environment_problems(root: Path, name: str) -> Iterator[str]:
    try:
        environment_of(root, name)
    except RecordError as error:
        yield str(error)


def read_record(path: Path) -> Record:
    """Read a record and its side file, in today's schema; raises DamagedFile for anything but a valid record."""
    return cast(Record, _checked(path, _whole(path)))


def _checked(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """The record in today's schema; raises DamagedFile with all problems."""
    try:
        upgraded = upgrade(record)
    except RecordError as error:
        raise DamagedFile(path, (str(error),)) from error
    wrong = list(problems(upgraded)) or list(place_problems(path, upgraded))
    if not wrong and (record["schema_version"] >= WITH_DIGEST or "digest" in record):
        wrong = _digest_problems(path, record)
    if wrong:
        raise DamagedFile(path, tuple(wrong))
    return upgraded


def _digest_problems(path: Path, record: Mapping[str, Any]) -> list[str]:
    if "digest" not in record:
        return ["digest is missing: a record has one since schema version 2; measure the cell again"]
    if record["digest"] != (digest := digest_of(record, path)):
        change = "a value was changed, or the file renamed"
        return [f"digest is {record['digest']}, but the content has {digest}: {change}; measure the cell again"]
    return []


def _whole(path: Path) -> dict[str, Any]:
    """The keys of a record's file with those of its side file; raises DamagedFile where the two do not fit."""
    record = read_object(path)
    names = record.pop("side", None)
    if names is None:
        return record
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DamagedFile(path, (f"side is {abridged(names)}: allowed is a list of keys",))
    side = read_object(side_path(path))
    both, absent = sorted(set(names) & set(record)), sorted(set(names) - set(side))
    if both or absent:
        what = [f"{key} stands here and in the side file" for key in both] + [f"{key} is missing" for key in absent]
        raise DamagedFile(path, tuple(f"side names {len(names)} keys, but {part}" for part in what))
    return record | {key: side[key] for key in names}


def side_path(path: Path) -> Path:
    """Path of the side file, which holds the large tables of a record."""
    return path.with_name(f"{path.name.removesuffix('.json')}.side.json")


def earlier_path(path: Path, run: str) -> Path:
    """Path of a record that a later run of its group has superseded: its name has the id of its own run."""
    return path.with_name(f"{path.name.removesuffix('.json')}.{run}.json")


def is_superseded(path: Path) -> bool:
    """Whether a later run of its group has superseded a record, as its name says."""
    name = FILE.fullmatch(path.name)
    return name is not None and name[4] is not None


def by_age(stored: StoredRecord) -> tuple[bool, str, str]:
    """Sort key of records, the newest last; a superseded one is older, whatever the clock said when it was written."""
    path, record = stored
    return not is_superseded(path), str(record.get("written", "")), str(path)


def group_record_paths(folder: Path, seed: int, group: str) -> list[Path]:
    """Paths of what is named like the records of a seed in a group, superseded ones too; ``folder`` is the cell's."""
    name = f"seed={seed}.*.{group}"
    return sorted([*folder.glob(f"{name}.json"), *folder.glob(f"{name}.{'[0-9a-f]' * 12}.json")])


def dump(values: Mapping[str, Any]) -> str:
    """Write an object as JSON with one line per key, so that a difference names the key that moved."""
    lines = (f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in values.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def split_side(record: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Move the largest keys of a record to a side object until the rest fits into 16 KB."""
    sizes = {key: len(json.dumps(value)) for key, value in record.items() if key not in NEVER_ASIDE}
    main, side = dict(record), dict[str, Any]()
    for key in sorted(sizes, key=lambda key: -sizes[key]):
        if len(dump(main).encode()) <= LARGEST_BYTES:
            break
        side[key] = main.pop(key)
        main["side"] = sorted(side)
    return main, side
