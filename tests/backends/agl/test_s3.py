"""The chain on a real S3 server of this machine: outputs and inputs are URLs of a bucket, whole or absent."""

import re

import numpy as np
import pytest

from backends.agl.flat import __main__ as flat
from backends.agl.infer import __main__ as infer
from backends.agl.train import __main__ as train
from tests.backends.agl.chain import scores_of, tables

pytestmark = pytest.mark.needs_s3


@pytest.fixture
def bucket(monkeypatch):
    """An empty bucket of a server in a thread of this process; the file system over it."""
    import boto3
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    for name, value in {"ACCESS_KEY_ID": "me", "SECRET_ACCESS_KEY": "secret", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    boto3.client("s3").create_bucket(Bucket="users")
    s3fs.S3FileSystem.clear_instance_cache()
    yield s3fs.S3FileSystem()
    server.stop()


def test_tables_shards_models_and_scores_lie_in_a_bucket(bucket, tmp_path, capsys):
    tables(tmp_path)
    for name in ("nodes.parquet", "edges.parquet"):
        bucket.put_file(str(tmp_path / name), f"users/{name}")
    files, place = ["-n", "s3://users/nodes.parquet", "-e", "s3://users/edges.parquet"], "s3://users/agl"
    read = [*files, "-h", "2", "-s", "uniform(3)", "--split", "0.8,0.1,0.1", "--shard-records", "9"]
    assert flat.main([*read, "-o", f"{place}/flat"]) == 0
    assert flat.main([*read, "-o", f"{place}/flat"]) == 2
    assert f"{place}/flat exists" in capsys.readouterr().err
    model = f"{place}/model.safetensors"
    assert train.main(["-m", "gcn", "-i", f"{place}/flat", "-o", model, "-c", "epochs=1", "hidden=4"]) == 0
    for name, source in (("tables", files), ("shards", ["-i", f"{place}/flat"])):
        assert infer.main(["-m", model, *source, "-o", f"{place}/{name}"]) == 0
        bucket.get(f"users/agl/{name}", str(tmp_path / name), recursive=True)
    whole, targets = scores_of(tmp_path / "tables"), scores_of(tmp_path / "shards")
    assert all(np.allclose(whole[node], score, atol=1e-5) for node, score in targets.items())


def test_a_bucket_that_is_not_there_is_refused_before_tables_are_read(bucket, tmp_path, capsys):
    command = [*tables(tmp_path), "-h", "1", "--targets", "all", "-o", "s3://strangers/flat"]
    assert flat.main(command) == 1
    assert re.search(r"s3://strangers/flat cannot be written .* choose a place", capsys.readouterr().err)
