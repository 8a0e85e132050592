"""Plain messages into the send queue: the intakes in C and in Python agree with `put`."""

import gc
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkbroker.producer import KeyedMessage, portable
from zkbroker.producer.intake import NATIVE
from zkbroker.producer.queued_messages import QueuedMessages
from zkbroker.producer.send_queue import SendQueue
from zkbroker.runtime import get_runtime

RUNTIME = get_runtime("threads")


class MessageSubclass(KeyedMessage):
    """A user's own class of messages, whose fields may be properties."""


class StrSubclass(str):
    __slots__ = ()


def make(kind, **bounds):
    given = {"max_message_bytes": 1000, "limit": 1000, "max_bytes": 10**6} | bounds
    return kind(threading.Lock(), threading.Event(), **given)


def intake_of(kind, *topics, **bounds):
    """Return an intake that has a list of each topic."""
    intake = make(kind, **bounds)
    intake.wake_at = portable.NEVER
    intake.by_topic = {topic: QueuedMessages(topic, 0.0, RUNTIME) for topic in topics}
    return intake


def test_plain_message_is_queued_and_counted(intake_kind):
    intake = intake_of(intake_kind, "t")
    first = intake.put(KeyedMessage("t", b"value", timestamp_ms=7))
    second = intake.put(KeyedMessage("t", b"", key=b"key", timestamp_ms=-1))
    queued = intake.by_topic["t"]
    assert queued.records == [(None, b"value", 7, ()), (b"key", b"", -1, ())]
    assert queued.sizes == [45, 43]
    assert not queued.keyless
    assert (first.queued, first.index, second.index) == (queued, 0, 1)
    assert not first.done()
    assert first.message.message == b"value"
    assert (intake.queued, intake.open_messages, intake.open_bytes) == (2, 2, 88)


def test_default_timestamp_is_time_of_send(intake_kind):
    intake = intake_of(intake_kind, "t")
    before = RUNTIME.now_ms()
    intake.put(KeyedMessage("t", b"x"))
    ((_, _, stamp, _),) = intake.by_topic["t"].records
    assert before <= stamp <= RUNTIME.now_ms()
    assert intake.by_topic["t"].keyless


