"""Our follower sends the same requests as recorded genuine ones, field by field.

For each recorded Fetch, OffsetForLeaderEpoch and ListOffsets of a follower our fetcher gets the
state of the genuine one (its logs, its fetch session, its epochs), at the inter-broker level of
that run. Its request is compared with the genuine one; then it gets the genuine leader's answer,
and must store all its records.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_leader import StillRuntime
from tests.support.logs import message_set, started
from tests.support.recorded_frames import GOLDEN, case, plain, recorded
from tests.support.replicas import decided
from zkbroker.errors import NetworkError
from zkbroker.log import LogManager, TopicPartition
from zkbroker.protocol import ApiKey, decode_request, decode_response
from zkbroker.protocol.messages import FetchResponse, ListOffsetsResponse
from zkbroker.protocol.messages.fetch import FetchResponsePartition, FetchResponseTopic
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from zkbroker.records import iter_entries
from zkbroker.replica.fetch_session import PartitionFetch
from zkbroker.replica.fetcher import ReplicaFetcher
from zkbroker.replica.fetching import FetcherSettings
from zkbroker.replica.leadership import LeaderSettings
from zkbroker.replica.partition import Partition
from zkbroker.replica.throttle import ReplicationThrottle

LEVELS = {"kafka-0.8.2.2": "0.8.2", "kafka-2.3.0-ibp2.1": "2.1", "kafka-2.3.0": "2.3"}
FOLLOWERS = {ApiKey.FETCH, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.LIST_OFFSETS}
OUT_OF_RANGE = 1


def frames(run: str) -> Iterator[tuple[str, Any]]:
    """Yield the requests of followers in a run, with their places."""
    for place, entry in recorded(GOLDEN / "replication" / f"{run}.jsonl.gz"):
        if entry["api_key"] in FOLLOWERS and entry["from"] in (0, 1, 2):
            yield place, entry


class ScriptedLeader:
    """Returns prepared answers, and records the requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, int]] = []
        self.answers: dict[ApiKey, list[Any]] = {}

    def connect(self, broker_id: int, number: int) -> "ScriptedLeader":
        return self

    def close(self) -> None: ...

    def send(self, request: Any, version: int) -> Any:
        self.asked.append((request, version))
        if not self.answers.get(request.api_key):
            raise NetworkError("no answer")
        return self.answers[request.api_key].pop(0)


class Follower:
    """Our fetcher, with real logs."""

    def __init__(self, logs: LogManager, run: str, broker: int, leader: int) -> None:
        self.broker, self.leader = broker, leader
        self.script = ScriptedLeader()
        self.runtime = StillRuntime()
        self.logs = logs
        self.magic = 0 if run == "kafka-0.8.2.2" else 2
        self.partitions: dict[TopicPartition, Partition] = {}
        self.fetcher = ReplicaFetcher(
            broker,
            leader,
            0,
            self.script.connect,  # type: ignore[arg-type]
            FetcherSettings(level=LEVELS[run]),
            runtime=self.runtime,  # type: ignore[arg-type]
            throttle=ReplicationThrottle(self.runtime),  # type: ignore[arg-type]
        )

    def follow(
        self, key: TopicPartition, *, start: int, end: int, epoch: int, last_epoch: int, cut: bool
    ) -> None:
        """Follow a partition whose log is from `start` to `end`."""
        log = self.logs.get_or_create(key)
        log.truncate_fully_and_start_at(start)
        if end > start:
            data = bytearray(message_set(end - start, magic=self.magic))
            log.append_as_leader(data, leader_epoch=max(0, last_epoch))
        elif last_epoch >= 0:
            log.writer.begin_epoch(last_epoch)
        partition = self.partitions[key] = Partition(
            key,
            self.broker,
            runtime=self.runtime,  # type: ignore[arg-type]
            settings=LeaderSettings(),
        )
        partition.open(log, 0)
        both = (self.leader, self.broker)
        partition.become_follower(decided(self.leader, max(0, epoch), both, both))
        self.fetcher.follow(partition.role, truncate=cut)

    def in_session(self, request: Any) -> None:
        """Set the genuine session, with other positions sent before."""
        session = self.fetcher._session
        session._id, session._epoch = request.session_id, request.session_epoch
        if request.session_epoch <= 0:
            return
        for topic in request.topics:
            for each in topic.partitions:
                key = TopicPartition(topic.topic, each.partition)
                session.asked[key] = PartitionFetch(-1, -1, -1, -1)
        for forgotten in request.forgotten_topics:
            for number in forgotten.partitions:
                session.asked[TopicPartition(forgotten.topic, number)] = PartitionFetch(0, 0, 0, 0)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogManager]:
    with started(tmp_path_factory.mktemp("follower")) as manager:
        yield manager


