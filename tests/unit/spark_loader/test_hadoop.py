"""The loader on a file system of Hadoop's: a mount table, whose URIs are no local paths."""

import pytest

from spark_loader import EventTime, Loader
from spark_loader.files import LockedError
from spark_loader.hadoop import HadoopFileSystem
from spark_loader.verify import verify
from tests.support.directory_cluster import DirectoryCluster
from tests.support.inline_spark import InlineSpark
from tests.support.loaded import loaded_offsets

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def mounted(tmp_path):
    (tmp_path / "disk").mkdir()
    settings = {"fs.viewfs.mounttable.lake.link./data": f"file://{tmp_path}/disk"}
    return HadoopFileSystem("viewfs://lake/data", settings)


def test_a_load_into_a_hadoop_file_system_is_proved_there(mounted, tmp_path):
    cluster = DirectoryCluster(str(tmp_path / "cluster"))
    for partition in range(2):
        cluster.append("t", partition, [b'{"at": %d}' % (n * 3600) for n in range(4)])
    output = f"{mounted.root}/lake"
    for _ in range(2):
        loader = Loader(
            bootstrap="h:1",
            topics=["t"],
            output=output,
            event_time=EventTime.json("at"),
            access=cluster,
            filesystem=mounted,
        )
        loader.run(InlineSpark())
    report = verify(mounted, output)
    assert (report.problems, report.rows, report.files) == ([], 8, 8)
    assert loaded_offsets(tmp_path / "disk" / "lake") == {("t", p): [*range(4)] for p in range(2)}


def test_the_first_to_publish_wins_and_names_are_listed(mounted):
    path = f"{mounted.root}/state/one.json"
    assert mounted.publish(path, b"first")
    assert not mounted.publish(path, b"second")
    assert mounted.read(path) == b"first"
    mounted.replace(path, b"third")
    assert (mounted.read(path), mounted.size(path)) == (b"third", 5)
    assert mounted.names(f"{mounted.root}/state") == ["one.json"]
    assert mounted.names(f"{mounted.root}/nothing") == []
    mounted.rename(path, f"{mounted.root}/state/two.json")
    mounted.rename(path, f"{mounted.root}/state/two.json")
    mounted.delete(f"{mounted.root}/state/two.json")
    with pytest.raises(FileNotFoundError):
        mounted.rename(path, f"{mounted.root}/state/two.json")
    with pytest.raises(FileNotFoundError):
        mounted.read(path)


def test_a_lock_is_held_by_one(mounted):
    path = f"{mounted.root}/lock"
    with (
        mounted.lock(path, "me"),
        pytest.raises(LockedError, match="me"),
        mounted.lock(path, "you"),
    ):
        pass
    with mounted.lock(path, "you"):
        pass
