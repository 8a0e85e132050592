"""A fetcher against a leader with real logs: requests, appends, truncation, errors, throttling."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.clocks import Clock
from tests.support.fake_leader import FakeLeader, StillRuntime, lost
from tests.support.logs import message_set, started
from tests.support.replicas import decided
from zkbroker.errors import ErrorCode, NetworkError, RequestTimedOut, StorageError
from zkbroker.log import TopicPartition, names
from zkbroker.protocol import ApiKey
from zkbroker.records import set_offsets
from zkbroker.replica.fetcher import ReplicaFetcher
from zkbroker.replica.fetching import FetcherSettings
from zkbroker.replica.leadership import LeaderSettings
from zkbroker.replica.partition import Partition
from zkbroker.replica.throttle import ReplicationThrottle

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SMALL = {"segment_bytes": 20_000, "index_interval_bytes": 200}


class LeaderAndFollower:
    """Broker 1 leads and broker 2 follows, both with logs on disk."""

    def __init__(self, tmp_path: Any, *, slots: int = 10, **settings: Any) -> None:
        self.leader = FakeLeader(slots)
        self.clock = Clock()
        self.runtime = StillRuntime(self.clock)
        self.throttle = ReplicationThrottle(self.runtime)  # type: ignore[arg-type]
        self.followers: dict[TopicPartition, Partition] = {}
        self._open = [started(tmp_path / "1", **SMALL), started(tmp_path / "2", **SMALL)]
        self.logs = [each.__enter__() for each in self._open]
        self.fetcher = ReplicaFetcher(
            2,
            1,
            0,
            self.leader.connect,
            FetcherSettings(**settings),
            runtime=self.runtime,  # type: ignore[arg-type]
            throttle=self.throttle,
        )

    def close(self) -> None:
        for each in self._open:
            each.__exit__(None, None, None)

    def _partition(self, broker: int, key: TopicPartition) -> Partition:
        made = Partition(
            key,
            broker,
            runtime=self.runtime,  # type: ignore[arg-type]
            settings=LeaderSettings(),
        )
        made.open(self.logs[broker - 1].get_or_create(key), 0)
        return made

    def add(self, key: TopicPartition = T0, *, epoch: int = 0, isr: Any = (1, 2)) -> Partition:
        """Add a partition at both brokers, without following it."""
        leader = self._partition(1, key)
        leader.become_leader(decided(1, epoch, isr, (1, 2)))
        self.leader.partitions[key] = leader
        follower = self.followers[key] = self._partition(2, key)
        follower.become_follower(decided(1, epoch, isr, (1, 2)))
        return follower

    def follow(self, key: TopicPartition = T0, **more: Any) -> Partition:
        follower = self.add(key, **more)
        self.fetcher.follow(follower.role)
        return follower

    def replicate(self, count: int) -> Partition:
        """Follow t-0, and copy some messages."""
        follower = self.follow()
        self.produce(count)
        self.steps(2)
        return follower

    def begin_epoch(self, epoch: int, key: TopicPartition = T0) -> None:
        """Begin a new epoch of the same leader at both brokers."""
        self.leader.partitions[key].become_leader(decided(1, epoch, (1, 2), (1, 2)))
        self.fetcher.followed.forget(key)
        self.followers[key].become_follower(decided(1, epoch, (1, 2), (1, 2)))
        self.fetcher.follow(self.followers[key].role)

    def produce(self, count: int = 1, key: TopicPartition = T0, **more: Any) -> None:
        self.leader.partitions[key].leadership().append(bytearray(message_set(count, **more)))

    def steps(self, count: int = 10) -> None:
        for _ in range(count):
            self.fetcher.step()

    def advance_clock(self, ms: int = 1000) -> None:
        self.clock.now += ms

    def equal_logs(self, key: TopicPartition = T0, *, with_epochs: bool = True) -> bool:
        def data(partition: Partition) -> bytes:
            return b"".join(each.path(names.LOG).read_bytes() for each in partition.log.segments)

        leader, follower = self.leader.partitions[key], self.followers[key]
        # The leader alone knows an epoch without records.
        epochs = [each for each in leader.log.epochs.all() if each[1] < leader.log_end_offset]
        return data(leader) == data(follower) and (
            not with_epochs or epochs == follower.log.epochs.all()
        )

    @property
    def fetches(self) -> list[Any]:
        return self.leader.of(ApiKey.FETCH)

    @property
    def list_offsets_timestamps(self) -> list[int]:
        requests = self.leader.of(ApiKey.LIST_OFFSETS)
        return [each.topics[0].partitions[0].timestamp for each in requests]


@pytest.fixture
def make(tmp_path):
    made = []

    def pair(**settings: Any) -> LeaderAndFollower:
        made.append(LeaderAndFollower(tmp_path / str(len(made)), **settings))
        return made[-1]

    yield pair
    for each in made:
        each.close()


def fetched(request: Any) -> dict[int, tuple[int, int]]:
    """Return partition -> (fetch offset, leader epoch) of a Fetch."""
    return {
        each.partition: (each.fetch_offset, each.current_leader_epoch)
        for topic in request.topics
        for each in topic.partitions
    }


def partitions_of(answer: Any) -> list[Any]:
    return [each for topic in answer.topics for each in topic.partitions]


def records_of_epoch(leader: Partition, count: int, epoch: int, **more: Any) -> bytes:
    """Return unreplicated batches of an epoch at a log's end."""
    batch = bytearray(message_set(count, **more))
    set_offsets(batch, 0, leader.log_end_offset, epoch)
    return bytes(batch)


