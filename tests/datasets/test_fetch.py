"""Downloads from a server that truncates, sends HTML or the wrong bytes; archives with members outside their folder."""

import fcntl
import hashlib
import io
import json
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from datasets.fetch import FetchError, download, fetch, unpack
from datasets.hashes import file_sha256
from datasets.manifest import first_uses, manifest, record_first_use, trust
from datasets.paths import dataset_folder
from datasets.registry import DATASETS, load_dataset
from tests.data.layouts import write_ppi
from tests.data.server import Behaviour, serving

CONTENT = bytes(range(256)) * 64
PUBMED = {need: need.encode() * 9 for need in DATASETS["pubmed"].needs}


def zipped(files: dict[str, bytes]) -> bytes:
    zipped_file = io.BytesIO()
    with zipfile.ZipFile(zipped_file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return zipped_file.getvalue()


def test_files_arrive_whole_with_progress_and_are_recorded(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    with serving(Behaviour(PUBMED)) as mirror:
        files = fetch("pubmed", PUBMED, tmp_path, lambda *arguments: seen.append(arguments), mirror)
    assert {need: path.read_bytes() for need, path in files.items()} == PUBMED
    assert ("ind.pubmed.x", len(PUBMED["ind.pubmed.x"]), len(PUBMED["ind.pubmed.x"])) in seen
    entry = json.loads((tmp_path / "manifest.json").read_text())["pubmed"]
    assert entry["sha256"] == {need: hashlib.sha256(content).hexdigest() for need, content in PUBMED.items()}
    assert trust("pubmed", entry["sha256"], tmp_path, downloaded=True) == "first use"
    assert not list(dataset_folder("pubmed", tmp_path).glob("*.part"))


def test_existing_files_are_not_fetched_again(tmp_path: Path) -> None:
    behaviour = Behaviour(PUBMED)
    with serving(behaviour) as mirror:
        fetch("pubmed", PUBMED, tmp_path, mirror=mirror)
        (dataset_folder("pubmed", tmp_path) / "ind.pubmed.ty").unlink()
        behaviour.requests.clear()
        fetch("pubmed", PUBMED, tmp_path, mirror=mirror)
    assert [path for path, _ in behaviour.requests] == ["/ind.pubmed.ty"]


def test_the_mirror_can_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Behaviour(PUBMED)) as mirror:
        monkeypatch.setenv("HARNESS_MIRROR", mirror + "/copies/")
        assert len(fetch("pubmed", PUBMED, tmp_path)) == len(PUBMED)


@pytest.mark.parametrize("size", [1, 1000, len(CONTENT) - 1, len(CONTENT)])
def test_a_download_goes_on_where_it_ended(tmp_path: Path, size: int) -> None:
    part, behaviour = tmp_path / "file.part", Behaviour({"file": CONTENT})
    part.write_bytes(CONTENT[:size])
    with serving(behaviour) as mirror:
        download(f"{mirror}/file", part, hashlib.sha256(CONTENT).hexdigest(), None, 5)
    assert part.read_bytes() == CONTENT
    assert behaviour.requests == [("/file", f"bytes={size}-")]


@pytest.mark.parametrize("size", [0, 1000, len(CONTENT) + 5])
def test_a_server_without_ranges_sends_everything_again(tmp_path: Path, size: int) -> None:
    part = tmp_path / "file.part"
    part.write_bytes(b"x" * size)
    with serving(Behaviour({"file": CONTENT}, ranges=False)) as mirror:
        download(f"{mirror}/file", part, None, None, 5)
    assert part.read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_thrown_away(tmp_path: Path) -> None:
    part = tmp_path / "file.part"
    part.write_bytes(b"x" * (len(CONTENT) + 5))
    with serving(Behaviour({"file": CONTENT})) as mirror:
        download(f"{mirror}/file", part, None, None, 5)
    assert part.read_bytes() == CONTENT


def test_a_truncated_transfer_is_resumed(tmp_path: Path) -> None:
    part, behaviour = tmp_path / "file.part", Behaviour({"file": CONTENT}, truncate_to=len(CONTENT) // 2)
    with serving(behaviour) as mirror:
        download(f"{mirror}/file", part, None, None, 5)
    assert part.read_bytes() == CONTENT
    assert [requested for _, requested in behaviour.requests] == [None, f"bytes={len(CONTENT) // 2}-"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_that_stays_truncated_is_refused(tmp_path: Path, ranges: bool) -> None:
    behaviour = Behaviour(PUBMED, truncate_to=5, ranges=ranges)
    with serving(behaviour) as mirror, pytest.raises(FetchError, match=r"truncated at \d+ of \d+ bytes.*resume"):
        fetch("pubmed", PUBMED, tmp_path, mirror=mirror)
    assert not (dataset_folder("pubmed", tmp_path) / "ind.pubmed.x").exists()
    assert not (tmp_path / "manifest.json").exists()


@pytest.mark.parametrize(
    ("content_type", "content"),
    [("text/html; charset=utf-8", b"sign in"), ("application/octet-stream", b"\n <!DOCTYPE html><html>")],
)
def test_a_web_page_is_refused(tmp_path: Path, content_type: str, content: bytes) -> None:
    behaviour = Behaviour(dict.fromkeys(PUBMED, content), content_type=content_type)
    with serving(behaviour) as mirror, pytest.raises(FetchError, match="HTML page"):
        fetch("pubmed", PUBMED, tmp_path, mirror=mirror)
    assert list(dataset_folder("pubmed", tmp_path).glob("ind.*")) == []


def test_wrong_bytes_are_refused_and_deleted(tmp_path: Path) -> None:
    needs = DATASETS["cora"].needs
    published = manifest()["cora"]["sha256"]["ind.cora.x"]
    with (
        serving(Behaviour(dict.fromkeys(needs, CONTENT))) as mirror,
        pytest.raises(FetchError, match=f"{hashlib.sha256(CONTENT).hexdigest()}, but {published}"),
    ):
        fetch("cora", needs, tmp_path, mirror=mirror)
    assert list(dataset_folder("cora", tmp_path).glob("ind.*")) == []


def test_a_second_download_must_equal_the_first(tmp_path: Path) -> None:
    with serving(Behaviour(PUBMED)) as mirror:
        fetch("pubmed", PUBMED, tmp_path, mirror=mirror)
    (dataset_folder("pubmed", tmp_path) / "ind.pubmed.y").unlink()
    changed = PUBMED | {"ind.pubmed.y": b"other"}
    with serving(Behaviour(changed)) as mirror, pytest.raises(ValueError, match=r"ind\.pubmed\.y has sha256"):
        fetch("pubmed", PUBMED, tmp_path, mirror=mirror)


def test_two_data_sets_downloaded_at_once_are_both_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = first_uses

    def read_slowly(cache: Path) -> dict[str, dict[str, Any]]:
        entries = read(cache)
        time.sleep(0.1)
        return entries

    monkeypatch.setattr("datasets.manifest.first_uses", read_slowly)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: record_first_use(tmp_path, name, {"file": "00"}, []), "abcd"))
    assert sorted(first_uses(tmp_path)) == ["a", "b", "c", "d"]


def test_a_damaged_download_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    with serving(Behaviour(PUBMED)) as mirror:
        files = fetch("pubmed", PUBMED, tmp_path, mirror=mirror)
    files["ind.pubmed.y"].write_bytes(b"other")
    hashes = {need: file_sha256(path) for need, path in files.items()}
    assert trust("pubmed", hashes, tmp_path, downloaded=False) == "local"
    with pytest.raises(ValueError, match=r"ind\.pubmed\.y .* python -m harness fetch dataset=pubmed"):
        trust("pubmed", hashes, tmp_path, downloaded=True)


@pytest.mark.parametrize("lengths", [True, False])
def test_an_archive_is_unpacked_to_the_needed_files_only(tmp_path: Path, lengths: bool) -> None:
    source, cache = tmp_path / "source", tmp_path / "cache"
    source.mkdir()
    members = {f"ppi/{name}": path.read_bytes() for name, path in write_ppi(source).items()}
    members |= {"__MACOSX/ppi/._train_graph.json": b"", "ppi/readme": b"hello", "../../escaped": b"bad"}
    with serving(Behaviour({"ppi.zip": zipped(members)}, lengths=lengths)) as mirror:
        files = fetch("ppi", DATASETS["ppi"].needs, cache, mirror=mirror)
    assert all(path.read_bytes() == (source / name).read_bytes() for name, path in files.items())
    names = {path.name for path in dataset_folder("ppi", cache).iterdir()}
    assert names == set(DATASETS["ppi"].needs) | {".lock"}
    assert not list(tmp_path.rglob("escaped"))


def test_a_truncated_archive_without_a_length_is_refused(tmp_path: Path) -> None:
    whole = zipped({"ppi/train_graph.json": CONTENT})
    behaviour = Behaviour({"ppi.zip": whole[: len(whole) // 2]}, lengths=False)
    with serving(behaviour) as mirror, pytest.raises(FetchError, match="no complete zip file"):
        fetch("ppi", DATASETS["ppi"].needs, tmp_path, mirror=mirror)
    assert {path.name for path in dataset_folder("ppi", tmp_path).iterdir()} == {".lock"}


@pytest.mark.parametrize("place", ["data", "method"])
def test_an_archive_with_damaged_members_is_refused_and_deleted(tmp_path: Path, place: str) -> None:
    content = zipped({"ppi/train_graph.json": CONTENT})
    directory = content.rindex(b"PK\x01\x02")
    at = {"data": 30 + len("ppi/train_graph.json"), "method": directory + 10}[place]
    damaged = content[:at] + b"\xff" * 2 + content[at + 2 :]
    with serving(Behaviour({"ppi.zip": damaged})) as mirror, pytest.raises(FetchError, match="it is deleted"):
        fetch("ppi", ["train_graph.json"], tmp_path, mirror=mirror)
    assert {path.name for path in dataset_folder("ppi", tmp_path).iterdir()} == {".lock"}


@pytest.mark.parametrize("names", [[], ["a/edge.csv", "b/edge.csv"]])
def test_an_archive_must_hold_each_file_once(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "names.zip"
    path.write_bytes(zipped(dict.fromkeys(names, b"1")))
    with pytest.raises(FetchError, match=rf"{len(names)} members named edge\.csv"):
        unpack(path, tmp_path / "out", ["edge.csv"])


def test_errors_of_the_server_name_the_address(tmp_path: Path) -> None:
    with serving(Behaviour({})) as mirror, pytest.raises(FetchError, match=r"ind\.pubmed\.x cannot be fetched.*404"):
        fetch("pubmed", PUBMED, tmp_path, mirror=mirror)


def test_other_schemes_and_unknown_addresses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="only https and http"):
        download("file:///etc/hostname", tmp_path / "x.part", None, None, 5)
    with pytest.raises(FetchError, match=r"no address is known for cnr_2000.*cnr-2000\.npz.*HARNESS_DATA"):
        fetch("cnr_2000", ["cnr-2000.npz"], tmp_path)


def test_one_process_at_a_time_fills_a_folder(tmp_path: Path) -> None:
    folder, behaviour = dataset_folder("pubmed", tmp_path), Behaviour(PUBMED)
    folder.mkdir(parents=True)
    with serving(behaviour) as mirror, (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(target=fetch, args=("pubmed", PUBMED, tmp_path), kwargs={"mirror": mirror})
        other.start()
        other.join(0.3)
        assert behaviour.requests == []
        fcntl.flock(lock, fcntl.LOCK_UN)
        other.join(30)
    assert sorted(path for path, _ in behaviour.requests) == sorted(f"/{need}" for need in PUBMED)


def test_a_first_download_that_cannot_be_read_may_be_replaced(tmp_path: Path) -> None:
    with serving(Behaviour(PUBMED)) as mirror:
        fetch("pubmed", PUBMED, tmp_path, mirror=mirror)
    with pytest.raises(ValueError, match="cannot be read"):
        load_dataset("pubmed", {}, tmp_path)
    assert "pubmed" not in first_uses(tmp_path)


@pytest.mark.parametrize("contents", ["", "[]", "{"], ids=["empty", "list", "cut"])
def test_a_damaged_manifest_is_named(tmp_path: Path, contents: str) -> None:
    (tmp_path / "manifest.json").write_text(contents)
    with pytest.raises(ValueError, match=r"manifest\.json is damaged .*: delete it"):
        first_uses(tmp_path)
