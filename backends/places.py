"""Files and folders on any file system that fsspec opens: written here and then uploaded, fetched before they are read.

A local path is used as it is. A remote output is whole or absent: its last file says that it is complete. What was
computed for it stays here until it is there. Whatever a file system raises becomes an OSError that names the place.
"""

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from backends.folder_lock import locked

MIRRORED = ".complete"
COMMAND = ".command"  # names the command whose result is computed beside it, to be uploaded
PROBE = ".writing"  # tells whether a place can be written


def is_remote(path: str) -> bool:
    """Whether a path names a file system other than this machine's."""
    return "://" in path and not path.startswith("file://")


def local_path(path: str) -> Path:
    """The path of a local file or folder, also of ``file://`` ones."""
    return Path(path.removeprefix("file://"))


@contextmanager
def written(path: str, last: str | None = None, command: str = "") -> Iterator[Path]:
    """Yield a local path to write to; a remote one is uploaded afterwards, the file ``last`` of a folder at the end.

    What a remote output is computed from lies in a folder of its name, where a repeated command resumes. Raises OSError
    for a place that cannot be written, before anything is computed, or that another run works for, and ValueError for
    one that exists. A result that was not uploaded stays for ``delivered``, as that of ``command``.
    """
    if not is_remote(path):
        yield local_path(path)
        return
    system, place = _file_system(path)
    _refuse_another(system, place, path, last)
    _try_writing(system, place, path, last)
    work = _work_of(path)
    with locked(work):
        work.mkdir(exist_ok=True)
        copy = work / Path(place).name
        try:
            (work / COMMAND).write_text(command)
            yield copy
            if copy.exists():
                _refuse_another(system, place, path, last)  # another machine may have written there meanwhile
                _deliver(system, copy, place, path, last)
        finally:
            if work.is_dir() and [*work.iterdir()] == [work / COMMAND]:
                shutil.rmtree(work)


def delivered(path: str, last: str | None, command: str, scratch: str | None = None) -> bool:
    """Upload the result that an earlier run of ``command`` finished and did not upload; whether there was one.

    It is finished where its file ``last`` is there, or the one file that it is. ``scratch`` is a folder in it that the
    run worked in, and no part of it. Raises OSError as ``written`` does, and ValueError for the result of another
    command, or where something else lies at the place.
    """
    if not is_remote(path) or not (work := _work_of(path)).is_dir():
        return False
    with locked(work):
        system, place = _file_system(path)
        copy, stated = work / Path(place).name, work / COMMAND
        if not (copy if last is None else copy / last).is_file():
            return False
        if not stated.is_file() or stated.read_text() != command:
            raise ValueError(f"{copy} is what another command finished for {path}: repeat that one, or delete {work}")
        if scratch is not None:
            with locked(copy / scratch):  # removes the lock too that a killed run left
                shutil.rmtree(copy / scratch, ignore_errors=True)
        _refuse_another(system, place, path, last, () if last is None else [file.name for file in copy.iterdir()])
        _deliver(system, copy, place, path, last)
    return True


@contextmanager
def fetched(path: str, only: str = "", without: str = "") -> Iterator[Path]:
    """Yield the local path of a file or folder; a remote one is copied here for as long as it is read.

    Of a remote folder, its folder ``only`` is copied alone where it is there, and its folder ``without`` never. Raises
    ValueError where there is nothing.
    """
    if not is_remote(path):
        yield local_path(path)
        return
    system, place = _file_system(path)
    with _reaching(path):
        exists, is_folder = system.exists(place), system.isdir(place)
    if not exists:
        raise ValueError(f"there is nothing at {path}: name the folder or file that an earlier command wrote")
    with tempfile.TemporaryDirectory(prefix="agl-") as folder:
        copy = Path(folder) / Path(place).name
        with _reaching(path):
            if not is_folder:
                system.get_file(place, str(copy))
            elif only and system.exists(f"{place}/{only}"):
                _get(system, f"{place}/{only}", copy / only)
            else:
                _get(system, place, copy, without)
        yield copy


def put_folder(folder: Path, place: str, pattern: str = "**/*") -> None:
    """Copy the files of a folder to a place on any file system; raises OSError."""
    system, root = _file_system(place)
    with _reaching(place):
        for file in sorted(file for file in folder.glob(pattern) if file.is_file()):
            target = f"{root}/{file.relative_to(folder).as_posix()}"
            system.makedirs(target.rpartition("/")[0], exist_ok=True)
            system.put_file(str(file), target)


def get_folder(place: str, folder: Path) -> None:
    """Copy all files of a place into a folder of this machine."""
    system, root = _file_system(place)
    with _reaching(place):
        _get(system, root, folder)


def _get(system: Any, root: str, folder: Path, without: str = "") -> None:
    for source in system.find(root):
        name = source.removeprefix(root.rstrip("/") + "/")
        if without and name.startswith(f"{without}/"):
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        system.get_file(source, str(target))


def get_files(place: str, names: list[str], folder: Path) -> Path:
    """Copy some files of a place into a folder, under their names; returns the folder."""
    system, root = _file_system(place)
    with _reaching(place):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            system.get_file(f"{root}/{name}", str(folder / name))
    return folder


def put_text(place: str, text: str) -> None:
    """Write a small file at a place."""
    system, path = _file_system(place)
    with _reaching(place):
        system.pipe_file(path, text.encode())


