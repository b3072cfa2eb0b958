"""A GraphFlat run as a folder: written atomically, resumable, read back in a seeded order."""

import json
import shutil
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from backends.agl.cluster import Cluster
from backends.agl.flat import drivers, shards
from backends.agl.flat import job as jobs
from backends.agl.flat.job import FlattenJob, NoRoom, flatten_to, nodes_to_flatten
from backends.agl.flat.reader import GraphFeatureReader, ShardError
from backends.agl.flat.sampling_strategy import StrategyError, parse_sampling
from backends.agl.flat.shards import LAYOUT, features_path
from backends.agl.flat.source import Source
from backends.places import put_folder, remove
from backends.progress import silent
from datasets.features import dense_features, in_layout
from tests.graphs import awkward_graph


def flat(folder, graph=None, targets="all", text="uniform(4);uniform(2)", progress=silent, **options):
    graph = graph or awkward_graph(2, weighted=True)
    job = FlattenJob(parse_sampling(text, 2), **{"shard_records": 16} | options)
    return flatten_to(folder, graph, nodes_to_flatten(graph, targets), job, progress)


def everything(folder):
    reader = GraphFeatureReader(folder)
    return [bytes(string) for number in range(len(reader.shards)) for string in reader.strings(number).split()]


@pytest.mark.parametrize("embed", [True, False])
def test_what_was_flattened_is_read_back(embed, tmp_path):
    graph = awkward_graph(2, weighted=True)
    manifest = flat(tmp_path / "out", graph, embed=embed)
    reader = GraphFeatureReader(tmp_path / "out")
    seen = []
    for records in reader.batches(5, seed=3):
        assert len(records) <= 5
        assert np.array_equal(records.features, graph.features[records.ids])
        seen += records.targets.tolist()
    assert sorted(seen) == list(range(40)) and seen != sorted(seen) and len(reader) == 40
    assert seen == [id for records in reader.batches(5, seed=3) for id in records.targets.tolist()]
    assert seen != [id for records in reader.batches(5, seed=4) for id in records.targets.tolist()]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    stored_bytes = sum(map(len, everything(tmp_path / "out")))
    sizes = manifest["sizes"]
    once = sizes["shared_bytes"] - sum(_distinct(reader)) * (8 + 4 * 6)
    assert stored_bytes == (sizes["embedded_bytes"] if embed else once)
    assert sizes["file_bytes"] == sum(p.stat().st_size for p in (tmp_path / "out").glob("*.parquet"))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_features_stored_once_are_written_some_rows_at_a_time(layout, tmp_path, monkeypatch):
    graph = awkward_graph(2, weighted=True)
    graph = replace(graph, features=in_layout(graph.features, layout))
    monkeypatch.setattr(shards, "FEATURE_BYTES", 100)
    flat(tmp_path / "out", graph, embed=False)
    for records in GraphFeatureReader(tmp_path / "out").batches(5):
        expected = graph.features[records.ids]
        assert np.array_equal(*(dense_features(rows, "a test") for rows in (records.features, expected)))


def _distinct(reader):
    from backends.agl.graphfeature import decode

    return [len(np.unique(decode(reader.strings(number)).ids)) for number in range(len(reader.shards))]


def test_targets_are_the_labelled_ones_of_splits(tmp_path):
    graph = awkward_graph(2)
    assert 3 not in nodes_to_flatten(graph) and len(nodes_to_flatten(graph)) == 39
    flat(tmp_path / "out", graph, "validation")
    records = next(GraphFeatureReader(tmp_path / "out").batches(100))
    assert sorted(records.targets.tolist()) == graph.nodes_of("validation").tolist() and set(records.split) == {1}
    with pytest.raises(ValueError, match="allowed are all, labelled, train"):
        nodes_to_flatten(graph, "some")


