"""The loader on a Hadoop file system: a mount table, whose URIs are not local paths."""

import json
import tempfile
import uuid

import pytest

from spark_loader import EventTime, Loader, LoadError
from spark_loader.cli import cli
from spark_loader.lake.verify import verify
from spark_loader.storage import hadoop
from spark_loader.storage.files import LockedError
from spark_loader.storage.hadoop import HadoopFileSystem
from tests.support.directory_cluster import DirectoryCluster
from tests.support.inline_spark import InlineSpark
from tests.support.loaded import loaded_offsets

pytestmark = pytest.mark.spark


@pytest.fixture
def mounted(tmp_path):
    (tmp_path / "disk").mkdir()
    # A unique name: Java caches the file systems that it has opened by name.
    name = f"lake{uuid.uuid4().hex[:8]}"
    settings = {f"fs.viewfs.mounttable.{name}.link./data": f"file://{tmp_path}/disk"}
    return HadoopFileSystem(f"viewfs://{name}/data", settings)


def test_load_into_hadoop_file_system_is_verified(mounted, tmp_path):
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
    assert (report.problems, report.rows, report.files) == ([], 8, 4)
    assert loaded_offsets(tmp_path / "disk" / "lake") == {("t", p): [*range(4)] for p in range(2)}


def test_file_operations_work(mounted):
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


def test_lock_is_exclusive(mounted):
    path = f"{mounted.root}/lock"
    with (
        mounted.lock(path, "me"),
        pytest.raises(LockedError, match="me"),
        mounted.lock(path, "you"),
    ):
        pass
    with mounted.lock(path, "you"):
        pass


def test_commands_accept_hadoop_properties(mounted, tmp_path, capsys):
    cluster = DirectoryCluster(str(tmp_path / "cluster"))
    cluster.append("t", 0, [b"x"] * 4)
    output = f"{mounted.root}/lake"
    where = {"bootstrap": "h:1", "topics": ["t"], "output": output}
    Loader(**where, access=cluster, filesystem=mounted).run(InlineSpark())
    [(name, value)] = mounted.settings.items()
    file = tmp_path / "spark.conf"
    file.write_text(f"# where the lake is\nspark.ui.enabled false\nspark.hadoop.{name} = {value}\n")
    for given in (["--conf", f"spark.hadoop.{name}={value}"], ["--properties-file", str(file)]):
        cli.main(["verify", "--output", output, *given], standalone_mode=False)
        assert "4 rows" in capsys.readouterr().out
        cli.main(["status", "--output", output, *given, "--json"], standalone_mode=False)
        assert json.loads(capsys.readouterr().out)["partitions"][0]["position"] == 4
    with pytest.raises(LoadError, match=r"viewfs://lost/lake.*Mount table"):
        cli.main(["verify", "--output", "viewfs://lost/lake"], standalone_mode=False)


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
