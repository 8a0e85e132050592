"""A lake in a bucket: loads, optimize, rewind, vacuum, and crashes."""

from importlib.util import find_spec

import pyarrow as pa
import pytest

pytest.importorskip("obstore")

from deltalake import DeltaTable

from spark_loader import EventTime
from spark_loader.lake import operate
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.optimize import optimize, vacuum
from spark_loader.reading.positions import TopicPartition
from spark_loader.storage.s3 import S3FileSystem
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loading import verified
from tests.support.s3_server import running_s3

pytestmark = pytest.mark.skipif(find_spec("moto") is None, reason="moto is not installed")


@pytest.fixture(scope="module")
def server():
    with running_s3() as running:
        yield running


@pytest.fixture
def lake(server):
    return f"s3://{server.bucket()}/a lake"


@pytest.fixture
def bucket(server, lake):
    return S3FileSystem.of(lake, server.options)


@pytest.fixture
def load(run, cluster, lake, bucket):
    def load(filesystem=bucket, count=20, table=""):
        if count:
            cluster.append("b", 0, [b'{"at": %d}' % (n % 3 * 3600) for n in range(count)])
        by_value = EventTime.json("at")
        return run(filesystem, topics=["b"], output=lake, table=table, event_time=by_value)

    return load


def rows(server, lake):
    options = {**server.options, "AWS_ALLOW_HTTP": "true"}
    table = pa.table(DeltaTable(lake, storage_options=options).to_pyarrow_table())
    return sorted(table.column("offset").to_pylist())


def test_optimize_rewind_and_vacuum_work_in_bucket(server, lake, bucket, load, command):
    for _ in range(3):
        assert load().rows == 20
    checkpoints = Checkpoints(bucket, lake)
    files = len(checkpoints.table.files())
    optimize(checkpoints)
    assert len(Checkpoints(bucket, lake).table.files()) < files
    assert rows(server, lake) == [*range(60)]
    operate.rewind(Checkpoints(bucket, lake), [TopicPartition("b", 0)], 30)
    assert rows(server, lake) == [*range(30)]
    assert load(count=0).rows == 30
    doomed = vacuum(Checkpoints(bucket, lake), retention_hours=0, allow_short=True)
    assert doomed
    assert rows(server, lake) == [*range(60)]
    assert verified(lake, bucket).rows == 60
    options = [
        text for each in server.options.items() for text in ("--storage-option", "=".join(each))
    ]
    assert "no gap, no duplicate" in command("verify", lake, *options)
    named = command("files", lake, *options).split("\n")[:-1]
    assert all(each.startswith(f"{lake}/topic=b/") for each in named)


@pytest.mark.parametrize(
    "every", [17, pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_offsets_load_once_after_crash_at_any_step(server, lake, bucket, load, cluster, every):
    steps = CrashingFileSystem(bucket)
    load(steps)
    for at in range(0, len(steps.steps), every):
        cluster.append("b", 0, [b'{"at": 0}'] * 5)
        try:
            load(CrashingFileSystem(bucket, at), count=0)
        except Crash:
            load(count=0)
    assert verified(lake, bucket).rows == cluster.end("b", 0)
    assert rows(server, lake) == [*range(cluster.end("b", 0))]


def test_iceberg_table_works_in_bucket(server, lake, bucket, load):
    pytest.importorskip("pyiceberg")
    from pyiceberg.table import StaticTable

    for _ in range(2):
        assert load(table="iceberg").rows == 20
    optimize(Checkpoints(bucket, lake))
    operate.rewind(Checkpoints(bucket, lake), [TopicPartition("b", 0)], 30)
    assert load(count=0).rows == 10
    assert verified(lake, bucket).rows == 40
    properties = {
        "s3.endpoint": server.options["AWS_ENDPOINT_URL"],
        "s3.access-key-id": server.options["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": server.options["AWS_SECRET_ACCESS_KEY"],
        "s3.region": server.options["AWS_REGION"],
    }
    found = StaticTable.from_metadata(lake, properties).scan(selected_fields=("offset",))
    assert sorted(found.to_arrow().column("offset").to_pylist()) == [*range(40)]
