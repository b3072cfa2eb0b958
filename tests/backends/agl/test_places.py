"""Outputs and inputs on another file system than this machine's: whole or absent, refused before work begins."""

import errno
import re
import tempfile
from pathlib import Path
from typing import ClassVar

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from backends.agl.flat import __main__ as flat
from backends.agl.infer import __main__ as infer
from backends.agl.train import __main__ as train
from backends.places import delivered, fetched, get_folder, put_folder, put_text, remove, written
from tests.backends.agl.chain import IDS, scores_of, tables


class DeniedFileSystem(MemoryFileSystem):
    """Reads and never writes."""

    protocol = "denied"
    store: ClassVar[dict] = {}

    def pipe_file(self, path, value, mode="overwrite", **options):
        raise PermissionError(13, "Permission denied", path)


class FullFileSystem(MemoryFileSystem):
    """Takes some files, then no more."""

    protocol = "full"
    store: ClassVar[dict] = {}
    room = 3

    def put_file(self, lpath, rpath, **options):
        FullFileSystem.room -= 1
        if FullFileSystem.room < 0:
            raise OSError(28, "No space left on device")
        super().put_file(lpath, rpath, **options)


class KeylessFileSystem(MemoryFileSystem):
    """Fails as S3 does without credentials, by an error of its own kind."""

    protocol = "keyless"
    store: ClassVar[dict] = {}

    def exists(self, path, **options):
        raise LookupError("Unable to locate credentials")


class ForbiddenFileSystem(MemoryFileSystem):
    """Denies looking, as S3 does, by an error without a number."""

    protocol = "forbidden"
    store: ClassVar[dict] = {}

    def exists(self, path, **options):
        raise PermissionError("Forbidden")


class OneFolderFileSystem(MemoryFileSystem):
    """Lets a user write inside of one folder, as a policy of S3 may say."""

    protocol = "one-folder"
    store: ClassVar[dict] = {}

    def pipe_file(self, path, value, mode="overwrite", **options):
        if "/flat/" not in path:
            raise PermissionError(13, "Permission denied", path)
        super().pipe_file(path, value, mode, **options)


class FoldersFileSystem(MemoryFileSystem):
    """Writes into folders that are there, as SFTP does; an upload makes them."""

    protocol = "folders"
    store: ClassVar[dict] = {}

    def pipe_file(self, path, value, mode="overwrite", **options):
        if not self.isdir(self._parent(path)):
            raise FileNotFoundError(2, "No such file or directory", path)
        super().pipe_file(path, value, mode, **options)