def test_a_folder_that_exists_stays_as_it_is(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("keep")
    with pytest.raises(FileExistsError, match="delete it or choose another"):
        flat(tmp_path / "out")
    assert (tmp_path / "out" / "mine").read_text() == "keep"


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    flat(tmp_path / "whole")
    written, stamps = interrupted_after_two_shards(tmp_path)
    assert len(written) == 2 and not (tmp_path / "out").exists()
    with pytest.raises(ShardError, match="did not finish"):
        GraphFeatureReader(tmp_path / ".out.partial" / "shards")
    flat(tmp_path / "out")
    assert [(tmp_path / "out" / path.name).stat().st_mtime_ns for path in written] == stamps
    assert everything(tmp_path / "out") == everything(tmp_path / "whole")
    assert (tmp_path / "out" / "manifest.json").read_text() == (tmp_path / "whole" / "manifest.json").read_text()


def with_free_bytes(monkeypatch, count):
    monkeypatch.setattr(jobs.shutil, "disk_usage", lambda folder: namedtuple("Usage", "free")(count))


def interrupted_after_two_shards(tmp_path):
    """Run until two of three shards are written; return their paths and the times when they were."""

    def interrupt(step, done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flat(tmp_path / "out", progress=interrupt)
    written = sorted((tmp_path / ".out.partial" / "shards").glob("*.parquet"))
    return written, [path.stat().st_mtime_ns for path in written]


def test_a_repeated_run_needs_room_for_the_remaining_shards_alone_and_keeps_the_finished_ones(tmp_path, monkeypatch):
    estimated_bytes = flat(tmp_path / "whole")["estimated_bytes"]
    written, stamps = interrupted_after_two_shards(tmp_path)
    remaining_bytes = estimated_bytes - sum(path.stat().st_size for path in written)
    with_free_bytes(monkeypatch, remaining_bytes - 1)
    with pytest.raises(NoRoom, match="or free some space and repeat the command"):
        flat(tmp_path / "out")
    with_free_bytes(monkeypatch, remaining_bytes)
    flat(tmp_path / "out")
    assert [(tmp_path / "out" / path.name).stat().st_mtime_ns for path in written] == stamps


def test_a_failure_removes_no_finished_shard(tmp_path, monkeypatch):
    write_shard = jobs.write_shard

    def fail_at_the_last(folder, number, *rest):
        if number == 2:
            raise ValueError("the GraphFeature of node 7 takes 3 GiB")
        return write_shard(folder, number, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "write_shard", fail_at_the_last)
        with pytest.raises(ValueError, match="takes 3 GiB"):
            flat(tmp_path / "out")
    written = sorted((tmp_path / ".out.partial" / "shards").glob("*.parquet"))
    stamps = [path.stat().st_mtime_ns for path in written]
    assert len(written) == 2
    flat(tmp_path / "out")
    assert [(tmp_path / "out" / path.name).stat().st_mtime_ns for path in written] == stamps


def test_shards_of_another_job_are_not_reused(tmp_path):
    def interrupt(step, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flat(tmp_path / "out", text="uniform(1)", progress=interrupt)
    with pytest.raises(ValueError, match=r"\.out\.partial holds 1 finished shards of another job, or of tables that"):
        flat(tmp_path / "out")
    shutil.rmtree(tmp_path / ".out.partial" / "sizes")  # one that finished no shard is of no use
    flat(tmp_path / "out")
    flat(tmp_path / "whole")
    assert everything(tmp_path / "out") == everything(tmp_path / "whole")


def test_more_reducers_than_ray_can_serve_are_refused():
    with pytest.raises(ValueError, match="partitions=1025 is not allowed with run_on=ray: give at most 1024"):
        FlattenJob(parse_sampling("full()", 1), run_on="ray", partitions=1025)


@pytest.mark.parametrize("name", ["shard_records", "threads", "partitions", "hub_threshold"])
def test_a_number_that_is_too_small_is_refused(name):
    with pytest.raises(ValueError, match=f"{name}=-1 is not allowed: give at least"):
        FlattenJob(parse_sampling("full()", 1), **{name: -1})


def test_a_jobs_identity_covers_everything_its_result_depends_on():
    graph, targets, job = awkward_graph(2, weighted=True), np.arange(40), FlattenJob(parse_sampling("uniform(3)", 2))
    changes = [{"filtering": "weight > 1"}, {"embed": False}, {"shard_records": 7}] + [
        {"strategy": parse_sampling(text, 2, scope, seed)}
        for text, scope, seed in [
            ("uniform(4)", "node", 0),
            ("uniform(3)", "target", 0),
            ("uniform(3)", "node", 1),
            ("uniform(limit=3, replacement=true)", "node", 0),
            ("topk(3)", "node", 0),
            ("topk(limit=3, reverse=true)", "node", 0),
        ]
    ]
    changes.append({"strategy": replace(job.strategy, sha256="of another file")})
    others = [replace(job, **change).identity(graph, targets) for change in changes]
    others += [job.identity(graph, targets[1:]), job.identity(replace(graph, sha256="another"), targets)]
    mine = job.identity(graph, targets)
    assert len({mine, *others}) == 1 + len(others)
    for change in ({"run_on": "ray"}, {"threads": 3}, {"partitions": 9}, {"hub_threshold": None}):
        assert replace(job, **change).identity(graph, targets) == mine


def test_a_result_that_does_not_fit_is_refused_before_it_is_written(tmp_path, monkeypatch):
    with_free_bytes(monkeypatch, 1000)
    with pytest.raises(NoRoom, match=r"need about .* GiB free: give fewer targets"):
        flat(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["weighted(3)", "topk(by=feature[0], limit=2)"])
def test_a_sampler_whose_column_is_missing_is_refused(text, tmp_path):
    with pytest.raises(StrategyError, match="samples by"):
        flat(tmp_path / "out", awkward_graph(1), text=text)
    assert list(tmp_path.iterdir()) == []


def test_damaged_shards_are_named(tmp_path):
    flat(tmp_path / "out")
    shard = GraphFeatureReader(tmp_path / "out").shards[1]
    whole = shard.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:900] + bytes([whole[900] ^ 255]) + whole[901:], b""):
        shard.write_bytes(damaged)
        with pytest.raises(ShardError, match=r"part-00001.parquet .*flatten"):
            list(GraphFeatureReader(tmp_path / "out").batches(100))
    shard.unlink()
    with pytest.raises(ShardError, match=r"part-00001.parquet .*missing"):
        list(GraphFeatureReader(tmp_path / "out").batches(100))


@pytest.mark.parametrize("seed", [None, 5])
def test_a_damaged_record_in_a_sound_file_is_named_by_its_row(tmp_path, seed):
    flat(tmp_path / "out")
    shard = GraphFeatureReader(tmp_path / "out").shards[1]
    table = parquet.read_table(shard)
    strings = table.column("graph_feature").to_pylist()
    strings[6] = strings[6][:-9]
    damaged = table.set_column(3, "graph_feature", pa.array(strings, pa.large_binary()))
    parquet.write_table(damaged, shard, **LAYOUT)
    with pytest.raises(ShardError, match=r"part-00001.parquet: row 7: .*flatten the graph again"):
        list(GraphFeatureReader(tmp_path / "out").batches(4, seed))


def test_bytes_read_are_those_of_the_strings(tmp_path):
    flat(tmp_path / "out")
    reader = GraphFeatureReader(tmp_path / "out")
    list(reader.batches(7))
    stored_bytes = sum(map(len, everything(tmp_path / "out")))
    assert stored_bytes < reader.bytes_read < 1.2 * stored_bytes


def test_damaged_folders_are_named(tmp_path):
    flat(tmp_path / "out", embed=False)
    shutil.copy(
        features_path(GraphFeatureReader(tmp_path / "out").shards[2]), tmp_path / "out" / "part-00000.features.parquet"
    )
    with pytest.raises(ShardError, match=r"features.parquet lacks node"):
        list(GraphFeatureReader(tmp_path / "out").batches(100))
    (tmp_path / "out" / "manifest.json").write_text("{")
    with pytest.raises(ShardError, match="damaged"):
        GraphFeatureReader(tmp_path / "out")
    with pytest.raises(ShardError, match="did not finish"):
        GraphFeatureReader(tmp_path / "nothing")


def read_all(reader):
    return list(reader.batches(100))


@pytest.mark.parametrize("change", [{"text": "uniform(3)"}, {"targets": "labelled"}, {"shard_records": 15}], ids=str)
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("part-00001.parquet", read_all),
        ("part-00001.parquet", GraphFeatureReader.labelled),
        ("part-00001.features.parquet", read_all),
    ],
)
def test_a_shard_of_another_run_is_refused_though_its_name_is_right(tmp_path, change, name, read):
    flat(tmp_path / "out", embed=False)
    flat(tmp_path / "other", embed=False, **change)
    shutil.copy(tmp_path / "other" / name, tmp_path / "out" / name)
    with pytest.raises(ShardError, match=rf"out/{name} was written by another run than .*out/manifest.json: flatten a"):
        read(GraphFeatureReader(tmp_path / "out"))


