"""One stream: chunks, batches and commits."""

import threading
from types import SimpleNamespace

import pytest

from tests.support.process import wait_until
from tests.unit.mirror.test_config import make
from tests.unit.mirror.test_repack import log, records
from tests.unit.mirror.test_tracker import chunk, partition
from zkbroker.client import BrokerUnavailable
from zkbroker.errors import (
    ClientError,
    ConfigError,
    CorruptMessage,
    ErrorCode,
    RegistryError,
    protocol_error,
)
from zkbroker.mirror.batches import BatchMaker
from zkbroker.mirror.loop_guard import PATH_HEADER, PathMarker
from zkbroker.mirror.routes import Route
from zkbroker.mirror.source_cluster import MirrorSource
from zkbroker.mirror.tracker import Place
from zkbroker.mirror.worker import Worker, passes
from zkbroker.producer import KeyedMessage, MessageTooLarge
from zkbroker.producer.errors import ProducerClosed, TransactionAbortable
from zkbroker.records import Codec, encode_message_set
from zkbroker.runtime import get_runtime

RUNTIME = get_runtime("threads")
KEY = ("t", 0)


class Source:
    """Returns chunks if there is room, and records commits."""

    def __init__(self):
        self.chunks = []
        self.rooms = []
        self.committed = {}
        self.closed = False
        self.errors = []
        self._woken = RUNTIME.event()

    def poll(self, timeout_s, max_bytes):
        self.rooms.append(max_bytes)
        if self.errors:
            raise self.errors.pop(0)
        if max_bytes > 0 and self.chunks:
            return [self.chunks.pop(0)]
        self._woken.wait(0.01)
        self._woken.clear()
        return ()

    def wake(self):
        self._woken.set()

    def commit(self, positions):
        self.committed.update(positions)

    def close(self, timeout_s):
        self.closed = True


class Target:
    """Answers a batch at once, with `error` if set, or later by `answer`."""

    magic = 2
    settings = SimpleNamespace(batch_max_bytes=100_000)

    def __init__(self):
        self.sent = []
        self.answers = True
        self.error = None
        self.producer = self
        self.lookup_errors = []

    def send_batch(self, batch):
        self.sent.append(batch)
        if self.answers:
            self.answer(batch)

    def answer(self, batch):
        batch.error = self.error
        batch.failed = len(batch) if self.error else 0
        batch.base_offset = 1000
        batch._on_done(batch)

    def partitions(self, topic):
        if self.lookup_errors:
            raise self.lookup_errors.pop(0)
        return range(3)

    @property
    def values(self):
        return [[record[1] for record in batch.records] for batch in self.sent]


class Routes:
    def __init__(self, identity=True):
        self.identity = identity
        self.errors = []
        self.skipped = set()

    def skips(self, topic):
        return topic in self.skipped

    def find(self, topic, number):
        if self.errors:
            raise self.errors.pop(0)
        return Route("to-" + topic, range(2), self.identity)

    def chooser(self, route, number):
        if route.identity:
            return lambda key, value: number
        return lambda key, value: len(value) % len(route.partitions)


class StreamSetup:
    """A worker whose collaborators are fakes."""

    def __init__(self, *, identity=True, marker=None, handle=None, make_step=None, **settings):
        self.source, self.target, self.routes = Source(), Target(), Routes(identity)
        self.failures, self.syncs = [], []
        self.members, self.at_join = 0, None
        config = make(**settings)
        self.make = lambda: Worker(
            "east-0",
            config,
            routes=self.routes,
            target=self.target,
            make_source=self._made,
            maker=BatchMaker(
                config,
                source=MirrorSource,
                routes=self.routes,
                target=self.target,
                marker=marker,
                handle=handle,
            ),
            runtime=RUNTIME,
            on_failure=self.failures.append,
            on_syncs=self.syncs.extend,
            make_step=make_step,
        )

    def _made(self, on_release, on_lost):
        self.members += 1
        self.release, self.lost = on_release, on_lost
        if self.at_join is not None:
            self.at_join()
        return self.source

    def go(self, *chunks, until=None):
        """Run until all chunks are done, or until a condition; then stop."""
        self.source.chunks += chunks
        worker = self.make()
        try:
            seen = until or (lambda: not self.source.chunks and worker.idle)
            assert wait_until(lambda: self.failures or seen(), interval_s=0.005)
        finally:
            worker.stop()
            assert worker.join(60)
        assert self.source.closed
        return worker