def follower_of(logs: LogManager, run: str, entry: Any) -> Follower:
    """Return our fetcher in the place of a recorded one, on empty logs."""
    for key in logs.logs():
        logs.delete(key)
    return Follower(logs, run, entry["from"], entry["to"])


def in_any_order(message: Any) -> Any:
    """Return a decoded request with topics merged and sorted: genuine brokers keep them in maps."""
    if isinstance(message, dict):
        topics: dict[str, list[Any]] = {}
        for each in message.get("topics", ()):
            topics.setdefault(each["topic"], []).extend(each["partitions"])
        if topics:
            merged = [{"topic": name, "partitions": parts} for name, parts in topics.items()]
            message = message | {"topics": merged}
        return {name: in_any_order(each) for name, each in message.items()}
    if isinstance(message, list):
        return sorted(map(in_any_order, message), key=lambda each: json.dumps(each))
    return message


@pytest.mark.parametrize("run", LEVELS)
def test_follower_sends_genuine_requests(run: str, logs: LogManager) -> None:
    for place, entry in frames(run):
        with case(place):
            check_request(follower_of(logs, run, entry), entry)


def check_request(follower: Follower, entry: Any) -> None:
    _, decoded = decode_request(bytes.fromhex(entry["request"]))
    request: Any = decoded
    version = entry["api_version"]
    if entry["api_key"] == ApiKey.FETCH:
        begin_fetch(follower, request, version)
    elif entry["api_key"] == ApiKey.OFFSET_FOR_LEADER_EPOCH:
        for topic in request.topics:
            for each in topic.partitions:
                follower.follow(
                    TopicPartition(topic.topic, each.partition),
                    start=0,
                    end=20,
                    epoch=each.current_leader_epoch,
                    last_epoch=each.leader_epoch,
                    cut=True,
                )
    else:
        begin_out_of_range(follower, request)
    follower.fetcher.step()
    sent = [each for each in follower.script.asked if each[0].api_key == entry["api_key"]]
    if entry["api_key"] == ApiKey.LIST_OFFSETS:
        # The follower asks for the log end first, then for the log start.
        kind = request.topics[0].partitions[0].timestamp
        sent = [each for each in sent if each[0].topics[0].partitions[0].timestamp == kind]
    ours, ours_version = sent[0]
    assert ours_version == version
    assert in_any_order(plain(ours, version)) == in_any_order(plain(request, version))


def begin_fetch(follower: Follower, request: Any, version: int) -> None:
    for topic in request.topics:
        for each in topic.partitions:
            start = max(0, each.log_start_offset) if version >= 5 else 0
            follower.follow(
                TopicPartition(topic.topic, each.partition),
                start=start,
                end=each.fetch_offset,
                epoch=each.current_leader_epoch if version >= 9 else 0,
                last_epoch=-1,
                cut=False,
            )
    follower.in_session(request)
    if request.session_epoch > 0 and not request.topics:
        # The session has a partition whose position the leader already knows.
        idle = TopicPartition("idle", 0)
        follower.follow(idle, start=0, end=0, epoch=0, last_epoch=-1, cut=False)
        most = FetcherSettings().max_bytes
        follower.fetcher._session.asked[idle] = PartitionFetch(0, 0, 0, most)
    follower.script.answers[ApiKey.FETCH] = [_answer_to(request)]


