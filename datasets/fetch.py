"""Downloads of published files: resumed, checked, unpacked without trusting the archive; standard library only."""

import fcntl
import os
import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPMessage
from pathlib import Path

from datasets.manifest import manifest, record_first_use
from datasets.paths import dataset_folder, sha256_of

Progress = Callable[[str, int, int | None], None]
BLOCK = 1 << 20
ATTEMPTS = 3


class FetchError(RuntimeError):
    """A download failed or is not what was published; the message says which address and what to do."""


def fetch(
    name: str,
    needs: Iterable[str],
    cache: Path,
    progress: Progress | None = None,
    mirror: str | None = None,
    timeout: float = 20.0,
) -> dict[str, Path]:
    """Bring every needed file into the cache and return where it lies.

    ``mirror``, or ``$HARNESS_MIRROR``, replaces the folder of every published address. ``progress`` is called with
    file name, bytes so far and total bytes or ``None``. ``timeout`` in seconds is for one read. A file whose
    sha256 is not in the manifest is recorded in the user's own. Raises FetchError.
    """
    entry, folder, needs = manifest().get(name, {}), dataset_folder(name, cache), tuple(needs)
    if not entry.get("downloads"):
        raise FetchError(f"no address is known for {name}: put {', '.join(needs)} into a folder of $HARNESS_DATA")
    mirror = mirror or os.environ.get("HARNESS_MIRROR")
    with _locked(folder):
        for url in entry["downloads"]:
            file = url.rsplit("/", 1)[1]
            wanted = needs if file.endswith(".zip") else (file,)
            if not all((folder / need).is_file() for need in wanted):
                address = f"{mirror.rstrip('/')}/{file}" if mirror else url
                download(address, folder / f"{file}.part", entry.get("sha256", {}).get(file), progress, timeout)
                _place(folder / f"{file}.part", folder, wanted)
        missing = [need for need in needs if not (folder / need).is_file()]
        if missing:
            raise FetchError(f"{name}: what was downloaded lacks {', '.join(missing)}; the address may be outdated")
        files = {need: folder / need for need in needs}
        record_first_use(cache, name, {need: sha256_of(path) for need, path in files.items()}, entry["downloads"])
    return files


def _place(part: Path, folder: Path, wanted: tuple[str, ...]) -> None:
    """Move a finished download to its place, or unpack it there."""
    if part.name.endswith(".zip.part"):
        unpack(part, folder, wanted)
        part.unlink()
    else:
        part.replace(folder / wanted[0])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time fill a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def download(url: str, part: Path, sha256: str | None, progress: Progress | None, timeout: float) -> None:
    """Complete ``part`` from ``url``, going on where it ends; retries truncated transfers, then raises FetchError."""
    if not url.startswith(("https://", "http://")):
        raise FetchError(f"{url} is refused: only https and http addresses are fetched")
    for attempt in range(ATTEMPTS):
        try:
            expected = _transfer(url, part, progress, timeout)
        except (OSError, HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError) or attempt == ATTEMPTS - 1 or not part.exists():
                raise FetchError(f"{url} cannot be fetched: {error}") from error
            continue
        held = part.stat().st_size
        if expected is None or held == expected:
            break
        if held > expected:
            part.unlink()
    else:
        held = part.stat().st_size if part.exists() else 0
        raise FetchError(f"{url} was truncated at {held} of {expected} bytes: run the same command again to resume")
    if sha256 and (found := sha256_of(part)) != sha256:
        part.unlink()
        raise FetchError(f"{url} has sha256 {found}, but {sha256} was published: it is deleted; check the mirror")


def _transfer(url: str, part: Path, progress: Progress | None, timeout: float) -> int | None:
    """Append what is missing of a file; return its full size where the server says it."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "gnn-harness", "Accept-Encoding": "identity"}
    request = urllib.request.Request(url, headers=headers | ({"Range": f"bytes={start}-"} if start else {}))
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        size = error.headers.get("Content-Range", "").rpartition("/")[2]
        if error.code != 416 or not size.isdigit():
            raise
        return int(size)
    with answer:
        start = start if answer.status == 206 else 0
        total = _full_size(answer.headers, start)
        first = answer.read(BLOCK)
        if _is_html(answer.headers, first if start == 0 else b""):
            raise FetchError(f"{url} answered with an HTML page, not the file: open it in a browser to see why")
        with part.open("ab" if start else "wb") as handle:
            while first:
                handle.write(first)
                start += len(first)
                if progress:
                    progress(url.rsplit("/", 1)[1], start, total)
                first = answer.read(BLOCK)
    return total


def _full_size(headers: HTTPMessage, start: int) -> int | None:
    length = headers.get("Content-Length")
    return None if length is None else start + int(length)


def _is_html(headers: HTTPMessage, beginning: bytes) -> bool:
    opening = beginning[:256].lstrip().lower()
    return headers.get_content_type() == "text/html" or opening.startswith((b"<!doctype html", b"<html"))


def unpack(archive: Path, folder: Path, needs: Iterable[str]) -> None:
    """Write only the needed members of a zip, to the paths we chose; names inside the archive never become paths."""
    try:
        with zipfile.ZipFile(archive) as held:
            for need in needs:
                members = [item for item in held.infolist() if f"/{item.filename}".endswith(f"/{need}")]
                if len(members) != 1:
                    raise FetchError(f"{archive} has {len(members)} members named {need}: expected exactly one")
                _write_member(held, members[0], folder / need)
    except (zipfile.BadZipFile, EOFError) as error:
        archive.unlink()
        raise FetchError(
            f"{archive} is no whole zip file ({error}): it is deleted; run the same command again"
        ) from error


def _write_member(held: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".unpacking")
    with held.open(member) as source, partial.open("wb") as handle:
        shutil.copyfileobj(source, handle, BLOCK)
    partial.replace(target)
