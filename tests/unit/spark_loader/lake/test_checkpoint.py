"""Checkpoint files: runs that count, unfinished runs, and damaged files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from spark_loader.errors import AlteredCheckpoint, CheckpointError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import MapperOffsets, Plan
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.splits import OffsetRange
from tests.support.loading import LOCAL, entry

T0 = TopicPartition("t", 0)
RANGE = OffsetRange("t", 0, 0, 5, 100)


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(LOCAL, str(tmp_path))


def plan(run=1):
    return Plan(run=run, created="now", mappers=((RANGE,),), positions={T0: 0}, log_ends={T0: 5})


def test_documents_round_trip(checkpoints, tmp_path):
    documents = json.loads(Path(__file__).with_name("documents.json").read_text())
    for path, document in documents.items():
        LOCAL.publish(checkpoints.path(path), json.dumps(document).encode())
    copy = Checkpoints(LOCAL, str(tmp_path / "copy"))
    copy.write_plan(checkpoints.plan(1))
    assert copy.write_mapper_offsets(checkpoints.mapper_offsets(1, 0))
    for path, document in documents.items():
        assert json.loads(LOCAL.read(copy.path(path))) == document


def test_run_is_unfinished_from_plan_until_commit(checkpoints):
    assert (checkpoints.counted(), checkpoints.unfinished(), checkpoints.next_run()) == (0, None, 1)
    checkpoints.write_plan(plan())
    assert checkpoints.unfinished() == plan()
    checkpoints.table.commit(entry(1, positions={T0: 5}))
    assert checkpoints.unfinished() is None
    assert (checkpoints.counted(), checkpoints.next_run()) == (1, 2)


def test_run_numbers_are_unique(checkpoints):
    assert [checkpoints.write_plan(plan()).run for _ in range(3)] == [1, 2, 3]
    assert checkpoints.plan(3) == replace(plan(), run=3)


def test_first_attempt_of_mapper_wins(checkpoints):
    done = MapperOffsets(run=1, mapper=3, attempt="a", ranges=(RANGE,), rows=5)
    assert checkpoints.mapper_offsets(1, 3) is None
    assert checkpoints.write_mapper_offsets(done)
    assert not checkpoints.write_mapper_offsets(
        MapperOffsets(run=1, mapper=3, attempt="b", ranges=())
    )
    assert checkpoints.mapper_offsets(1, 3) == done
    checkpoints.forget_mapper(1, 3)
    assert checkpoints.mapper_offsets(1, 3) is None


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
def test_invalid_checkpoint_file_is_refused(checkpoints, content, error, reason):
    LOCAL.publish(checkpoints.path("runs", "000001", "plan.json"), content)
    with pytest.raises(error, match=reason):
        checkpoints.plan(1)
    with pytest.raises(AlteredCheckpoint, match="does not exist"):
        checkpoints.plan(2)