FILE_SYSTEMS = (
    DeniedFileSystem,
    FullFileSystem,
    KeylessFileSystem,
    ForbiddenFileSystem,
    OneFolderFileSystem,
    FoldersFileSystem,
)
for file_system in FILE_SYSTEMS:
    fsspec.register_implementation(file_system.protocol, file_system, clobber=True)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """A folder of temporary files for each test, in which nothing may stay."""
    (folder := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_training_on_the_graph_that_was_kept_reads_it_from_another_file_system(tmp_path, own_folder):
    place = "memory://users/with-graph"
    read = [*tables(tmp_path), "-h", "2", "--split", "0.8,0.1,0.1", "--keep-graph", "-o", f"{place}/flat"]
    assert flat.main(read) == 0
    for source in ("graph", "shards"):
        model = ["-m", "gcn", "-i", f"{place}/flat", "-o", f"{place}/{source}.safetensors"]
        assert train.main([*model, "-c", "epochs=1", "hidden=4", f"source={source}"]) == 0
    assert not list(own_folder.iterdir())


def test_the_chain_runs_on_another_file_system(tmp_path, own_folder, capsys):
    files, place = tables(tmp_path), "memory://users/agl"
    read = [*files, "-h", "2", "-s", "uniform(3)", "--split", "0.8,0.1,0.1", "--shard-records", "9"]
    assert flat.main([*read, "-o", f"{place}/flat"]) == 0
    assert f": {place}/flat" in capsys.readouterr().out
    model = f"{place}/model.safetensors"
    assert train.main(["-m", "gcn", "-i", f"{place}/flat", "-o", model, "-c", "epochs=1", "hidden=4"]) == 0
    for name, source in (("tables", files), ("shards", ["-i", f"{place}/flat"])):
        assert infer.main(["-m", model, *source, "-o", f"{place}/{name}"]) == 0
        assert f"{place}/{name}/scores.npy" in capsys.readouterr().out
    assert flat.main([*read, "-o", f"{place}/flat"]) == 2
    assert f"{place}/flat exists" in capsys.readouterr().err
    with fetched(f"{place}/tables") as everyone, fetched(f"{place}/shards") as some:
        whole, targets = scores_of(everyone), scores_of(some)
    assert all(np.allclose(whole[node], score, atol=1e-5) for node, score in targets.items())
    (tmp_path / "targets.csv").write_text(f"id\n{IDS[7]}\n")
    np.save(tmp_path / "targets.npy", np.array([IDS[7]]))
    for name in ("targets.csv", "targets.npy"):
        fsspec.filesystem("memory").put_file(str(tmp_path / name), f"/users/{name}")
        assert infer.main(["-m", model, *files, "-t", f"memory://users/{name}", "-o", f"{place}/{name}"]) == 0
        with fetched(f"{place}/{name}") as one:
            assert [*scores_of(one)] == [IDS[7]]
    assert not list(own_folder.iterdir())


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("denied://bucket/flat", "denied://bucket/flat cannot be written .*Permission denied.*choose a place"),
        ("nowhere://bucket/flat", "nowhere://bucket/flat: Protocol not known"),
        ("keyless://bucket/flat", r"keyless://bucket/flat cannot be reached \(LookupError: Unable to .*\): see that"),
        (
            "forbidden://bucket/flat",
            r"forbidden://bucket/flat cannot be reached \(PermissionError: Forbid.*\): see that",
        ),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_tables_are_read(place, message, tmp_path, own_folder, capsys):
    assert flat.main([*tables(tmp_path), "-h", "1", "--targets", "all", "-o", place]) in (1, 2)
    assert re.search(message, capsys.readouterr().err)
    assert not list(own_folder.iterdir())


def test_outputs_and_options_that_are_refused_fetch_nothing(tmp_path, own_folder, capsys):
    """What they would read is not there, which would be said if it were looked for first."""
    (tmp_path / "out").mkdir()
    for name in ("out/facts.json", "out.safetensors"):
        (tmp_path / name).touch()
    place, model = "memory://unread/flat", ["-m", "memory://unread/model.safetensors"]
    for module, arguments, message in (
        (train, ["-m", "gcn", "-i", place, "-o", str(tmp_path / "out.safetensors")], "out.safetensors exists"),
        (train, ["-m", "gat9", "-i", place, "-o", str(tmp_path / "new.safetensors")], "model 'gat9' is unknown"),
        (infer, [*model, "-i", place, "-o", str(tmp_path / "out")], "out holds finished scores"),
        (infer, [*model, "-i", place, "-n", "n", "-e", "e", "-o", str(tmp_path / "new")], "give either tables"),
        (infer, [*model, "-i", place, "-c", "hub_threshold=9", "-o", str(tmp_path / "new")], "does not use -c hub"),
    ):
        assert module.main(arguments) == 2
        assert message in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "out.safetensors", "temporary"]


def test_an_output_that_does_not_fit_is_absent_and_the_next_command_uploads_it(tmp_path, own_folder, capsys):
    command = [*tables(tmp_path), "-h", "1", "--targets", "all", "--shard-records", "9", "-o", "full://bucket/flat"]
    assert flat.main(command) == 1
    assert "full://bucket/flat could not be written whole" in capsys.readouterr().err
    system, place = fsspec.core.url_to_fs("full://bucket/flat")
    assert not system.find(place)
    FullFileSystem.room = 1000
    assert flat.main(command) == 0
    names = [Path(name).name for name in system.find(place)]
    assert "manifest.json" in names and len(names) == 8
    assert not list(own_folder.iterdir())