# -- copying


def test_log_is_copied_byte_for_byte_with_watermark_and_start(make):
    pair = make()
    follower = pair.follow()
    for number in range(30):
        pair.produce(5, magic=2, prefix=f"{number}-")
    pair.steps()
    assert follower.log_end_offset == 150
    assert pair.equal_logs()
    # The leader's high watermark advances at the next fetch, the follower's one fetch later.
    assert pair.leader.partitions[T0].high_watermark == 150
    assert follower.high_watermark == 150
    assert pair.fetcher.followed.lags() == {T0: 0}
    assert pair.fetcher.bytes_in == follower.log.size_bytes
    pair.leader.partitions[T0].leadership().delete_records_before(40)
    pair.steps(1)
    assert follower.log_start_offset == 40


def test_limited_responses_copy_whole_log(make):
    pair = make(max_bytes=3000, response_max_bytes=3000)
    follower = pair.follow()
    for _ in range(40):
        pair.produce(1, size=500)
    pair.steps(2)
    assert 0 < follower.log_end_offset < 40
    pair.steps(20)
    assert follower.log_end_offset == 40
    assert pair.equal_logs()


def test_partitions_without_records_are_fetched_first(make):
    pair = make(
        max_bytes=3000, response_max_bytes=3000, slots=0
    )  # no sessions: each request is complete
    keys = [TopicPartition("t", number) for number in range(4)]
    for key in keys:
        pair.follow(key)
        for _ in range(20):
            pair.produce(1, key, size=500)
    pair.steps(10)
    ends = [pair.followers[key].log_end_offset for key in keys]
    assert min(ends) > 0
    assert max(ends) - min(ends) <= 6


def test_message_above_fetch_limits_is_copied(make):
    pair = make(max_bytes=1000, response_max_bytes=1000)
    follower = pair.follow()
    pair.produce(1, size=15_000)
    pair.produce(1)
    pair.steps(4)
    assert follower.log_end_offset == 2


def test_leader_log_starting_inside_batch_is_copied(make):
    pair = make()
    follower = pair.add()
    pair.produce(10)
    leader = pair.leader.partitions[T0]
    leader.role.high_watermark = 10
    leader.leadership().delete_records_before(5)
    assert leader.log_start_offset == 5
    pair.fetcher.follow(follower.role)
    pair.steps()
    assert (follower.log_start_offset, follower.log_end_offset) == (5, 10)
    assert pair.equal_logs()


# -- versions


