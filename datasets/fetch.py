"""Download of published files: resumed, checked by sha256, unpacked to chosen paths; standard library only."""

import errno
import fcntl
import os
import shutil
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPMessage
from pathlib import Path

from datasets.files import atomic_file
from datasets.hashes import file_sha256
from datasets.manifest import manifest, record_first_use
from datasets.paths import dataset_folder

Progress = Callable[[str, int, int | None], None]
BLOCK = 1 << 20
ATTEMPTS = 3
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
DAMAGED = (zipfile.BadZipFile, EOFError, zlib.error, RuntimeError)  # the last for unknown compression or a password


class FetchError(RuntimeError):
    """A download failed or differs from the published file; the message has the address and advice."""


def fetch(
    name: str,
    needs: Iterable[str],
    cache: Path,
    progress: Progress | None = None,
    mirror: str | None = None,
    timeout: float = 20.0,
) -> dict[str, Path]:
    """Download every needed file into the cache and return the paths.

    ``mirror``, or ``$HARNESS_MIRROR``, replaces the folder of every published address. ``progress`` is called with
    file name, bytes so far and total bytes or ``None``. ``timeout`` in seconds is for one read. The hashes of the
    first download are recorded in the user's own manifest. Raises FetchError.
    """
    entry, folder, needs = manifest().get(name, {}), dataset_folder(name, cache), tuple(needs)
    if not entry.get("downloads"):
        raise FetchError(f"no address is known for {name}: put {', '.join(needs)} into a folder of $HARNESS_DATA")
    mirror = mirror or os.environ.get("HARNESS_MIRROR")
    with _locked(folder):
        for url in entry["downloads"]:
            file = url.rsplit("/", 1)[1]
            contents = needs if file.endswith(".zip") else (file,)
            if not all((folder / need).is_file() for need in contents):
                address = f"{mirror.rstrip('/')}/{file}" if mirror else url
                download(address, folder / f"{file}.part", entry.get("sha256", {}).get(file), progress, timeout)
                _place(folder / f"{file}.part", folder, contents)
        missing = [need for need in needs if not (folder / need).is_file()]
        if missing:
            raise FetchError(
                f"{name}: the downloaded files lack {', '.join(missing)}, the address may be outdated: "
                f"put them into a folder of $HARNESS_DATA"
            )
        files = {need: folder / need for need in needs}
        record_first_use(cache, name, {need: file_sha256(path) for need, path in files.items()}, entry["downloads"])
    return files


def _place(part: Path, folder: Path, contents: tuple[str, ...]) -> None:
    """Rename a finished download to its only file, or unpack its files into ``folder``."""
    if part.name.endswith(".zip.part"):
        unpack(part, folder, contents)
        part.unlink()
    else:
        part.replace(folder / contents[0])


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, so that one process at a time downloads into it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def download(url: str, part: Path, sha256: str | None, progress: Progress | None, timeout: float) -> None:
    """Complete ``part`` from ``url``, resuming at its end; retries truncated transfers, then raises FetchError."""
    if not url.startswith(("https://", "http://")):
        raise FetchError(f"{url} is refused: only https and http addresses are fetched: name such a mirror")
    for attempt in range(ATTEMPTS):
        try:
            expected = _transfer(url, part, progress, timeout)
        except (OSError, HTTPException) as error:
            if isinstance(error, OSError) and error.errno in DISK_FULL:
                raise
            if isinstance(error, urllib.error.HTTPError) or attempt == ATTEMPTS - 1 or not part.exists():
                raise FetchError(
                    f"{url} cannot be fetched ({error}): try again, or name another server in $HARNESS_MIRROR"
                ) from error
            continue
        size = part.stat().st_size
        if expected is None or size == expected:
            break
        if size > expected:
            part.unlink()
    else:
        size = part.stat().st_size if part.exists() else 0
        raise FetchError(f"{url} was truncated at {size} of {expected} bytes: run the same command again to resume")
    if sha256 and (actual := file_sha256(part)) != sha256:
        part.unlink()
        raise FetchError(f"{url} has sha256 {actual}, but {sha256} was published: it is deleted; check the mirror")


def _transfer(url: str, part: Path, progress: Progress | None, timeout: float) -> int | None:
    """Append the missing bytes of a file; return its full size, ``None`` where the server does not give it."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "gnn-harness", "Accept-Encoding": "identity"}
    request = urllib.request.Request(url, headers=headers | ({"Range": f"bytes={start}-"} if start else {}))
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        size = error.headers.get("Content-Range", "").rpartition("/")[2]
        if error.code != 416 or not start:
            raise
        if size.isdigit():
            return int(size)
        part.unlink()  # nothing tells whether it is complete
        return _transfer(url, part, progress, timeout)
    with response:
        start = start if response.status == 206 else 0
        total = _full_size(response.headers, start)
        block = response.read(BLOCK)
        if _is_html(response.headers, block if start == 0 else b""):
            raise FetchError(f"{url} returned an HTML page, not the file: open it in a browser to see why")
        with part.open("ab" if start else "wb") as file:
            while block:
                file.write(block)
                start += len(block)
                if progress:
                    progress(url.rsplit("/", 1)[1], start, total)
                block = response.read(BLOCK)
    return total


def _full_size(headers: HTTPMessage, start: int) -> int | None:
    length = headers.get("Content-Length")
    return None if length is None else start + int(length)


def _is_html(headers: HTTPMessage, beginning: bytes) -> bool:
    opening = beginning[:256].lstrip().lower()
    return headers.get_content_type() == "text/html" or opening.startswith((b"<!doctype html", b"<html"))


def unpack(archive: Path, folder: Path, needs: Iterable[str]) -> None:
    """Extract only the needed members of a zip to ``folder``; no name inside the archive becomes a path."""
    try:
        with zipfile.ZipFile(archive) as zipped:
            for need in needs:
                members = [member for member in zipped.infolist() if f"/{member.filename}".endswith(f"/{need}")]
                if len(members) != 1:
                    raise FetchError(
                        f"{archive} has {len(members)} members named {need}, but exactly one is allowed: "
                        f"delete it and run the same command again, or check the mirror"
                    )
                _extract(zipped, members[0], folder / need)
    except FetchError:
        raise
    except DAMAGED as error:
        archive.unlink()
        raise FetchError(
            f"{archive} is no complete zip file ({error}): it is deleted; run the same command again"
        ) from error


def _extract(zipped: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary, zipped.open(member) as source, temporary.open("wb") as target:
        shutil.copyfileobj(source, target, BLOCK)