def commands(tmp_path: Path, place: str):
    """AGL's commands: each module, its arguments, what it reads, its output below a place, and the files of that."""
    read = ["-h", "1", "--split", "0.8,0.1,0.1"]
    shards, model = str(tmp_path / "flat"), str(tmp_path / "model.safetensors")
    (inputs := tmp_path / "tables").mkdir()
    files = tables(inputs)
    assert flat.main([*files, *read, "-o", shards]) == 0
    assert train.main(["-m", "gcn", "-i", shards, "-o", model, "-c", "epochs=1"]) == 0
    return [
        (flat, [*files, *read], inputs, f"{place}/flat", 2),
        (train, ["-m", "gcn", "-i", shards, "-c", "epochs=1"], Path(shards), f"{place}/model.safetensors", 1),
        (infer, ["-m", model, *files], inputs, f"{place}/scores", 3),
    ]


def test_a_result_that_cannot_be_uploaded_stays_and_the_repeated_command_uploads_it(tmp_path, own_folder, capsys):
    """The inputs are gone by then, so that nothing can be computed again."""
    for module, command, source, output, left in commands(tmp_path, "full://users/result"):
        FullFileSystem.room = 0
        assert module.main([*command, "-o", output]) == 1
        copy = Path(capsys.readouterr().err.split("uploads ")[1].strip())
        assert copy.exists() and own_folder in copy.parents
        FullFileSystem.room = 100
        assert module.main([*command, "-o", output, *(["-c", "seed=7"] if module != flat else ["--seed", "7"])]) == 2
        assert f"{copy} is what another command finished for {output}" in capsys.readouterr().err
        source.rename(tmp_path / "away")
        assert module.main([*command, "-o", output]) == 0
        assert "uploaded what was finished before" in capsys.readouterr().out
        (tmp_path / "away").rename(source)
        system, uploaded = fsspec.core.url_to_fs(output)
        assert len(system.find(uploaded)) == left and not list(own_folder.iterdir())


def test_a_kill_after_the_result_and_before_its_upload_loses_nothing(tmp_path, own_folder, monkeypatch, capsys):
    """The inputs are gone by then, so that nothing can be computed again; infer may leave its folder ``work``."""
    last = {flat: "flatten_tables", train: "trained", infer: "write_results"}
    for module, command, source, output, left in commands(tmp_path, "memory://killed"):
        name = last[module]
        with monkeypatch.context() as patch:
            patch.setattr(module, name, ended_after(getattr(module, name)))
            assert module.main([*command, "-o", output]) == 1
        source.rename(tmp_path / "away")
        capsys.readouterr()
        assert module.main([*command, "-o", output]) == 0
        assert "uploaded what was finished before" in capsys.readouterr().out
        (tmp_path / "away").rename(source)
        system, uploaded = fsspec.core.url_to_fs(output)
        assert len(system.find(uploaded)) == left and not list(own_folder.iterdir())


def ended_after(function):
    """The function, and the end of the process after it."""

    def ending(*arguments):
        function(*arguments)
        if function.__name__ == "write_results":
            infer.claimed(arguments[0])
        raise KeyboardInterrupt

    return ending


def write_parts(folder: Path) -> None:
    """A finished folder of two parts."""
    folder.mkdir()
    for name in ("part-0", "part-1", "last"):
        (folder / name).write_text(name)


def test_an_upload_that_a_kill_cuts_short_goes_on_and_is_not_mixed_with_another(own_folder, monkeypatch):
    place, put = "memory://cut/short", MemoryFileSystem.put_file

    def killed(system, source, target, **options):
        if target.endswith("part-1"):
            raise KeyboardInterrupt
        put(system, source, target, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), written(place, "last", "mine") as copy:
        patch.setattr(MemoryFileSystem, "put_file", killed)
        write_parts(copy)
    with pytest.raises(ValueError, match="memory://cut/short holds part-0: delete"), written(place, "last", "another"):
        pass
    with pytest.raises(ValueError, match="short is what another command finished for memory://cut/short"):
        delivered(place, "last", "another")
    put_text(f"{place}/part-2", "of another machine")
    with pytest.raises(ValueError, match="memory://cut/short holds part-2: delete"):
        delivered(place, "last", "mine")
    remove(f"{place}/part-2")
    assert delivered(place, "last", "mine") and not delivered(place, "last", "mine")
    names = [Path(name).name for name in fsspec.filesystem("memory").find("/cut/short")]
    assert names == ["last", "part-0", "part-1"] and not list(own_folder.iterdir())