def test_shards_that_name_no_run_are_read_where_the_manifest_names_none(tmp_path):
    """As an earlier version wrote them."""
    flat(tmp_path / "out")
    whole = everything(tmp_path / "out")
    for shard in GraphFeatureReader(tmp_path / "out").shards:
        parquet.write_table(parquet.read_table(shard).replace_schema_metadata(None), shard, **LAYOUT)
    with pytest.raises(ShardError, match=r"part-00000.parquet was written by another run"):
        everything(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    del manifest["identity"]
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest))
    assert everything(tmp_path / "out") == whole


def test_the_manifest_says_how_records_were_made(tmp_path):
    flat(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["strategy"]["fanouts"] == [2, 4] and manifest["sizes"]["records"] == 40
    assert manifest["duplication"] == manifest["sizes"]["nodes"] / manifest["distinct_nodes"]


@pytest.mark.parametrize("threads", [2, 7])
def test_threads_write_whole_shards_and_change_no_byte(tmp_path, threads):
    done = []
    one = flat(tmp_path / "one")
    many = flat(tmp_path / "many", threads=threads, progress=lambda *at: done.append(at))
    assert one == many and done == [("flatten", number, 3) for number in (1, 2, 3)]
    for path in (tmp_path / "one").iterdir():
        assert (tmp_path / "many" / path.name).read_bytes() == path.read_bytes()


def noted(counts, function):
    """The function, which notes how many threads kernels may use wherever it is called."""

    def noting(*arguments, **options):
        counts.add(torch.get_num_threads())
        return function(*arguments, **options)

    return noting


def threads_here_and_in_a_new_thread():
    with ThreadPoolExecutor(1) as pool:
        return torch.get_num_threads(), pool.submit(torch.get_num_threads).result()


@pytest.mark.parametrize(
    ("nodes", "shard_records", "share"),
    [(600, 100, 1), (600, 300, 1), (600, 600, 2), (40, 40, 6)],
    ids=["a shard each", "two shards of two batches", "three batches", "one batch"],
)
def test_shards_batches_and_kernels_share_the_threads_of_the_job(tmp_path, monkeypatch, nodes, shard_records, share):
    of_source, of_estimate, of_shards, of_batches = (set() for _ in range(4))
    encode = drivers.encode_neighbourhoods

    def encode_noted(*arguments, embed, **options):
        return noted(of_batches if embed else of_estimate, encode)(*arguments, embed=embed, **options)

    monkeypatch.setattr(drivers, "encode_neighbourhoods", encode_noted)
    monkeypatch.setattr(Source, "build", noted(of_source, Source.build))
    monkeypatch.setattr(jobs, "write_shard", noted(of_shards, jobs.write_shard))
    before = torch.get_num_threads()
    flat(tmp_path / "out", awkward_graph(2, nodes), text="uniform(2)", shard_records=shard_records, threads=6)
    assert (of_source, of_estimate, of_batches) == ({6}, {6}, {share})
    assert of_shards == {6 // min(6, -(-nodes // shard_records))}
    assert threads_here_and_in_a_new_thread() == (before, before)


@pytest.mark.parametrize("shard_records", [20, 600])
@pytest.mark.parametrize("failing", ["write_shard", "distinct", "progress"])
def test_a_failure_gives_the_threads_back(tmp_path, monkeypatch, failing, shard_records):
    def fail(*arguments):
        raise OSError("the disk is full")

    if failing != "progress":
        monkeypatch.setattr(jobs if failing == "write_shard" else shards, failing, fail)
    before = torch.get_num_threads()
    with pytest.raises(OSError, match="full"):
        progress = fail if failing == "progress" else silent
        flat(tmp_path / "out", awkward_graph(2, 600), progress=progress, shard_records=shard_records, threads=6)
    assert threads_here_and_in_a_new_thread() == (before, before)


def test_two_outputs_of_a_job_have_two_places_in_a_store_and_a_repeated_command_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cluster = Cluster("auto", "memory://store/")
    one, other = (cluster.place_of(tmp_path / name / "source", "identity") for name in (".one.partial", ".two.partial"))
    assert one != other and {one.rpartition("/")[0], other.rpartition("/")[0]} == {"memory://store"}
    assert cluster.place_of(Path(".one.partial/source"), "identity") == one
    assert cluster.place_of(tmp_path / ".one.partial" / "source", "of another job") != one
    assert Cluster().place_of(tmp_path, "identity") is None


@pytest.mark.parametrize("embed", [True, False])
def test_files_of_shards_that_a_store_has_lost_are_named(tmp_path, embed):
    flat(tmp_path / "out", embed=embed)
    place, (count, lost) = "memory://lost", (3, "part-00001.parquet") if embed else (6, "part-00001.features.parquet")
    put_folder(tmp_path / "out", f"{place}/shards", "part-*.parquet")
    jobs.fetch_shards(place, tmp_path / "whole", 3, not embed)
    assert len(list((tmp_path / "whole").iterdir())) == count
    remove(f"{place}/shards/{lost}")
    with pytest.raises(OSError, match=rf"memory://lost: 1 of {count} files .* {lost}: delete that folder and"):
        jobs.fetch_shards(place, tmp_path / "some", 3, not embed)
    remove(place)