def piece(of, offset, data, next_offset):
    found = chunk(of, offset, next_offset)
    found.records = data
    return found


def batch(of, offset=0, count=3, size=10):
    data = encode_message_set(records(count, size), magic=2, codec=Codec.LZ4, base_offset=offset)
    return piece(of, offset, data, offset + count)


def test_stored_batches_pass_unchanged_and_are_committed():
    setup, source = StreamSetup(join_batches_bytes="0"), partition()
    worker = setup.go(batch(source), batch(source, 3, 2))
    assert [(b.topic, b.partition, len(b), b.records) for b in setup.target.sent] == [
        ("to-t", 0, 3, []),
        ("to-t", 0, 2, []),
    ]
    assert setup.source.committed == {KEY: 5}
    assert (worker.counts.stored_batches, worker.counts.encoded_batches) == (2, 0)
    # begin and end of the chunks in the target
    assert setup.syncs == [(KEY, 0, Place("to-t", 0, 1000)), (KEY, 5, Place("to-t", 0, 1002))]


def test_window_bounds_chunks_while_source_is_polled():
    setup, source = StreamSetup(window_bytes="1024", flush_timeout_ms="1"), partition()
    setup.target.answers = False
    setup.source.chunks = [batch(source, size=2000, count=400), batch(source, 400)]
    size = len(setup.source.chunks[0].records)
    assert size > 1024
    worker = setup.make()
    polls = setup.source.rooms
    assert wait_until(lambda: len(polls) > 5 and polls[-1] <= 0, interval_s=0.005)
    assert (len(setup.source.chunks), worker.tracker.open_bytes) == (1, size)
    setup.target.answers = True
    setup.target.answer(setup.target.sent[0])
    assert wait_until(lambda: not setup.source.chunks and worker.idle, interval_s=0.005)
    worker.stop()
    assert worker.join(60)
    assert setup.source.committed == {KEY: 403}


def test_unsent_chunk_is_retried_before_later_chunks():
    setup, source = StreamSetup(join_batches_bytes="0"), partition()
    setup.routes.errors = [BrokerUnavailable("away"), RegistryError("away")]
    worker = setup.go(batch(source, 0, 3), batch(source, 3, 2))
    assert [len(each) for each in setup.target.sent] == [3, 2]
    assert worker.counts.failures == 2
    # no other chunk is polled while one is kept
    assert setup.source.rooms[1:3] == [0, 0]


def test_kept_chunk_of_earlier_reading_is_not_sent():
    setup, source = StreamSetup(), partition()
    old = batch(source, 0, 3)
    source.seek(50)
    setup.go(old, batch(source, 50, 2))
    assert [len(each) for each in setup.target.sent] == [2]
    assert setup.source.committed == {KEY: 52}


def test_unavailable_source_is_polled_again():
    setup = StreamSetup()
    setup.source.errors = [BrokerUnavailable("away")]
    worker = setup.go(batch(partition()))
    assert worker.counts.failures == 1
    assert setup.source.committed == {KEY: 3}


def test_refused_message_ends_stream_without_commit():
    setup, source = StreamSetup(flush_timeout_ms="1"), partition()
    setup.target.answers = False
    setup.source.chunks = [batch(source), batch(source, 3)]
    worker = setup.make()
    assert wait_until(lambda: len(setup.target.sent) == 2, interval_s=0.005)
    stored, refused = setup.target.sent
    setup.target.answer(stored)
    setup.target.error = MessageTooLarge("too large")
    setup.target.answer(refused)
    assert worker.join(60)
    assert [type(each) for each in setup.failures] == [MessageTooLarge]
    # arrived messages are not committed either: neither at the end nor at a release
    setup.release([KEY])
    assert setup.source.committed == {}


