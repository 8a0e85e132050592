"""Three broker processes, three replicas: what is acknowledged by all survives each of them."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import MortalBroker, connect
from tests.support.message_sets import message_set as one_set
from tests.support.process import eventually
from zkbroker.cluster.process import BrokerProcess
from zkbroker.errors import ErrorCode, ZkbrokerError
from zkbroker.protocol.messages import (
    CreateTopicsRequest,
    FetchRequest,
    MetadataRequest,
    ProduceRequest,
)
from zkbroker.protocol.messages.fetch import FetchRequestPartition, FetchRequestTopic
from zkbroker.protocol.messages.metadata import MetadataPartition
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.topics import NewTopic, TopicConfig
from zkbroker.records import MessageSetBuilder, iter_records
from zkbroker.zookeeper import ZkSession

Brokers = dict[int, BrokerProcess]


@pytest.fixture
def brokers(chroot: str, tmp_path: Path) -> Iterator[Brokers]:
    started: Brokers = {}
    try:
        for broker_id in (1, 2, 3):
            started[broker_id] = MortalBroker(
                tmp_path / str(broker_id),
                {
                    "broker.id": str(broker_id),
                    "zookeeper.connect": chroot,
                    "replica.lag.time.max.ms": "3000",
                    "replica.fetch.backoff.ms": "100",
                    "log.index.size.max.bytes": "4096",
                },
            )
            started[broker_id].start()
        yield started
    finally:
        for process in started.values():
            process.stop()


def partition(brokers: Brokers, topic: str = "t") -> MetadataPartition | None:
    """What the first live broker says of partition 0."""
    for process in brokers.values():
        if not process.alive:
            continue
        try:
            with connect(process) as connection:
                answer = connection.request(MetadataRequest([topic]))
        except ZkbrokerError:
            continue
        (found,) = answer.topics
        if found.partitions:
            return found.partitions[0]
    return None


def create(brokers: Brokers, **settings: str) -> None:
    topic = NewTopic("t", 1, 3, [], [TopicConfig(k, v) for k, v in settings.items()])
    with connect(brokers[1]) as connection:
        answer = connection.request(CreateTopicsRequest([topic], timeout_ms=20_000))
    assert answer.topics[0].error_code == 0, answer
    eventually(lambda: in_sync(brokers) == {1, 2, 3}, "all in sync")


def in_sync(brokers: Brokers) -> set[int]:
    found = partition(brokers)
    return set() if found is None else set(found.isr)


def leader(brokers: Brokers) -> int:
    found = partition(brokers)
    return -1 if found is None or found.leader not in brokers else found.leader


class Writer(threading.Thread):
    """Writes numbers with acks=all, and notes which of them were acknowledged."""

    def __init__(self, brokers: Brokers) -> None:
        super().__init__(daemon=True)
        self._brokers = brokers
        self.acknowledged: list[int] = []
        self.stopping = threading.Event()
        self._next = 0

    def run(self) -> None:
        while not self.stopping.is_set():
            chosen = leader(self._brokers)
            if chosen < 0 or not self._brokers[chosen].alive:
                time.sleep(0.05)
                continue
            try:
                with connect(self._brokers[chosen]) as connection:
                    while not self.stopping.is_set():
                        number = self._next
                        self._next += 1
                        builder = MessageSetBuilder(2)
                        builder.append(None, str(number).encode())
                        answer = connection.request(
                            ProduceRequest(
                                None,
                                -1,
                                5000,
                                [
                                    ProduceRequestTopic(
                                        "t", [ProduceRequestPartition(0, builder.build())]
                                    )
                                ],
                            )
                        )
                        if answer.topics[0].partitions[0].error_code:
                            break
                        self.acknowledged.append(number)
            except (ZkbrokerError, OSError):
                time.sleep(0.05)


def read_all(brokers: Brokers) -> list[int]:
    found: list[int] = []
    offset = 0
    with connect(brokers[leader(brokers)]) as connection:
        while True:
            asked = FetchRequestTopic(
                "t",
                [
                    FetchRequestPartition(
                        partition=0,
                        current_leader_epoch=-1,
                        fetch_offset=offset,
                        log_start_offset=-1,
                        max_bytes=1 << 20,
                    )
                ],
            )
            answer = connection.request(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[asked]))
            (part,) = answer.topics[0].partitions
            if part.error_code == ErrorCode.NOT_LEADER_FOR_PARTITION:
                return found  # the leadership moved on meanwhile
            assert part.error_code == 0
            before = offset
            for record in iter_records(part.records, start_offset=offset):
                found.append(int(record.value))
                offset = record.offset + 1
            if offset == before:
                assert offset == part.high_watermark
                return found


def logs(brokers: Brokers) -> list[bytes]:
    return [
        b"".join(path.read_bytes() for path in sorted((each.data_directory / "t-0").glob("*.log")))
        for each in brokers.values()
    ]


def test_a_killed_leader_loses_nothing_and_the_logs_are_the_same_at_the_end(
    brokers: Brokers, zk: ZkSession
) -> None:
    create(brokers)
    writer = Writer(brokers)
    writer.start()
    eventually(lambda: len(writer.acknowledged) > 50, "messages")
    for _ in range(2):
        killed = leader(brokers)
        before = len(writer.acknowledged)
        brokers[killed].kill()
        eventually(lambda gone=killed: leader(brokers) not in (-1, gone), "a new leader")
        eventually(lambda count=before: len(writer.acknowledged) > count + 50, "messages")
        brokers[killed].start()
        eventually(lambda: in_sync(brokers) == {1, 2, 3}, "all in sync again")
    writer.stopping.set()
    writer.join(120)
    stored = read_all(brokers)
    assert set(writer.acknowledged) <= set(stored)
    assert stored == sorted(stored)
    assert len(stored) == len(set(stored))
    eventually(lambda: len(set(logs(brokers))) == 1, "the same logs")


def test_a_clean_stop_hands_the_leadership_over_at_once(brokers: Brokers) -> None:
    create(brokers)
    writer = Writer(brokers)
    writer.start()
    eventually(lambda: len(writer.acknowledged) > 20, "messages")
    stopped = leader(brokers)
    assert brokers[stopped].stop()
    eventually(lambda: leader(brokers) not in (-1, stopped), "a new leader")
    before = len(writer.acknowledged)
    eventually(lambda: len(writer.acknowledged) > before + 20, "messages")
    brokers[stopped].start()
    eventually(lambda: in_sync(brokers) == {1, 2, 3}, "all in sync again")
    writer.stopping.set()
    writer.join(120)
    # Leaders may have changed once more: a new one learns of the high watermark a little later.
    eventually(lambda: set(writer.acknowledged) <= set(read_all(brokers)), "all messages")


def test_min_insync_replicas_refuses_before_the_append(brokers: Brokers, zk: ZkSession) -> None:
    create(brokers, **{"min.insync.replicas": "3"})
    eventually(lambda: leader(brokers) in brokers, "a leader")
    follower = next(each for each in (1, 2, 3) if each != leader(brokers))
    brokers[follower].kill()
    eventually(lambda: follower not in in_sync(brokers), "the ISR shrinks")
    eventually(lambda: leader(brokers) in brokers, "a leader")
    with connect(brokers[leader(brokers)]) as connection:
        for acks, code in ((-1, 19), (1, 0)):
            records = ProduceRequestPartition(0, one_set(2, 1))
            answer = connection.request(
                ProduceRequest(None, acks, 5000, [ProduceRequestTopic("t", [records])])
            )
            assert answer.topics[0].partitions[0].error_code == code