def test_what_a_kill_leaves_of_a_result_that_is_not_finished_is_not_uploaded(own_folder):
    place = "memory://begun/folder"
    with pytest.raises(KeyboardInterrupt), written(place, "last", "mine") as copy:
        write_parts(copy)
        (copy / "last").unlink()
        raise KeyboardInterrupt
    assert not delivered(place, "last", "mine")
    with written(place, "last", "mine") as copy:
        (copy / "last").touch()
    assert len(fsspec.filesystem("memory").find("/begun/folder")) == 3 and not list(own_folder.iterdir())


def test_a_second_run_for_the_same_place_is_refused_while_the_first_works(own_folder):
    place = "memory://busy/folder"
    with pytest.raises(BlockingIOError, match="another run works in"), written(place, "last", "mine") as copy:
        write_parts(copy)
        delivered(place, "last", "mine")
    assert delivered(place, "last", "mine") and not list(own_folder.iterdir())


@pytest.mark.parametrize("place", ["one-folder://bucket/flat", "folders://home/flat"])
def test_a_place_is_tried_inside_of_its_folder_or_where_that_is_to_be_made(place, own_folder):
    system, folder = fsspec.core.url_to_fs(place)
    system.makedirs(system._parent(folder), exist_ok=True)
    with written(place, "last") as copy:
        write_parts(copy)
    assert len(system.find(folder)) == len(system.store) == 3 and not list(own_folder.iterdir())


def test_what_is_not_there_is_named_and_local_paths_are_used_as_they_are(tmp_path):
    with (
        pytest.raises(ValueError, match="there is nothing at memory://users/nothing"),
        fetched("memory://users/nothing"),
    ):
        pass
    with written(f"file://{tmp_path}/out") as out, fetched(str(tmp_path)) as here:
        assert (out, here) == (tmp_path / "out", tmp_path)


def test_what_another_machine_wrote_meanwhile_stays(tmp_path, own_folder):
    with pytest.raises(ValueError, match="memory://race/out exists"), written("memory://race/out", "facts.json") as out:
        out.mkdir()
        (out / "facts.json").write_text("of this machine")
        put_text("memory://race/out/facts.json", "of another")
    assert fsspec.filesystem("memory").cat("/race/out/facts.json") == b"of another"


def test_an_upload_that_fails_removes_its_own_files_alone(tmp_path, own_folder, monkeypatch):
    monkeypatch.setattr(FullFileSystem, "room", 1)
    system = fsspec.filesystem("full")
    with pytest.raises(OSError, match="could not be written whole"), written("full://bucket/out", "z") as out:
        out.mkdir()
        for name in "abz":
            (out / name).write_text(name)
        monkeypatch.setattr(
            "backends.places._refuse_another", lambda *arguments: system.pipe_file("/bucket/out/z", b"z")
        )
    assert system.find("/bucket") == ["/bucket/out/z"], "which another machine wrote"


def test_a_part_of_a_folder_is_fetched_alone_or_left_there(tmp_path):
    for name in ("graph/graph.json", "part-0.parquet"):
        put_text(f"memory://parts/{name}", name)
    for options, names in (({"only": "graph"}, {"graph"}), ({"without": "graph"}, {"part-0.parquet"})):
        with fetched("memory://parts", **options) as folder:
            assert {path.name for path in folder.iterdir()} == names
    with fetched("memory://parts", only="absent") as folder:
        assert {path.name for path in folder.iterdir()} == {"graph", "part-0.parquet"}


def test_an_error_of_a_file_system_names_the_place_and_stays_what_it_is(tmp_path, own_folder, monkeypatch):
    monkeypatch.setattr(FullFileSystem, "room", 0)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="No space left on device: 'full://bucket/store'") as full:
        put_folder(tmp_path, "full://bucket/store", "file")
    assert full.value.errno == errno.ENOSPC
    with pytest.raises(PermissionError, match=r"Permission denied: 'denied://bucket/text'$"):
        put_text("denied://bucket/text", "text")
    put_text("memory://copied/file", "text")
    (tmp_path / "copy" / "file").mkdir(parents=True)
    with pytest.raises(IsADirectoryError, match=r"'memory://copied' -> '.*copy/file'"):
        get_folder("memory://copied", tmp_path / "copy")
    with pytest.raises(OSError, match="keyless://bucket/model cannot be reached"), fetched("keyless://bucket/model"):
        pass
    assert not list(own_folder.iterdir())