def holds(place: str) -> bool:
    """Whether there is a file or folder at a place."""
    system, root = _file_system(place)
    with _reaching(place):
        return bool(system.exists(root))


def remove(place: str) -> None:
    """Remove what is at a place, if there is anything."""
    system, root = _file_system(place)
    with _reaching(place):
        if system.exists(root):
            system.rm(root, recursive=True)


def mirrored(place: str) -> Path:
    """The local path of a folder: itself, or of a URL a copy that all processes of a machine share."""
    if "://" not in place:
        return Path(place)
    copy = _mirror(place)
    with copy.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (copy / MIRRORED).is_file():
            shutil.rmtree(copy, ignore_errors=True)
            get_folder(place, copy)
            (copy / MIRRORED).touch()
    return copy


def remove_mirror(place: str) -> None:
    """Remove this machine's copy of a folder; processes that have mapped its files keep them."""
    copy = _mirror(place)
    shutil.rmtree(copy, ignore_errors=True)
    copy.with_suffix(".lock").unlink(missing_ok=True)


def _mirror(place: str) -> Path:
    return Path(tempfile.gettempdir()) / f"agl-mirror-{hashlib.sha256(place.encode()).hexdigest()[:16]}"


def _file_system(path: str) -> tuple[Any, str]:
    try:
        system, place = import_module("fsspec").core.url_to_fs(path)
    except (ImportError, ValueError) as error:  # a file system that is unknown or whose package is not installed
        raise ValueError(f"{path}: {error}; give a local path or one that fsspec opens") from error
    except Exception as error:
        raise _unreachable(path, error) from error
    return system, str(place).rstrip("/")


@contextmanager
def _reaching(path: str) -> Iterator[None]:
    """Name the place that a file system fails at; each has errors of its own."""
    try:
        yield
    except Exception as error:
        raise _unreachable(path, error) from error


def _unreachable(path: str, error: Exception) -> OSError:
    """An OSError that names a place; it has the number of the error, as that of a full disk, and its file."""
    if isinstance(error, OSError) and error.errno is not None:
        files = (path,) if error.filename in (None, path) else (path, None, error.filename)
        return OSError(error.errno, error.strerror, *files)
    advice = "see that its name is right, that its server answers, and that this user may read and write there"
    return OSError(f"{path} cannot be reached ({type(error).__name__}: {error}): {advice}")


def _work_of(path: str) -> Path:
    return Path(tempfile.gettempdir()) / f"agl-{hashlib.sha256(path.rstrip('/').encode()).hexdigest()[:16]}"


def _refuse_another(system: Any, place: str, path: str, last: str | None, own: Collection[str] = ()) -> None:
    """Raise ValueError for a place that is taken: a folder also by what an upload left, but for ``own`` names."""
    with _reaching(path):
        exists = system.exists(place if last is None else f"{place}/{last}")
        others: set[str] = set() if last is None else _names_in(system, place).difference(own)
    if exists:
        raise ValueError(f"{path} exists: delete it or choose another name")
    if others:
        raise ValueError(f"{path} holds {min(others)}: delete what lies there, or choose another name")


def _names_in(system: Any, place: str) -> set[str]:
    """The names of the files and folders in a folder, which need not be there."""
    try:
        entries = system.ls(place, detail=False)
    except FileNotFoundError:
        return set()
    inside = {entry.rstrip("/") for entry in entries} - {place}  # object stores may list the folder itself
    return {entry.rpartition("/")[2] for entry in inside} - {PROBE}


def _try_writing(system: Any, place: str, path: str, last: str | None) -> None:
    """Raise OSError where a file cannot be written: inside of a folder, as its own files will be."""
    beside, inside = f"{place}{PROBE}", f"{place}/{PROBE}"
    try:
        try:
            _write_once(system, beside if last is None else inside)
        except FileNotFoundError:  # a file system that makes the folder with the first upload
            _write_once(system, beside)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise OSError(f"{path} cannot be written ({reason}): choose a place that this user may write") from error


def _write_once(system: Any, probe: str) -> None:
    system.pipe_file(probe, b"written to see whether this place can be")
    system.rm_file(probe)


def _deliver(system: Any, copy: Path, place: str, path: str, last: str | None) -> None:
    """Upload a result, then remove it with all that it was computed from."""
    _upload(system, copy, place, path, last)
    with tempfile.TemporaryDirectory(prefix="agl-") as removed:  # moved at once: a part of it would look like a result
        copy.parent.rename(Path(removed) / copy.name)


def _upload(system: Any, copy: Path, place: str, path: str, last: str | None) -> None:
    files = [copy] if copy.is_file() else sorted(file for file in copy.rglob("*") if file.is_file())
    files.sort(key=lambda file: file.name == last and file.parent == copy)
    names = [place if file == copy else f"{place}/{file.relative_to(copy).as_posix()}" for file in files]
    begun: list[str] = []
    try:
        for file, name in zip(files, names, strict=True):
            begun.append(name)
            system.put_file(str(file), name)
    except Exception as error:  # each file system has errors of its own
        with suppress(Exception):
            for name in filter(system.exists, begun):
                system.rm_file(name)
        advice = f"make room or wait, and repeat the command, which uploads {copy}"
        raise OSError(f"{path} could not be written whole ({error}): {advice}") from error
