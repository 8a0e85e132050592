"""Fetchers: leaders, resets, sizes, full queues; on threads and on gevent."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.support.logs_cluster import LeaderLog, LogsCluster, log_with
from tests.support.message_sets import message_set
from zkbroker.config.fetching import FetchSettings
from zkbroker.consumer import KafkaStream
from zkbroker.consumer.fetching import fetchers
from zkbroker.consumer.fetching.fetchers import Fetchers
from zkbroker.consumer.fetching.partition import ConsumedPartition
from zkbroker.errors import ErrorCode, MessageSizeTooLarge, OffsetOutOfRange, ProtocolError
from zkbroker.records import MessageSetBuilder
from zkbroker.runtime import Runtime, get_runtime


class FetchersSetup:
    """Fetchers over an in-memory cluster, with one stream."""

    def __init__(self, runtime: Runtime, logs: dict[tuple[str, int], LeaderLog]) -> None:
        self.runtime = runtime
        self.cluster = LogsCluster(runtime, logs)
        self.fetchers: Fetchers | None = None
        self.stream = KafkaStream(runtime, timeout_ms=10_000, on_room=self._wake)

    def _wake(self) -> None:
        assert self.fetchers is not None
        self.fetchers.wake()

    def start(
        self, offsets: dict[tuple[str, int], int | None], **settings: object
    ) -> dict[tuple[str, int], ConsumedPartition]:
        settings = {"max_wait_ms": 20, "leader_backoff_ms": 5, **settings}
        chosen = FetchSettings(**{"auto_offset_reset": "largest", **settings})  # type: ignore[arg-type]
        self.fetchers = Fetchers(self.cluster, chosen, self.runtime)
        partitions = {
            key: ConsumedPartition(
                *key, self.stream, self.runtime.lock(), chosen.partition_bytes, offset
            )
            for key, offset in offsets.items()
        }
        self.fetchers.start(partitions.values())
        return partitions

    def seek(self, partition: ConsumedPartition, offset: int) -> None:
        partition.seek(offset)
        self.stream.interrupt()
        self._wake()

    def read(self, count: int) -> list[tuple[str, int, int]]:
        return [
            (m.topic, m.partition, m.offset) for m in itertools.islice(iter(self.stream), count)
        ]


Make = Callable[[dict[tuple[str, int], LeaderLog]], FetchersSetup]


@pytest.fixture(params=["threads", "gevent"])
def make_setup(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[FetchersSetup] = []

    def make(logs: dict[tuple[str, int], LeaderLog]) -> FetchersSetup:
        made.append(FetchersSetup(get_runtime(str(request.param)), logs))
        return made[-1]

    yield make
    for each in made:
        if each.fetchers is not None:
            assert each.fetchers.close(10)


def log_with_large_message() -> LeaderLog:
    """Return a log of a message of 5000 bytes and a small one, whose broker may cut entries."""
    builder = MessageSetBuilder(2)
    builder.append(None, b"x" * 5000)
    log = LeaderLog()
    log.whole_first_entry = False
    log.append(builder.build(0))
    log.append(message_set(2, 1, base=1))
    return log


def test_one_stream_delivers_partitions_of_several_brokers(make_setup: Make) -> None:
    logs = {("t", p): log_with(3, leader=p % 2) for p in range(4)}
    setup = make_setup(logs)
    setup.start(dict.fromkeys(logs, 0))
    messages = setup.read(12)
    for key in logs:
        assert [m[2] for m in messages if m[:2] == key] == [0, 1, 2]
    assert {broker for broker, _, _ in setup.cluster.fetches} == {0, 1}


@pytest.mark.parametrize(("policy", "first"), [("smallest", 5), ("largest", 8)])
@pytest.mark.parametrize("offset", [None, 2, 100])
def test_unknown_or_invalid_offset_is_reset(
    make_setup: Make, policy: str, first: int, offset: int | None
) -> None:
    log = log_with(3, start=5)
    setup = make_setup({("t", 0): log})
    partition = setup.start({("t", 0): offset}, auto_offset_reset=policy)["t", 0]
    while partition.fetch_offset in (None, offset):
        setup.runtime.sleep(0.001)
    log.append(message_set(2, 1, base=8))
    assert setup.read(1) == [("t", 0, first)]


def test_out_of_range_error_without_reset_policy_has_valid_range(make_setup: Make) -> None:
    setup = make_setup({("t", 0): log_with(3, start=5)})
    partition = setup.start({("t", 0): 100}, auto_offset_reset="fail")["t", 0]
    for _ in range(2):
        with pytest.raises(OffsetOutOfRange, match="5 to 8") as raised:
            next(setup.stream)
        assert (raised.value.earliest, raised.value.latest) == (5, 8)
    setup.seek(partition, 7)
    assert setup.read(1) == [("t", 0, 7)]


def test_fetch_size_is_doubled_until_the_message_fits(make_setup: Make) -> None:
    setup = make_setup({("t", 0): log_with_large_message()})
    partition = setup.start({("t", 0): 0}, partition_bytes=1000, limit_bytes=8000)["t", 0]
    assert setup.read(2) == [("t", 0, 0), ("t", 0, 1)]
    assert partition.fetch_bytes == 1000


def test_message_above_fetch_limit_raises_until_seek(make_setup: Make) -> None:
    setup = make_setup({("t", 0): log_with_large_message()})
    partition = setup.start({("t", 0): 0}, partition_bytes=1000, limit_bytes=4000)["t", 0]
    for _ in range(2):
        with pytest.raises(MessageSizeTooLarge, match="t-0 at offset 0"):
            next(setup.stream)
    setup.seek(partition, 1)
    assert setup.read(1) == [("t", 0, 1)]


def test_moved_partition_is_fetched_from_new_leader(make_setup: Make) -> None:
    log = log_with(2, leader=0)
    setup = make_setup({("t", 0): log})
    setup.start({("t", 0): 0})
    assert setup.read(2) == [("t", 0, 0), ("t", 0, 1)]
    log.leader = 1
    log.append(message_set(2, 1, base=2))
    assert setup.read(1) == [("t", 0, 2)]
    assert setup.cluster.refreshed


def test_partition_of_dead_broker_is_fetched_after_election(make_setup: Make) -> None:
    log = log_with(1, leader=0)
    setup = make_setup({("t", 0): log, ("t", 1): log_with(1, leader=1)})
    setup.cluster.down.add(0)
    tries = []

    def recover() -> None:
        tries.append(1)
        log.leader = None
        if len(tries) == 3:
            log.leader = 0
            setup.cluster.down.clear()

    setup.cluster.on_refresh = recover
    setup.start({("t", 0): 0, ("t", 1): 0})
    assert sorted(setup.read(2)) == [("t", 0, 0), ("t", 1, 0)]
    assert len(tries) >= 3


def test_permanent_error_is_raised_by_stream(make_setup: Make) -> None:
    log = log_with(1)
    log.error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    setup = make_setup({("t", 0): log})
    setup.start({("t", 0): 0})
    with pytest.raises(ProtocolError) as raised:
        next(setup.stream)
    assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_storage_error_of_broker_is_logged_once(
    make_setup: Make, caplog: pytest.LogCaptureFixture
) -> None:
    log = log_with(1)
    log.error = ErrorCode.KAFKA_STORAGE_ERROR
    setup = make_setup({("t", 0): log})
    tries: list[int] = []

    def recover() -> None:
        tries.append(1)
        if len(tries) == 3:
            log.error = 0

    setup.cluster.on_refresh = recover
    setup.start({("t", 0): 0})
    assert setup.read(1) == [("t", 0, 0)]
    warned = [each for each in caplog.records if each.levelname == "WARNING"]
    assert [each.getMessage() for each in warned] == [
        "partition given back t-0 at offset 0 error=KAFKA_STORAGE_ERROR"
    ]


def test_full_queue_of_one_partition_does_not_block_others(make_setup: Make) -> None:
    busy, quiet = log_with(*[10] * 50), log_with()
    setup = make_setup({("busy", 0): busy, ("quiet", 0): quiet})
    setup.start({("busy", 0): 0, ("quiet", 0): 0}, partition_bytes=400)
    while setup.stream.queued < 2:
        setup.runtime.sleep(0.001)
    quiet.append(message_set(2, 1))
    while setup.stream.queued < 3:
        setup.runtime.sleep(0.001)
    assert [m for m in setup.read(501) if m[0] == "quiet"] == [("quiet", 0, 0)]


def test_revoked_partition_is_not_fetched(make_setup: Make) -> None:
    logs = {("t", 0): log_with(1), ("t", 1): log_with(1)}
    setup = make_setup(logs)
    partitions = setup.start(dict.fromkeys(logs, 0))
    setup.read(2)
    partitions["t", 0].revoke()
    before = len(setup.cluster.fetches)
    while len(setup.cluster.fetches) < before + 3:
        setup.runtime.sleep(0.001)
    assert list(setup.cluster.fetches[-1][1]) == [("t", 1)]


def test_every_magic_is_read(make_setup: Make) -> None:
    log = LeaderLog()
    for magic in (0, 1, 2):
        log.append(message_set(magic, 2, base=log.end))
    setup = make_setup({("t", 0): log})
    setup.start({("t", 0): 0})
    assert [m[2] for m in setup.read(6)] == list(range(6))


def test_response_of_earlier_ownership_does_not_change_new_ownership(make_setup: Make) -> None:
    setup = make_setup({("t", 0): log_with(3)})
    old = setup.start({("t", 0): 0})["t", 0]
    setup.read(3)
    assert setup.fetchers is not None
    (fetcher,) = setup.fetchers._fetchers.values()
    new = ConsumedPartition("t", 0, setup.stream, setup.runtime.lock(), 1000, 1)
    fetcher.add(new)
    # Responses that arrive after the partition changed owners: an error, and data.
    fetcher._drop([old])
    fetcher._add(old, old.progress, 0, memoryview(message_set(2, 3)), "t-0")
    assert fetcher._partitions["t", 0] is new


# -- leaders that move


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_FOR_PARTITION,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
def test_leader_change_error_keeps_position(make_setup: Make, code: ErrorCode) -> None:
    log = log_with(4)
    log.error = code
    setup = make_setup({("t", 0): log})
    setup.start({("t", 0): 2})

    def recover() -> None:
        log.error = 0

    setup.cluster.on_refresh = recover
    assert setup.read(2) == [("t", 0, 2), ("t", 0, 3)]
    assert setup.cluster.refreshed == 1


def test_partition_leaves_hung_broker_when_new_leader_is_known(
    make_setup: Make,
) -> None:
    log = log_with(2)
    setup = make_setup({("t", 0): log})
    setup.start({("t", 0): 0})
    assert setup.read(2) == [("t", 0, 0), ("t", 0, 1)]
    setup.cluster.still.add(0)
    while setup.cluster.waiting_at_still == 0:
        setup.runtime.sleep(0.001)
    log.append(message_set(2, 2, base=2))
    setup.cluster.move(("t", 0), leader=1)
    assert setup.read(2) == [("t", 0, 2), ("t", 0, 3)]
    assert setup.cluster.fetches[-1][0] == 1


def test_leaders_are_refreshed_when_broker_does_not_answer(
    make_setup: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetchers, "_UNANSWERED_S", 0.05)
    monkeypatch.setattr(fetchers, "_IDLE_S", 0.01)
    log = log_with(2)
    setup = make_setup({("t", 0): log})
    setup.start({("t", 0): 0})
    assert setup.read(2) == [("t", 0, 0), ("t", 0, 1)]
    setup.cluster.still.add(0)
    while setup.cluster.waiting_at_still == 0:
        setup.runtime.sleep(0.001)
    log.append(message_set(2, 2, base=2))
    # The client gets no notification, as in a cluster found by bootstrap servers.
    log.leader, log.epoch = 1, 1
    assert setup.read(2) == [("t", 0, 2), ("t", 0, 3)]
    assert setup.cluster.refreshed > 0


def test_former_leader_with_shorter_log_does_not_reset_offset(make_setup: Make) -> None:
    log = log_with(6)
    log.deposed[0] = log_with(3)
    setup = make_setup({("t", 0): log})
    # The cluster still names broker 0, which does not know either that it was deposed.
    log.leader, log.epoch = 1, 1
    setup.start({("t", 0): 5}, auto_offset_reset="smallest")
    assert setup.read(1) == [("t", 0, 5)]


def test_offset_within_log_is_never_reset(make_setup: Make) -> None:
    log = log_with(6)
    log.error = ErrorCode.OFFSET_OUT_OF_RANGE
    setup = make_setup({("t", 0): log})

    def recover() -> None:
        if setup.cluster.refreshed == 3:
            log.error = 0

    setup.cluster.on_refresh = recover
    setup.start({("t", 0): 4}, auto_offset_reset="smallest")
    assert setup.read(2) == [("t", 0, 4), ("t", 0, 5)]