def _answer_to(request: Any) -> Any:
    return FetchResponse(session_id=max(1, request.session_id))


def begin_out_of_range(follower: Follower, request: Any) -> None:
    (topic,) = request.topics
    (each,) = topic.partitions
    key = TopicPartition(topic.topic, each.partition)
    epoch = getattr(each, "current_leader_epoch", 0)
    follower.follow(key, start=0, end=5, epoch=epoch, last_epoch=-1, cut=False)
    refused = FetchResponsePartition(key.partition, OUT_OF_RANGE, records=b"")
    follower.script.answers[ApiKey.FETCH] = [
        FetchResponse(session_id=1, topics=[FetchResponseTopic(key.topic, [refused])])
    ]

    def offset(at: int) -> Any:
        found = ListOffsetsResponsePartition(key.partition, 0, offset=at, offsets=[at])
        return ListOffsetsResponse(topics=[ListOffsetsResponseTopic(key.topic, [found])])

    follower.script.answers[ApiKey.LIST_OFFSETS] = [offset(30), offset(10)]


@pytest.mark.parametrize("run", LEVELS)
def test_follower_stores_answers_of_genuine_leader(run: str, logs: LogManager) -> None:
    for place, entry in frames(run):
        if entry["api_key"] == ApiKey.FETCH and entry["response"] is not None:
            with case(place):
                check_answer(follower_of(logs, run, entry), entry)


def check_answer(follower: Follower, entry: Any) -> None:
    version = entry["api_version"]
    _, decoded = decode_request(bytes.fromhex(entry["request"]))
    answer: Any = decode_response(1, version, bytes.fromhex(entry["response"]))[1]
    request: Any = decoded
    begin_fetch(follower, request, version)
    named = {(t.topic, p.partition) for t in request.topics for p in t.partitions}
    # Partitions that the request does not name: their logs end where the first batch begins.
    for topic in answer.topics:
        for each in topic.partitions:
            if (topic.topic, each.partition) in named:
                continue
            first = next(iter_entries(bytes(each.records)), None)
            end = max(0, each.high_watermark) if first is None else first.base_offset
            key = TopicPartition(topic.topic, each.partition)
            follower.follow(key, start=0, end=end, epoch=0, last_epoch=-1, cut=False)
            most = FetcherSettings().max_bytes
            follower.fetcher._session.asked[key] = PartitionFetch(end, 0, 0, most)
    follower.script.answers[ApiKey.FETCH] = [answer]
    follower.fetcher.step()
    assert follower.fetcher.followed.failed == {
        TopicPartition(topic.topic, each.partition)
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code == 74
    }
    if version >= 7 and not answer.error_code:
        assert follower.fetcher._session._id == answer.session_id
    for topic in answer.topics:
        for each in topic.partitions:
            partition = follower.partitions[TopicPartition(topic.topic, each.partition)]
            entries = list(iter_entries(bytes(each.records)))
            if each.error_code:
                followed = follower.fetcher.followed.by_key.get(partition.key)
                assert followed is None or followed.delayed_until_ms or each.error_code == 1
                continue
            if entries:
                assert partition.log_end_offset == entries[-1].last_offset + 1
                size = sum(batch.size for batch in entries)
                stored = partition.log.read_bytes(
                    entries[0].base_offset, size, end=partition.log_end_offset
                )
                assert stored == bytes(each.records)[:size], "byte for byte"
            assert partition.high_watermark == min(each.high_watermark, partition.log_end_offset)
            if version >= 5:
                assert partition.log_start_offset >= each.log_start_offset
