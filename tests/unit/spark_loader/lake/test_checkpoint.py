"""Which run counts, which is to be taken up again, and what was altered since."""

import json
from pathlib import Path

import pytest

from spark_loader.errors import AlteredCheckpoint, CheckpointError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.inventory import Inventory
from spark_loader.lake.ledger import DataFile, Manifest, MapperOffsets, Plan
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.splits import OffsetRange
from tests.support.loading import LOCAL

T0 = TopicPartition("t", 0)
RANGE = OffsetRange("t", 0, 0, 5, 100)


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(LOCAL, str(tmp_path))


def plan(run=1):
    return Plan(run=run, created="now", mappers=((RANGE,),), positions={T0: 0}, log_ends={T0: 5})


def manifest(run=1, **fields):
    return Manifest(run=run, created="now", kind="load", ranges=(RANGE,), **fields)


def data_file(path, size=10):
    return DataFile(
        path=path,
        staged="s",
        topic="t",
        partition=0,
        start=0,
        until=5,
        rows=5,
        size_bytes=size,
        sha256="0",
    )


def test_documents_of_earlier_releases_are_read_and_written_again_the_same(checkpoints, tmp_path):
    documents = json.loads(Path(__file__).with_name("documents.json").read_text())
    for path, document in documents.items():
        LOCAL.publish(checkpoints.path(path), json.dumps(document).encode())
    copy = Checkpoints(LOCAL, str(tmp_path / "copy"))
    copy.write_plan(checkpoints.plan(1))
    assert copy.write_mapper_offsets(checkpoints.mapper_offsets(1, 0))
    copy.write_manifest(checkpoints.manifest(1))
    for path, document in documents.items():
        assert json.loads(LOCAL.read(copy.path(path))) == document


def test_a_run_exists_with_its_plan_and_counts_with_its_manifest(checkpoints):
    assert (checkpoints.latest(), checkpoints.unfinished(), checkpoints.next_run()) == (
        None,
        None,
        1,
    )
    checkpoints.write_plan(plan())
    assert checkpoints.unfinished() == plan()
    checkpoints.write_manifest(manifest(positions={T0: 5}))
    assert checkpoints.unfinished() is None
    assert checkpoints.latest().positions == {T0: 5}
    assert checkpoints.next_run() == 2


def test_a_number_is_taken_once(checkpoints):
    checkpoints.write_plan(plan())
    with pytest.raises(CheckpointError, match="another load"):
        checkpoints.write_plan(plan())


def test_the_first_attempt_of_a_mapper_counts(checkpoints):
    done = MapperOffsets(run=1, mapper=3, attempt="a", ranges=(RANGE,), rows=5)
    assert checkpoints.mapper_offsets(1, 3) is None
    assert checkpoints.write_mapper_offsets(done)
    assert not checkpoints.write_mapper_offsets(
        MapperOffsets(run=1, mapper=3, attempt="b", ranges=())
    )
    assert checkpoints.mapper_offsets(1, 3) == done
    checkpoints.forget_mapper(1, 3)
    assert checkpoints.mapper_offsets(1, 3) is None


def test_each_manifest_accounts_for_the_files_there_are(checkpoints):
    checkpoints.write_manifest(manifest(files=(data_file("a"), data_file("b"))))
    checkpoints.write_manifest(manifest(2, files=(data_file("c"),), withdrawn=("a",)))
    assert checkpoints.latest().lake == Inventory.of([("b", 10), ("c", 10)])
    name, size = "000001.json", LOCAL.size(checkpoints.path("manifests", "000001.json"))
    assert checkpoints.latest().earlier == Inventory.of([(name, size)])


def test_a_new_beginning_makes_earlier_manifests_history(checkpoints):
    checkpoints.write_manifest(manifest(files=(data_file("a"),)))
    adopted = Manifest(run=2, created="now", kind="adopt", files=(data_file("b"),))
    checkpoints.write_manifest(adopted)
    checkpoints.write_manifest(manifest(3))
    assert [each.run for each in checkpoints.manifests()] == [2, 3]
    assert checkpoints.latest().lake == Inventory.of([("b", 10)])


def test_an_altered_manifest_is_noticed_and_read_only_when_asked(checkpoints):
    checkpoints.write_manifest(manifest(positions={T0: 5}))
    path = checkpoints.path("manifests", "000001.json")
    found = json.loads(LOCAL.read(path))
    found["positions"]["t"]["0"] = 4
    LOCAL.replace(path, json.dumps(found).encode())
    with pytest.raises(AlteredCheckpoint, match="its checksum is another"):
        checkpoints.latest()
    assert checkpoints.manifest(1, altered=True).positions == {T0: 4}


@pytest.mark.parametrize(
    ("content", "error", "reason"),
    [
        (b"{", AlteredCheckpoint, "is damaged"),
        (b"[]", AlteredCheckpoint, "is not a plan"),
        (b'{"format": "zkbroker-load-manifest"}', AlteredCheckpoint, "is not a plan"),
        (b'{"format": "zkbroker-load-plan", "version": 9}', CheckpointError, "has version 9"),
        (b'{"format": "zkbroker-load-plan", "version": 1}', AlteredCheckpoint, "run is missing"),
    ],
)
def test_what_is_no_checkpoint_of_ours_is_named(checkpoints, content, error, reason):
    LOCAL.publish(checkpoints.path("runs", "000001", "plan.json"), content)
    with pytest.raises(error, match=reason):
        checkpoints.plan(1)
    with pytest.raises(AlteredCheckpoint, match="does not exist"):
        checkpoints.plan(2)