@pytest.mark.parametrize(
    ("level", "fetch", "offsets", "epochs"),
    [("0.8.2", 0, 0, None), ("2.1", 10, 4, 2), ("2.2", 10, 5, 2), ("2.3", 11, 5, 3)],
)
def test_request_versions_follow_protocol_level(make, level, fetch, offsets, epochs):
    pair = make(level=level)
    follower = pair.follow(epoch=3)
    # Fetch v0 converts newer records to magic 0, which has no epochs.
    pair.produce(3, magic=2 if fetch else 0)
    pair.steps(2)
    pair.begin_epoch(4)
    pair.steps(1)
    assert follower.log_end_offset == 3
    assert pair.equal_logs(with_epochs=fetch > 0)
    # The follower's log ends before the leader's log starts.
    pair.leader.partitions[T0].log.truncate_fully_and_start_at(10)
    pair.steps(2)
    assert follower.log_start_offset == 10
    versions = {int(each.api_key): version for each, version in pair.leader.requests}
    expected = {1: fetch, 2: offsets} | ({} if epochs is None else {23: epochs})
    assert versions == expected
    assert all(each.replica_id == 2 for each, version in pair.leader.requests if version != 2)


def test_level_0_8_2_shares_limit_and_raises_it_for_large_message(make):
    pair = make(level="0.8.2", response_max_bytes=40_000, max_bytes=20_000)
    keys = [TopicPartition("t", number) for number in range(8)]
    for key in keys:
        pair.follow(key)
    pair.produce(1, keys[0], size=15_000)
    pair.steps(1)
    sizes = {each.max_bytes for topic in pair.fetches[0].topics for each in topic.partitions}
    assert sizes == {5000}
    pair.steps(3)
    assert pair.followers[keys[0]].log_end_offset == 1
    pair.steps(1)
    assert {e.max_bytes for t in pair.fetches[-1].topics for e in t.partitions} == {5000}


# -- sessions


def test_incremental_fetch_names_only_changes(make):
    pair = make()
    pair.follow(T0)
    pair.follow(T1)
    pair.steps(3)
    first, *later = pair.fetches
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert fetched(first) == {0: (0, 0), 1: (0, 0)}
    assert [each.session_epoch for each in later] == [1, 2]
    assert all(fetched(each) == {} for each in later)
    pair.produce(2, T1)
    pair.steps(2)
    assert fetched(pair.fetches[-1]) == {1: (2, 0)}
    pair.fetcher.followed.forget(T0)
    pair.steps(1)
    forgotten = pair.fetches[-1].forgotten_topics
    assert [(each.topic, each.partitions) for each in forgotten] == [("t", [0])]
    pair.begin_epoch(1, T1)
    pair.steps(1)
    assert fetched(pair.fetches[-1]) == {1: (2, 1)}


def test_forgetting_last_partition_ends_session(make):
    pair = make()
    pair.follow()
    pair.steps(2)
    pair.fetcher.followed.forget(T0)
    assert pair.fetcher.step()
    assert len(pair.leader.sessions) == 0
    assert not pair.fetcher.step()
    pair.follow(T1)
    pair.steps(1)
    assert (pair.fetches[-1].session_id, pair.fetches[-1].session_epoch) == (0, 0)


def test_leader_without_sessions_gets_full_fetches(make):
    pair = make(slots=0)
    follower = pair.follow()
    pair.produce(2)
    pair.steps(3)
    assert [each.session_epoch for each in pair.fetches] == [0, 0, 0]
    assert fetched(pair.fetches[-1]) == {0: (2, 0)}
    assert follower.high_watermark == 2


@pytest.mark.parametrize("known", [False, True])
def test_lost_session_is_restarted(make, known):
    pair = make()
    follower = pair.follow()
    pair.steps(2)
    session = pair.fetches[-1].session_id
    if known:
        pair.fetcher._session._epoch = 40  # 71: out of sequence
    else:
        pair.leader.sessions._sessions.clear()  # 70: it was evicted
    pair.produce(1)
    pair.steps(2)
    again = pair.fetches[-1]
    assert (again.session_id, again.session_epoch) == (session if known else 0, 0)
    assert fetched(again) == {0: (0, 0)}
    assert follower.log_end_offset == 1


def test_other_error_of_whole_response_backs_off(make):
    pair = make()
    pair.follow()
    pair.leader.change_answer = lambda answer: setattr(answer, "error_code", 56)
    pair.steps(5)
    assert len(pair.fetches) == 1


