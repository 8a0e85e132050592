"""The loader on a Hadoop file system: a mount table, whose URIs are not local paths."""

import json
import tempfile
import time
import uuid
from contextlib import ExitStack

import pytest

from spark_loader import EventTime, LoadError
from spark_loader.storage import hadoop
from spark_loader.storage.files import LockedError
from spark_loader.storage.hadoop import HadoopFileSystem
from tests.support.lake_files import check_lock, check_missing, check_publish, check_rename
from tests.support.loaded import loaded_offsets
from tests.support.loading import verified

pytestmark = pytest.mark.spark


@pytest.fixture
def mounted(tmp_path):
    (tmp_path / "disk").mkdir()
    # A unique name: Java caches the file systems that it has opened by name.
    name = f"lake{uuid.uuid4().hex[:8]}"
    settings = {f"fs.viewfs.mounttable.{name}.link./data": f"file://{tmp_path}/disk"}
    return HadoopFileSystem(f"viewfs://{name}/data", settings)


def test_load_into_hadoop_file_system_is_verified(run, cluster, mounted, tmp_path):
    for partition in range(2):
        cluster.append("h", partition, [b'{"at": %d}' % (n * 3600) for n in range(4)])
    output, by_value = f"{mounted.root}/lake", EventTime.json("at")
    for _ in range(2):
        run(mounted, topics=["h"], output=output, event_time=by_value, group_bytes=1 << 20)
    report = verified(output, mounted)
    assert (report.rows, report.files) == (8, 4)
    assert loaded_offsets(tmp_path / "disk" / "lake") == {("h", p): [*range(4)] for p in range(2)}


@pytest.mark.parametrize("check", [check_publish, check_rename, check_missing, check_lock])
def test_file_operations_are_atomic_or_repeatable(mounted, check):
    check(mounted, mounted.root)


def test_commands_accept_hadoop_properties(run, mounted, tmp_path, command):
    output = f"{mounted.root}/lake"
    run(mounted, output=output)
    [(name, value)] = mounted.settings.items()
    file = tmp_path / "spark.conf"
    file.write_text(f"# where the lake is\nspark.ui.enabled false\nspark.hadoop.{name} = {value}\n")
    for given in (["--conf", f"spark.hadoop.{name}={value}"], ["--properties-file", str(file)]):
        assert "140 rows" in command("verify", output, *given)
        shown = json.loads(command("status", output, *given, "--json"))
        assert shown["partitions"][0]["position"] == 100
    with pytest.raises(LoadError, match=r"viewfs://lost/lake.*Mount table"):
        command("verify", "viewfs://lost/lake")


def test_stale_lock_is_taken_over(mounted, monkeypatch):
    path = f"{mounted.root}/lock"
    mounted.publish(path, b"dead")
    monkeypatch.setattr(hadoop, "_LOCK_STALE_S", -1.0)
    with mounted.lock(path, "you"):
        monkeypatch.setattr(hadoop, "_LOCK_STALE_S", 120.0)
        assert mounted.read(path) == b"you"
        assert mounted.names(mounted.root) == ["lock"]
        with pytest.raises(LockedError, match="you"), mounted.lock(path, "third"):
            pass


def test_lock_age_is_by_the_clock_of_the_file_system(mounted, monkeypatch):
    path, now = f"{mounted.root}/lock", time.time()
    with mounted.lock(path, "me"):
        monkeypatch.setattr(time, "time", lambda: now + 3600)
        with pytest.raises(LockedError, match="held by me"), mounted.lock(path, "you"):
            pass
    assert mounted.names(mounted.root) == []


def test_lock_that_was_lost_is_left_to_its_next_holder(mounted, monkeypatch):
    path = f"{mounted.root}/lock"
    monkeypatch.setattr(hadoop, "_LOCK_STALE_S", -1.0)
    with ExitStack() as next_one:
        with mounted.lock(path, "paused"):
            next_one.enter_context(mounted.lock(path, "the next"))
            assert not mounted._renew(path, "paused")
            assert mounted.read(path) == b"the next"
        assert mounted.read(path) == b"the next"
        assert mounted._renew(path, "the next")
    assert not mounted._renew(path, "the next")
    assert mounted.names(mounted.root) == []


def test_local_copies_are_removed(mounted, tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    path = f"{mounted.root}/file"
    mounted.publish(path, b"content")
    assert mounted.read(path) == b"content"
    with mounted.opened(path) as local:
        assert local.read_bytes() == b"content"
        assert local.is_relative_to(tmp_path / "tmp")
    assert list((tmp_path / "tmp").iterdir()) == []
