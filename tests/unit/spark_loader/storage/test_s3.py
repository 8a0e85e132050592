"""A bucket of S3: atomic writes, listings, locks and errors."""

import pickle
from datetime import UTC, datetime
from importlib.util import find_spec

import pytest

pytest.importorskip("obstore")

from spark_loader.storage import s3
from spark_loader.storage.files import FileStatus
from spark_loader.storage.s3 import S3FileSystem, s3_settings
from tests.support.lake_files import check_lock, check_missing, check_publish, check_rename
from tests.support.s3_server import running_s3
from zkbroker.errors import ConfigError

pytestmark = pytest.mark.skipif(find_spec("moto") is None, reason="moto is not installed")


@pytest.fixture(scope="module")
def server():
    with running_s3() as running:
        yield running


@pytest.fixture
def root(server):
    return f"s3://{server.bucket()}/lake"


@pytest.fixture
def bucket(server, root):
    return S3FileSystem.of(root, server.options)


@pytest.mark.parametrize("check", [check_publish, check_rename, check_missing, check_lock])
def test_file_operations_are_atomic_or_repeatable(bucket, root, check):
    check(bucket, root)


def test_lost_answers_can_be_repeated(bucket, root):
    source, target = f"{root}/a", f"{root}/x/b"
    for _ in range(2):
        # A put whose answer was lost finds its own object.
        assert bucket.publish(source, b"1")
    bucket.rename(source, target)
    bucket.publish(source, b"1")
    # The copy was made, and the source is not deleted yet.
    bucket.rename(source, target)
    assert (bucket.read(target), bucket.size(source)) == (b"1", None)


def test_file_is_visible_after_commit(bucket, root):
    path = f"{root}/topic=t+x/date=2015-05-17/a b.parquet"
    output = bucket.create(path)
    content = bytes(range(256)) * 60_000
    output.write(content)
    assert bucket.size(path) is None
    output.commit()
    output.discard()
    assert bucket.size(path) == len(content)
    with bucket.opened(path) as local:
        assert local.read_bytes() == content
    dropped = bucket.create(f"{root}/dropped")
    dropped.write(b"x")
    dropped.discard()
    assert list(bucket.walk(root)) == [
        FileStatus("topic=t+x/date=2015-05-17/a b.parquet", len(content))
    ]


def test_released_lock_is_removed(bucket, root):
    with bucket.lock(f"{root}/lock", "me"):
        pass
    assert bucket.names(root) == []


def test_stale_lock_is_taken_over_and_cannot_be_renewed(bucket, root, monkeypatch):
    path = f"{root}/lock"
    dead = s3._Lease(bucket, path, "dead")
    dead.take()
    monkeypatch.setattr(s3, "_LOCK_STALE_S", -1.0)
    with bucket.lock(path, "the next"):
        assert not dead.renew()
        dead.release()
        assert bucket.read(path).startswith(b"the next\n")


def test_lock_age_uses_server_clock(bucket, root):
    lease = s3._Lease(bucket, f"{root}/lock", "me")
    assert abs((lease._server_time() - datetime.now(UTC)).total_seconds()) < 60
    assert bucket.names(root) == []


def test_file_system_is_picklable_and_hides_secrets(bucket):
    assert pickle.loads(pickle.dumps(bucket)) == bucket
    assert "secret" not in repr(bucket)


def test_errors_have_one_line(server):
    other = S3FileSystem.of("s3://no-such-bucket/lake", server.options)
    with pytest.raises(OSError, match="s3://no-such-bucket/lake/a: NoSuchBucket"):
        other.replace("s3://no-such-bucket/lake/a", b"")
    with pytest.raises(OSError, match="NoSuchBucket"):
        other.names("s3://no-such-bucket/lake")
    unreachable = S3FileSystem.of(
        "s3://b/lake", {**server.options, "AWS_ENDPOINT_URL": "http://[::1]:1"}
    )
    with pytest.raises(OSError, match="s3://b/lake/a: ") as raised:
        unreachable.size("s3://b/lake/a")
    assert "\n" not in str(raised.value)


def test_error_text_is_extracted():
    xml = "… 403: <Error><Code>AccessDenied</Code>\n<Message>not yours</Message></Error>"
    assert s3._one_line(xml) == "AccessDenied: not yours"
    role = "Error performing PUT http://169.254.169.254/latest/api/token"
    assert s3._one_line(role).startswith("no credentials were found: set AWS_ACCESS_KEY_ID")
    assert s3._one_line("\n one\n two") == "one"
    assert s3._one_line("") == "no reason given"


def test_settings_merge_environment_and_options(monkeypatch):
    for name in ("AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    found = s3_settings({"AWS_ACCESS_KEY_ID": "b", "aws_endpoint_url_s3": "http://h:1"})
    assert found["aws_region"] == "eu-central-1"
    assert (found["aws_access_key_id"], found["aws_endpoint_url"]) == ("b", "http://h:1")
    with pytest.raises(ConfigError, match="AWS_ENDPONT_URL is not known: give AWS_ACCESS_KEY_ID"):
        s3_settings({"AWS_ENDPONT_URL": "http://h:1"})
    with pytest.raises(ConfigError, match="names no bucket"):
        S3FileSystem.of("s3:///lake", {})