def test_refused_message_is_dropped_and_counted_on_request():
    setup, source = StreamSetup(abort_on_send_failure="false"), partition()
    setup.target.error = MessageTooLarge("too large")
    worker = setup.go(batch(source))
    assert setup.failures == []
    assert worker.counts.dropped_messages == 3
    assert setup.source.committed == {KEY: 3}


def test_corrupt_message_ends_stream_and_names_partition():
    setup, source = StreamSetup(), partition()
    data = bytearray(log((2, Codec.NONE, 3)))
    data[-1] ^= 1
    setup.go(piece(source, 0, bytes(data), 3))
    (error,) = setup.failures
    assert isinstance(error, CorruptMessage)
    assert "t" in str(error)
    assert setup.source.committed == {}


def test_permanent_error_ends_stream():
    setup = StreamSetup()
    setup.routes.errors = [ConfigError("cannot be")]
    setup.go(batch(partition()))
    assert [str(each) for each in setup.failures] == ["cannot be"]
    assert setup.source.committed == {}


def test_released_partitions_are_committed_and_lost_ones_are_not():
    setup, source = StreamSetup(), partition()
    setup.target.answers = False
    setup.source.chunks = [batch(source), batch(source, 3)]
    worker = setup.make()
    assert wait_until(lambda: len(setup.target.sent) == 2, interval_s=0.005)
    setup.target.answer(setup.target.sent[0])
    setup.lost([KEY])
    setup.target.answer(setup.target.sent[1])
    setup.release([KEY])
    assert setup.source.committed == {}
    setup.target.answers = True
    setup.source.chunks = [batch(source, 6)]
    assert wait_until(lambda: len(setup.target.sent) == 3 and worker.idle, interval_s=0.005)
    setup.release([KEY])
    assert setup.source.committed == {KEY: 9}
    worker.stop()
    assert worker.join(60)


def test_chunk_sent_after_its_partition_was_given_away_is_not_committed(monkeypatch):
    setup, source = StreamSetup(), partition()

    def find(topic, number):
        # another task gives the partition away while the topic is looked up
        source.revoke()
        setup.release([KEY])
        return Route("to-" + topic, range(2), identity=True)

    monkeypatch.setattr(setup.routes, "find", find)
    setup.go(batch(source))
    assert len(setup.target.sent) == 1
    assert (setup.source.committed, setup.syncs) == ({}, [])


def test_release_under_way_does_not_commit_a_chunk_that_could_not_be_sent(monkeypatch):
    setup, waits, releases = StreamSetup(), threading.Event(), []
    worker = setup.make()
    wait_done = worker.tracker.wait_done

    def waited(*arguments):
        waits.set()
        return wait_done(*arguments)

    def closed(sent):
        releases.append(threading.Thread(target=setup.release, args=([KEY],)))
        releases[0].start()
        assert waits.wait(10)
        raise ProducerClosed("closed")

    monkeypatch.setattr(worker.tracker, "wait_done", waited)
    setup.target.send_batch = closed
    setup.source.chunks.append(batch(partition()))
    setup.source.wake()
    assert worker.join(60)
    releases[0].join()
    assert setup.source.committed == {}


def test_skipped_topics_are_committed_without_sending():
    setup = StreamSetup()
    setup.routes.skipped = {"t"}
    setup.go(batch(partition()))
    assert setup.target.sent == []
    assert setup.source.committed == {KEY: 3}


def test_other_partition_count_distributes_records_by_key():
    setup, source = StreamSetup(identity=False), partition()
    entries = [(None, b"v" * n, 5, ()) for n in range(4)]
    data = encode_message_set(entries, magic=2, codec=Codec.NONE)
    worker = setup.go(piece(source, 0, data, 4))
    assert [each.partition for each in setup.target.sent] == [0, 1]
    assert setup.target.values == [[b"", b"vv"], [b"v", b"vvv"]]
    assert worker.counts.encoded_batches == 2
    assert setup.syncs == []  # no target offset corresponds to a source offset