def test_response_with_wrong_partitions_is_discarded(make):
    pair = make()
    follower = pair.follow()

    def lacking(answer):
        if hasattr(answer, "session_id"):
            answer.topics.clear()

    pair.produce(1)
    pair.leader.change_answer = lacking
    pair.steps(3)
    assert len(pair.fetches) == 1
    assert follower.log_end_offset == 0
    pair.advance_clock()

    def renamed(answer):
        for topic in answer.topics:
            topic.topic = "other"

    pair.leader.change_answer = renamed
    pair.steps(3)
    assert len(pair.fetches) == 2
    pair.leader.change_answer = lambda answer: None
    pair.advance_clock()
    pair.steps(2)
    assert follower.log_end_offset == 1


# -- truncation


def test_log_is_truncated_before_first_fetch(make):
    pair = make()
    follower = pair.add(epoch=1)
    pair.produce(3)
    common = bytes(pair.leader.partitions[T0].log.read_bytes(0, 1 << 20, end=3))
    follower.log.append_as_follower(common)
    follower.log.append_as_follower(records_of_epoch(follower, 4, 2, prefix="lost"))
    pair.leader.partitions[T0].become_leader(decided(1, 3, (1, 2), (1, 2)))
    pair.produce(2)
    follower.become_follower(decided(1, 3, (1, 2), (1, 2)))
    pair.fetcher.follow(follower.role)
    pair.steps()
    assert [each.api_key for each, _ in pair.leader.requests[:2]] == [23, 1]
    (question,) = pair.leader.of(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    assert question.topics[0].partitions[0].leader_epoch == 2
    assert question.topics[0].partitions[0].current_leader_epoch == 3
    assert fetched(pair.fetches[0]) == {0: (3, 3)}
    assert follower.log_end_offset == 5
    assert pair.equal_logs()


def test_one_request_asks_for_the_epochs_of_many_partitions(make):
    pair = make()
    epochs = {TopicPartition("a", 0): (4, 5), TopicPartition("b", 1): (6, 6)}
    epochs[TopicPartition("a", 2)] = (1, 7)
    for key, (first, _) in epochs.items():
        pair.follow(key, epoch=first)
        pair.produce(key=key)
    pair.steps(3)
    for key, (_, now) in epochs.items():
        pair.begin_epoch(now, key)
    pair.steps(1)
    (request,) = pair.leader.of(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    assert request.replica_id == 2
    assert [
        (topic.topic, each.partition, each.current_leader_epoch, each.leader_epoch)
        for topic in request.topics
        for each in topic.partitions
    ] == [("a", 0, 5, 4), ("a", 2, 7, 1), ("b", 1, 6, 6)]


def test_recovered_records_are_flushed_before_first_fetch(make):
    """The leader takes all records below the fetch offset for flushed, and acknowledges them."""
    pair = make()
    follower = pair.add(epoch=1)
    pair.produce(3)
    follower.log.append_as_follower(
        bytes(pair.leader.partitions[T0].log.read_bytes(0, 1 << 20, end=3))
    )
    assert follower.log.recovery_point == 0
    follower.log.update_config(replace(follower.log.config, flush_messages=1))
    pair.fetcher.follow(follower.role)
    durable = []
    pair.leader.before_answer = lambda request: durable.append(
        (request.api_key, follower.log.durability.durable)
    )
    pair.steps(2)
    assert durable[:2] == [(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0), (ApiKey.FETCH, 3)]


def test_truncation_asks_again_for_older_epoch(make):
    pair = make()
    follower = pair.add(epoch=0)
    pair.produce(3)
    leader = pair.leader.partitions[T0]
    follower.log.append_as_follower(bytes(leader.log.read_bytes(0, 1 << 20, end=3)))
    # The leader appended in epoch 1, the follower in 2 and 4; the leader leads again in 5.
    leader.become_leader(decided(1, 1, (1, 2), (1, 2)))
    pair.produce(2, prefix="one")
    for epoch in (2, 4):
        follower.log.append_as_follower(records_of_epoch(follower, 2, epoch))
    leader.become_leader(decided(1, 5, (1, 2), (1, 2)))
    pair.produce(1)
    follower.become_follower(decided(1, 5, (1, 2), (1, 2)))
    pair.fetcher.follow(follower.role)
    pair.steps()
    epochs = [
        each.topics[0].partitions[0].leader_epoch
        for each in pair.leader.of(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    ]
    assert epochs == [4, 0]
    assert follower.log_end_offset == 6
    assert pair.equal_logs()


def test_log_without_epochs_is_truncated_to_high_watermark(make):
    pair = make()
    follower = pair.add()
    pair.produce(2)
    old = message_set(4, magic=1)
    follower.log.append_as_follower(old)
    follower.role.high_watermark = 0
    assert follower.role.latest_epoch == -1
    pair.fetcher.follow(follower.role)
    pair.steps()
    assert pair.leader.of(ApiKey.OFFSET_FOR_LEADER_EPOCH) == []
    assert follower.log_end_offset == 2
    assert pair.equal_logs()


def test_failed_truncation_is_retried(make):
    pair = make()
    follower = pair.add(epoch=0)
    follower.log.append_as_follower(records_of_epoch(follower, 1, 0))
    pair.fetcher.follow(follower.role)
    pair.leader.errors[T0] = ErrorCode.NOT_LEADER_FOR_PARTITION
    pair.steps(3)
    assert len(pair.leader.requests) == 1
    pair.leader.errors.clear()
    pair.leader.fail_next = [lost()]
    pair.advance_clock()
    pair.steps(3)
    assert len(pair.leader.requests) == 2
    assert pair.leader.closed == 1
    pair.advance_clock()
    pair.steps(3)
    assert follower.log_end_offset == 0
    assert len(pair.leader.connections) == 2


def test_epoch_change_during_truncation_discards_response(make):
    pair = make()
    follower = pair.add(epoch=1)
    follower.log.append_as_follower(records_of_epoch(follower, 5, 0))

    def lead_meanwhile(request):
        pair.leader.before_answer = lambda request: None
        pair.fetcher.followed.forget(T0)
        follower.become_leader(decided(2, 2, (1, 2), (1, 2)))

    pair.leader.before_answer = lead_meanwhile
    pair.fetcher.follow(follower.role)
    pair.steps(3)
    assert follower.log_end_offset == 5


def test_epoch_change_during_fetch_discards_response(make):
    pair = make()
    follower = pair.follow()
    pair.produce(3)

    def lead_meanwhile(request):
        pair.leader.before_answer = lambda request: None
        pair.fetcher.followed.forget(T0)
        follower.become_follower(decided(3, 1, (1, 2), (1, 2)))

    pair.leader.before_answer = lead_meanwhile
    pair.steps(2)
    assert follower.log_end_offset == 0
    assert pair.fetcher.followed.idle


def test_response_for_other_offset_is_discarded(make):
    pair = make()
    follower = pair.follow()
    pair.steps(1)
    pair.produce(3)

    def append_meanwhile(request):
        pair.leader.before_answer = lambda request: None
        follower.log.append_as_follower(records_of_epoch(follower, 1, 0))

    pair.leader.before_answer = append_meanwhile
    pair.steps(1)
    assert follower.log_end_offset == 1
    assert follower.high_watermark == 0
    assert pair.fetcher.followed.failed == set()
    pair.steps(1)
    assert fetched(pair.fetches[-1]) == {0: (1, 0)}


# -- errors


def test_fenced_epoch_waits_for_controller(make):
    pair = make()
    follower = pair.follow()
    pair.steps(1)
    pair.leader.partitions[T0].become_leader(decided(1, 1, (1, 2), (1, 2)))
    pair.produce(1)
    pair.steps(1)
    assert pair.fetcher.followed.failed == {T0}
    pair.advance_clock(10_000)
    count = len(pair.leader.requests)
    pair.steps(3)
    assert len(pair.leader.requests) <= count + 1  # the end of the session
    pair.begin_epoch(2)
    assert pair.fetcher.followed.failed == set()
    pair.steps(3)
    assert follower.log_end_offset == 1


@pytest.mark.parametrize("code", [75, 56, -1, 9999])
def test_other_errors_back_off_up_to_limit(make, code):
    pair = make(backoff_ms=400)
    follower = pair.follow()
    pair.follow(T1)
    pair.steps(1)
    pair.produce(1)
    if code == 9999:

        def unknown(answer):
            for each in partitions_of(answer):
                each.error_code = 9999 if each.partition == 0 else 0

        pair.leader.change_answer = unknown
    else:
        pair.leader.errors[T0] = code
    pair.steps(1)
    waits = []
    for _ in range(6):
        followed = pair.fetcher.followed.by_key[T0]
        waits.append(followed.delayed_until_ms - pair.clock.now)
        pair.advance_clock(waits[-1] - 1)
        pair.steps(2)
        assert 0 not in fetched(pair.fetches[-1]), "fetched before its time"
        pair.advance_clock(1)
        pair.steps(1)
    assert waits == [50, 100, 200, 400, 400, 400]
    # Other partitions are copied meanwhile.
    pair.produce(1, T1)
    pair.leader.errors.clear()
    pair.leader.change_answer = lambda answer: None
    pair.advance_clock()
    pair.steps(3)
    assert pair.followers[T1].log_end_offset == 1
    assert follower.log_end_offset == 1
    assert pair.fetcher.followed.by_key[T0].backoff_ms == 0


def test_lost_connection_starts_new_connection_and_session(make):
    pair = make()
    follower = pair.follow()
    pair.steps(2)
    session = pair.fetches[-1].session_id
    pair.produce(1)
    pair.leader.fail_next = [lost()]
    pair.steps(3)
    assert follower.log_end_offset == 0
    assert pair.leader.closed == 1
    pair.advance_clock()
    pair.steps(1)
    assert pair.leader.connections == [(1, 0), (1, 0)]
    assert (pair.fetches[-1].session_id, pair.fetches[-1].session_epoch) == (session, 0)
    assert follower.log_end_offset == 1


def test_damaged_records_are_not_appended_and_fetched_again(make):
    pair = make()
    follower = pair.follow()
    pair.produce(2)

    def damage(answer):
        pair.leader.change_answer = lambda answer: None
        for each in partitions_of(answer):
            each.records = each.records[:-1] + bytes([each.records[-1] ^ 1])

    pair.leader.change_answer = damage
    pair.steps(2)
    assert follower.log_end_offset == 0
    pair.advance_clock()
    pair.steps(1)
    assert follower.log_end_offset == 2
    assert pair.equal_logs()


def test_storage_error_stops_only_its_partition(make, monkeypatch):
    pair = make()
    follower = pair.follow()
    pair.follow(T1)
    pair.produce(1)
    pair.produce(1, T1)

    def broken(data):
        raise StorageError("no disk")

    monkeypatch.setattr(follower.log, "append_as_follower", broken)
    pair.steps(2)
    assert pair.fetcher.followed.failed == {T0}
    assert pair.followers[T1].log_end_offset == 1


# -- out of range


def test_log_beyond_leaders_end_is_truncated(make):
    pair = make()
    follower = pair.replicate(5)
    # After an unclean election the leader has fewer records.
    pair.leader.partitions[T0].log.truncate_fully_and_start_at(0)
    pair.produce(2)
    pair.leader.partitions[T0].log.epochs.clear()
    pair.steps(3)
    assert pair.list_offsets_timestamps == [-1]
    assert follower.log_end_offset == 2


def follow_leader_starting_at_25(pair):
    """Follow with a log that ends at 5; the leader's log starts at 25 and ends at 28."""
    follower = pair.replicate(5)
    pair.fetcher.followed.forget(T0)
    pair.produce(20)
    pair.leader.partitions[T0].log.truncate_fully_and_start_at(25)
    pair.produce(3)
    pair.fetcher.follow(follower.role, truncate=False)
    return follower


def test_log_before_leaders_start_is_emptied(make):
    pair = make()
    follower = follow_leader_starting_at_25(pair)
    pair.steps(3)
    assert pair.list_offsets_timestamps == [-1, -2]
    assert (follower.log_start_offset, follower.log_end_offset) == (25, 28)


@pytest.mark.parametrize("error", [RequestTimedOut("no answer"), NetworkError("broken")])
def test_failed_list_offsets_is_retried(make, error):
    pair = make()
    follower = follow_leader_starting_at_25(pair)

    def fail(request: Any) -> None:
        if request.api_key == ApiKey.LIST_OFFSETS:
            pair.leader.before_answer = lambda request: None
            raise error

    pair.leader.before_answer = fail
    pair.steps(2)
    assert not pair.fetcher.followed.failed
    pair.advance_clock()
    pair.steps(3)
    assert (follower.log_start_offset, follower.log_end_offset) == (25, 28)


@pytest.mark.parametrize(("code", "failed"), [(74, True), (75, False), (6, False)])
def test_error_of_list_offsets_keeps_log(make, code, failed):
    pair = make()
    follower = pair.replicate(5)
    pair.leader.partitions[T0].log.truncate_fully_and_start_at(0)

    def refuse(answer):
        for each in partitions_of(answer):
            if hasattr(each, "timestamp"):
                each.error_code = code

    pair.leader.change_answer = refuse
    pair.steps(3)
    assert follower.log_end_offset == 5
    assert (T0 in pair.fetcher.followed.failed) is failed
    assert len(pair.leader.of(ApiKey.LIST_OFFSETS)) == 1


# -- throttle


def throttle_replica(pair: LeaderAndFollower, key: TopicPartition, text: str) -> None:
    pair.logs[1].update_topic_config(key.topic, {"follower.replication.throttled.replicas": text})


def test_listed_replica_is_throttled(make):
    pair = make(max_bytes=2000)
    follower = pair.follow(isr=(1,))
    throttle_replica(pair, T0, "0:2")
    for _ in range(200):
        pair.produce(1, size=900)
    pair.throttle.rate = 2000
    started_ms = pair.clock.now
    for _ in range(600):
        pair.steps(1)
        pair.advance_clock(100)
        if follower.log_end_offset == 200:
            break
    seconds = (pair.clock.now - started_ms) / 1000
    rate = follower.log.size_bytes / seconds
    assert follower.log_end_offset == 200 or seconds >= 60
    assert 0.8 * 2000 <= rate <= 1.2 * 2000


@pytest.mark.parametrize("text", ["", "0:1", "1:2"])
def test_unlisted_replicas_are_not_throttled(make, text):
    pair = make(max_bytes=2000)
    follower = pair.follow(isr=(1,))
    throttle_replica(pair, T0, text)
    for _ in range(50):
        pair.produce(1, size=900)
    pair.throttle.rate = 10
    pair.throttle.record(1000)
    pair.steps(60)
    assert follower.log_end_offset == 50


def test_replica_without_lag_is_not_throttled(make):
    pair = make()
    follower = pair.follow()
    throttle_replica(pair, T0, "*")
    pair.produce(1)
    pair.steps(2)
    assert pair.fetcher.followed.lags() == {T0: 0}
    pair.throttle.rate = 1
    pair.throttle.record(1_000_000)
    pair.produce(1)
    pair.steps(1)
    assert follower.log_end_offset == 2


def test_throttled_partition_is_not_fetched(make):
    pair = make()
    pair.follow(T0, isr=(1,))
    pair.follow(T1)
    pair.produce(1)
    throttle_replica(pair, T0, "0:2")
    pair.throttle.rate = 1
    pair.throttle.record(1_000_000)
    pair.steps(2)
    assert fetched(pair.fetches[0]) == {1: (0, 0)}


# -- the task


def test_fetcher_waits_only_while_idle(make):
    pair = make()
    assert pair.fetcher._step() is None
    pair.follow()
    pair.leader.fail_next = [lost()]
    pair.steps(1)
    assert 0 < pair.fetcher._step() <= 0.05
    pair.fetcher.stop()
    assert pair.fetcher.followed.idle


def test_stopped_fetcher_does_not_append(make):
    pair = make()
    follower = pair.follow()
    pair.produce(1)
    pair.leader.before_answer = lambda request: pair.fetcher.stop()
    pair.steps(1)
    assert follower.log_end_offset == 0
