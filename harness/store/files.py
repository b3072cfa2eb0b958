"""Files of records and environments: paths, atomic writes, side files; standard library only."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from datasets.files import write_atomic
from harness.store.completion import complete
from harness.store.processor import processor
from harness.store.record import (
    REQUIRED,
    Record,
    RecordError,
    check_version,
)

LARGEST_BYTES = 16 * 1024
LONGEST_NAME = 100
NEVER_ASIDE = frozenset((*REQUIRED, "message", "ablations", "dataset", "written", "side"))


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
    Versions and the time are added. Measurements are dropped unless the status is ok, and a measured number that
    is not finite makes the status ``error``. Raises RecordError for keys or a status that the schema lacks, OSError
    as the disk gives it.
    """
    completed = complete(record)
    path = Path(results) / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    write_split(path, completed)
    return path


def write_split(path: Path, record: dict[str, Any]) -> None:
    """Write a complete record and, where it is too large, its side file."""
    main, side = split_side(record)
    write_atomic(({side_path(path): dump(side)} if side else {}) | {path: dump(main)})
    if not side:
        side_path(path).unlink(missing_ok=True)


def write_environment(results: Path, environment: Mapping[str, Any]) -> str:
    """Write ``environments/<hash>.json`` unless it is there, and return the hash of its content (12 hex digits)."""
    text = json.dumps(environment, indent=1, sort_keys=True) + "\n"
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = Path(results) / "environments" / f"{name}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic({path: text})
    return name


def environment_of(results: Path, name: str) -> dict[str, Any]:
    """Read the environment of a hash; raises RecordError when its file is missing."""
    path = Path(results) / "environments" / f"{name}.json"
    if not path.is_file():
        raise RecordError(f"environment {name} has no file {path}: copy it from the machine that wrote the record")
    return cast(dict[str, Any], json.loads(path.read_text()))


def record_paths(results: Path) -> Iterator[Path]:
    """Yield the files of all records below ``results``, sorted, side files left out."""
    for path in sorted(Path(results).rglob("seed=*.json")):
        if not path.name.endswith(".side.json"):
            yield path


def find_records(results: Path) -> Iterator[tuple[Path, Record]]:
    """Read all records below ``results``, in the order of their paths; raises RecordError as ``read_record``."""
    for path in record_paths(results):
        yield path, read_record(path)


def read_record(path: Path) -> Record:
    """Read a record and its side file; raises RecordError for another schema version or a damaged file."""
    record = read_json(path)
    check_version(record.get("schema_version"), path)
    if record.get("side"):
        record |= read_json(side_path(path))
    return cast(Record, record)


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON object; raises RecordError naming the file when it is not one."""
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read ({error}): delete it and measure the cell again") from error
    if not isinstance(values, dict):
        raise RecordError(f"{path} holds a {type(values).__name__}, not a record: delete it")
    return values


def side_path(path: Path) -> Path:
    """Path of the side file, which holds the large tables of a record."""
    return path.with_name(f"{path.name.removesuffix('.json')}.side.json")


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