NOT_PLAIN = {
    "a subclass of messages": MessageSubclass("t", b"x"),
    "a topic without a list": KeyedMessage("other", b"x"),
    "a topic of a subclass of str": KeyedMessage(StrSubclass("t"), b"x"),
    "a topic of bytes": KeyedMessage(b"t", b"x"),
    "a topic that cannot be hashed": KeyedMessage(["t"], b"x"),
    "no value": KeyedMessage("t", None),
    "text": KeyedMessage("t", "x"),
    "a key of text": KeyedMessage("t", b"x", key="k"),
    "a bytearray": KeyedMessage("t", bytearray(b"x")),
    "a partition": KeyedMessage("t", b"x", partition=0),
    "a partition key": KeyedMessage("t", b"x", partition_key=b"k"),
    "headers": KeyedMessage("t", b"x", headers=[("h", b"")]),
    "a time with a fraction": KeyedMessage("t", b"x", timestamp_ms=1.0),
    "a time before 1970": KeyedMessage("t", b"x", timestamp_ms=-2),
    "a time beyond 64 bits": KeyedMessage("t", b"x", timestamp_ms=2**63),
    "a time far beyond 64 bits": KeyedMessage("t", b"x", timestamp_ms=2**200),
    "a boolean as time": KeyedMessage("t", b"x", timestamp_ms=True),
    "too large": KeyedMessage("t", b"x" * 961),
    "bytes in place of a message": b"x",
    "a list of messages": [KeyedMessage("t", b"x")],
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_message_that_is_not_plain_is_not_queued(intake_kind, name):
    intake = intake_of(intake_kind, "t")
    assert intake.put(NOT_PLAIN[name]) is None
    assert intake.by_topic["t"].records == intake.by_topic["t"].sizes == []
    assert (intake.queued, intake.open_messages, intake.open_bytes) == (0, 0, 0)


def test_messages_up_to_the_bounds_are_queued(intake_kind):
    intake = intake_of(intake_kind, "t", limit=2, max_bytes=1100)
    assert intake.put(KeyedMessage("t", b"x" * 960))
    assert intake.put(KeyedMessage("t", b"x" * 61)) is None
    assert intake.put(KeyedMessage("t", b"x" * 60))
    intake.open_bytes = 0
    assert intake.put(KeyedMessage("t", b"")) is None
    assert intake.open_messages == 2


def test_message_without_a_field_is_not_plain():
    native = pytest.importorskip("zkbroker.producer._speedups").Intake
    for name in KeyedMessage.__slots__:
        message = KeyedMessage("t", b"x")
        delattr(message, name)
        assert intake_of(native, "t").put(message) is None


def test_sender_is_woken_once_at_threshold(intake_kind):
    intake = intake_of(intake_kind, "t")
    intake.wake_at = 2
    intake.put(KeyedMessage("t", b"x"))
    assert not intake.wake.is_set()
    intake.put(KeyedMessage("t", b"x"))
    assert intake.wake.is_set()
    assert intake.wake_at == portable.NEVER


def test_native_intake_queues_nothing_while_lock_is_held():
    native = pytest.importorskip("zkbroker.producer._speedups").Intake
    intake = intake_of(native, "t")
    with intake.lock:
        assert intake.put(KeyedMessage("t", b"x")) is None
    assert intake.put(KeyedMessage("t", b"x")) is not None


def test_exception_of_wake_event_is_raised(intake_kind):
    class Broken:
        def set(self):
            raise KeyboardInterrupt

    intake = intake_kind(threading.Lock(), Broken(), 1000, 10, 10_000)
    intake.by_topic["t"] = QueuedMessages("t", 0.0, RUNTIME)
    with pytest.raises(KeyboardInterrupt):
        intake.put(KeyedMessage("t", b"x"))


def test_intake_leaks_no_references(intake_kind):
    held = bytes(range(50)), bytes(range(20)), str(b"topic", "ascii")

    def references():
        return [sys.getrefcount(each) for each in held]

    before = references()
    value, key, topic = held
    intake = intake_of(intake_kind, topic)
    for _ in range(100):
        intake.put(KeyedMessage(topic, value, key=key))
        intake.put(KeyedMessage(topic, value, key=key, partition=1))
    assert intake.queued == 100
    intake.by_topic["itself"] = intake  # a cycle, which the collector has to find
    del intake, value, key, topic
    gc.collect()
    assert references() == before


bodies = st.binary(max_size=40) | st.none()
messages = st.builds(
    KeyedMessage,
    st.sampled_from(["t", "u", StrSubclass("t"), "größe"]),
    bodies,
    key=bodies,
    partition=st.none() | st.just(0),
    headers=st.just(()) | st.just([("h", b"v")]),
    timestamp_ms=st.integers(-1, 2**63 - 1),
)
steps = st.one_of(
    st.tuples(st.just("send"), messages),
    st.tuples(st.just("drain")),
    st.tuples(st.just("release")),
    st.tuples(st.just("refuse")),
    st.tuples(st.just("accept")),
    st.tuples(st.just("rest"), st.integers(1, 4)),
)


def run_steps(kind, steps, monkeypatch):
    """Return what a queue with one kind of intake returns in each step."""
    wake = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr("zkbroker.producer.send_queue.Intake", kind)
        queue = SendQueue(RUNTIME, wake, 6, 400, 75)
    results = []
    for name, *rest in steps:
        if name == "send":
            (message,) = rest
            future = queue.put_plain(message)
            if future is None:
                size = portable.RECORD_OVERHEAD_BYTES + len(message.message or b"")
                record = (message.key, message.message, message.timestamp_ms, message.headers)
                try:
                    future = queue.put(message.topic, record, size, message, 0)
                except Exception as error:  # noqa: BLE001 - compared below
                    results.append(str(error))
                    continue
            results.append((future.queued.topic, future.index, future.message.message))
        elif name == "drain":
            results.append(
                [
                    (each.topic, each.records, each.sizes, each.keyless, list(each.kept))
                    for each in queue.drain()
                ]
            )
        elif name == "release":
            queue.release(queue.open_messages, queue.open_bytes)
        elif name == "refuse":
            queue.refuse(RuntimeError("refused"))
        elif name == "accept":
            queue.accept()
        else:
            results.append(queue.rest(*rest))
        results.append((queue.open_messages, queue.open_bytes, wake.is_set()))
        wake.clear()
    return results


@given(sequence=st.lists(steps, max_size=30))
def test_native_and_portable_intake_agree(sequence):
    native = pytest.importorskip("zkbroker.producer._speedups").Intake
    with pytest.MonkeyPatch.context() as patch:
        assert run_steps(native, sequence, patch) == run_steps(portable.Intake, sequence, patch)


def test_messages_of_many_threads_are_queued_once_in_order(each_intake):
    queue = SendQueue(RUNTIME, threading.Event(), 10**6, 10**9)
    senders, count = 4, 5000
    barrier = threading.Barrier(senders + 1)

    def send(number: int) -> None:
        barrier.wait()
        for i in range(count):
            message = KeyedMessage("t", b"%d %d" % (number, i))
            if queue.put_plain(message) is None:
                queue.put("t", (None, message.message, 0, ()), 50, None, None)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(senders)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        barrier.wait()
        drained = []
        while any(thread.is_alive() for thread in threads):
            drained += queue.drain()
    finally:
        sys.setswitchinterval(interval)
    drained += queue.drain()
    got = [record[1] for queued in drained for record in queued.records]
    assert queue.open_messages == len(got) == senders * count
    for number in range(senders):
        own = [value for value in got if value.startswith(b"%d " % number)]
        assert own == [b"%d %d" % (number, i) for i in range(count)]


def test_environment_variable_selects_portable_intake():
    done = subprocess.run(
        [sys.executable, "-c", "from zkbroker.producer.intake import NATIVE; print(NATIVE)"],
        env={**os.environ, "ZKBROKER_PURE_PYTHON": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
    assert NATIVE in (True, False)
