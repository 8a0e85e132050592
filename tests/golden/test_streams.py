"""A consumer reads the segments of genuine brokers."""

from pathlib import Path

import pytest

from tests.support.logs_cluster import LeaderLog, LogsCluster
from zkbroker.consumer import AssignedConsumer
from zkbroker.records import iter_entries, iter_records
from zkbroker.runtime import get_runtime

SEGMENTS = Path(__file__).parent / "data" / "segments"
TOPICS = sorted(
    {log.parent for log in SEGMENTS.glob("kafka-[02].[38]*/*/*.log") if log.stat().st_size}
)


def log_of(directory: Path) -> LeaderLog:
    log = LeaderLog()
    for segment in sorted(directory.glob("*.log")):
        log.append(segment.read_bytes())
    return log


@pytest.mark.parametrize("directory", TOPICS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_consumer_reads_genuine_segments(directory: Path) -> None:
    log = log_of(directory)
    cluster = LogsCluster(get_runtime("threads"), {("t", 0): log})
    with AssignedConsumer(cluster, {("t", 0): 0}, stop={("t", 0): log.end}) as consumer:
        messages = list(consumer)
    assert [(m.offset, m.timestamp, m.key, m.value, m.headers) for m in messages] == [
        (r.offset, r.timestamp, r.key, r.value, r.headers) for r in iter_records(log.data)
    ]
    assert messages


def test_consumer_skips_control_batches() -> None:
    log = log_of(SEGMENTS / "kafka-2.3.0" / "g-v2-transactional-0")
    entries = list(iter_entries(log.data))
    control = {entry.base_offset for entry in entries if entry.is_control}
    assert control
    assert entries[-1].is_control
    cluster = LogsCluster(get_runtime("threads"), {("t", 0): log})
    with AssignedConsumer(cluster, {("t", 0): 0}, stop={("t", 0): log.end}) as consumer:
        offsets = {message.offset for message in consumer}
        assert consumer.positions() == {("t", 0): log.end}
    assert offsets == set(range(log.end)) - control