def test_path_header_is_written_and_looping_messages_are_dropped():
    setup, source = StreamSetup(marker=PathMarker("east", "here")), partition()
    looped = (b"k", b"looped", 5, ((PATH_HEADER, b"here"),))
    data = encode_message_set([looped, (b"k", b"new", 5, ())], magic=2, codec=Codec.NONE)
    worker = setup.go(piece(source, 0, data, 2))
    (sent,) = setup.target.sent
    assert sent.records == [(b"k", b"new", 5, ((PATH_HEADER, b"east"),))]
    assert worker.counts.looped_messages == 1
    assert setup.source.committed == {KEY: 2}


def test_handler_chooses_messages_topics_and_partitions():
    def handle(message):
        if message.value.endswith(b"0"):
            return []
        return [
            KeyedMessage(message.topic, message.value.upper(), key=message.key),
            KeyedMessage("copies", b"c", partition=7),
            KeyedMessage("others", b"four", timestamp_ms=9),
        ]

    setup, source = StreamSetup(handle=handle), partition()
    data = encode_message_set(
        [(b"k", b"v0", 5, ()), (b"k", b"v1", 6, ())], magic=2, codec=Codec.NONE
    )
    worker = setup.go(piece(source, 0, data, 2))
    sent = [(b.topic, b.partition, [r[:3] for r in b.records]) for b in setup.target.sent]
    assert sent == [
        ("to-t", 0, [(b"k", b"V1", 6)]),
        ("copies", 7, [(None, b"c", 6)]),
        ("others", len(b"four") % 3, [(None, b"four", 9)]),
    ]
    assert worker.counts.handled_messages == 2


def test_handler_result_that_is_not_bytes_ends_stream():
    setup = StreamSetup(handle=lambda message: [KeyedMessage("t", "text")])
    setup.go(batch(partition()))
    (error,) = setup.failures
    assert isinstance(error, ConfigError)
    assert "returned str" in str(error)
    assert setup.source.committed == {}


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (BrokerUnavailable("x"), True),
        (RegistryError("x"), True),
        (ConnectionResetError(), True),
        (ClientError("x"), True),
        (ConfigError("x"), False),
        (protocol_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "x"), False),
        (ValueError("x"), False),
    ],
)
def test_only_passing_errors_are_retried(error, again):
    assert passes(error) is again


class FailingStep:
    """A step whose commits fail or succeed in a given order."""

    idle, failures = False, 0

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)

    def commit(self):
        if self.outcomes and not self.outcomes.pop(0):
            raise TransactionAbortable("another producer began under this id")
        return {}

    def drop(self, partitions):
        pass


@pytest.mark.parametrize(
    ("outcomes", "errors"),
    [((0, 0, 0), 1), ((0, 0, 1, 0, 0), 0), ((0, 0, 0, 0, 0, 0), 2)],
)
def test_repeated_transaction_failures_log_likely_cause(outcomes, errors, caplog):
    step = FailingStep(*outcomes)
    setup = StreamSetup(make_step=lambda source: step, offset_commit_interval_ms="1")
    setup.go(until=lambda: not step.outcomes)
    assert caplog.text.count("may have the same exactly.once.id in another group") == errors


def test_failed_start_leaves_no_member_in_group():
    def refuse(source):
        raise RegistryError("the target's topic cannot be created yet")

    setup = StreamSetup(make_step=refuse)
    with pytest.raises(RegistryError):
        setup.make()
    assert setup.members == 0


def test_partitions_may_be_released_while_member_joins():
    setup = StreamSetup()
    setup.at_join = lambda: setup.release([KEY])
    setup.go(batch(partition()))
    assert setup.source.committed == {KEY: 3}
