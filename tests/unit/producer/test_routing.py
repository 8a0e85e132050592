"""Choice of partitions, and look-ups of unknown topics."""

import time
from collections import Counter
from types import SimpleNamespace

import pytest

from tests.support.fake_broker import FakeCluster
from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, make
from zkbroker.errors import LeaderNotAvailable
from zkbroker.producer import KeyedMessage, SendFailed, TopicUnavailable
from zkbroker.producer.partitioners import DefaultPartitioner
from zkbroker.producer.routing import Router


@RUNTIMES
def test_keyless_messages_spread_over_partitions_with_leader(fake, runtime):
    fake.create("t", [0, None, 0])
    with make(fake, runtime) as producer:
        places = producer.send([KeyedMessage("t", b"x") for _ in range(100)])
    assert Counter(place.partition for place in places) == {0: 50, 2: 50}


@RUNTIMES
def test_send_creates_topic_with_auto_creation(fake, runtime):
    fake.auto_create = 2
    with make(fake, runtime) as producer:
        assert producer.send(KeyedMessage("new", b"x")).offset == 0


@RUNTIMES
def test_unknown_topic_fails_with_remedy_and_other_topic_is_stored(fake, runtime):
    with make(fake, runtime) as producer:
        with pytest.raises(SendFailed, match=r"auto\.create\.topics\.enable") as caught:
            producer.send([KeyedMessage("none", b"x"), KeyedMessage("t", b"y")])
        assert [message.topic for message, _ in caught.value.sent] == ["t"]
        (message, error) = caught.value.failed[0]
        assert message.topic == "none"
        assert isinstance(error, TopicUnavailable)


@RUNTIMES
def test_unknown_partition_fails_and_names_valid_range(fake, runtime):
    fake.create("t", [0, 0])
    with make(fake, runtime) as producer, pytest.raises(SendFailed, match="give 0 to 1"):
        producer.send(KeyedMessage("t", b"x", partition=2))


@pytest.mark.parametrize("answer", [7, -1, None, "boom"])
def test_partitioner_with_invalid_result_fails_its_message_alone(fake, answer):
    class InvalidPartitioner:
        def partition(self, key, num_partitions):
            if key == b"odd":
                if answer == "boom":
                    raise RuntimeError(answer)
                return answer
            return 0

    fake.create("t", [0, 0])
    with (
        make(fake, plugins={"partitioner": InvalidPartitioner()}) as producer,
        pytest.raises(SendFailed, match="partitioner InvalidPartitioner") as caught,
    ):
        producer.send([KeyedMessage("t", b"a", key=b"k"), KeyedMessage("t", b"b", key=b"odd")])
    assert [m.message for m, _ in caught.value.sent] == [b"a"]


@pytest.mark.parametrize("method", ["choose", "deal"])
@pytest.mark.parametrize("answer", [7, -1, None, "boom"])
def test_partitioner_with_invalid_choice_fails_messages_without_key(fake, method, answer):
    class InvalidChoice:
        def partition(self, key, num_partitions):
            return 0

        def choose(self, topic, available):
            if answer == "boom":
                raise RuntimeError(answer)
            return answer

    class InvalidDeal(InvalidChoice):
        def deal(self, topic, available, number):
            yield self.choose(topic, available), slice(None)

    fake.create("t", [0, 0])
    partitioner = InvalidDeal() if method == "deal" else InvalidChoice()
    with asynchronous(fake, plugins={"partitioner": partitioner}) as producer:
        for extra in ({}, {"headers": (("h", b""),)}):
            future = producer.send(KeyedMessage("t", b"a", **extra))
            assert "partitioner Invalid" in str(future.exception(WAIT_S))
        assert producer.send(KeyedMessage("t", b"b", key=b"k")).result(WAIT_S).offset == 0
        assert producer.metrics()["unresolved_messages"] == 0


@RUNTIMES
def test_partitioner_gets_key_or_partition_key_or_encoded_key(fake, runtime):
    class Recording:
        def __init__(self):
            self.seen = []

        def partition(self, key, num_partitions):
            self.seen.append(key)
            return 0

    class RecordingBytes(Recording):
        encoded_key = True

    for partitioner, key, other in ((Recording(), "k", "p"), (RecordingBytes(), b"k", b"p")):
        partitioner.seen.clear()
        plugins = {"partitioner": partitioner}
        options = {"key_serializer_class": "StringEncoder"}
        with make(fake, runtime, plugins=plugins, **options) as producer:
            producer.send(KeyedMessage("t", b"x", key="k"))
            producer.send(KeyedMessage("t", b"x", key="k", partition_key="p"))
        assert partitioner.seen == [key, other]
    assert {record.key for record in fake.log("t", 0).records} == {b"k"}


class ByValueLength:
    """The form of the Java client: topic, key, key bytes, value, value bytes, cluster."""

    def __init__(self):
        self.seen = []
        self.closed = False

    def partition(self, topic, key, key_bytes, value, value_bytes, cluster):
        self.seen.append((topic, key, key_bytes, value, value_bytes))
        led = cluster.available_partitions_for_topic(topic)
        assert cluster.partition_count_for_topic(topic) == 3
        assert [each.id for each in cluster.nodes()] == [0, 1]
        return led[len(value_bytes) % len(led)].partition

    def close(self):
        self.closed = True


@RUNTIMES
@pytest.mark.parametrize("producer_type", ["sync", "async"])
def test_message_partitioner_gets_topic_key_value_and_cluster(runtime, producer_type):
    partitioner = ByValueLength()
    with FakeCluster(2) as fake:
        fake.create("t", [0, None, 1])
        messages = [
            KeyedMessage("t", b"a"),
            KeyedMessage("t", b"bb", key=b"k"),
            KeyedMessage("t", b"ccc", key=b"k", partition_key=b"p"),
            KeyedMessage("t", b"dddd", partition=0),
        ]
        with make(
            fake, runtime, plugins={"partitioner": partitioner}, producer_type=producer_type
        ) as producer:
            producer.send(messages)
        assert partitioner.closed
        assert len(partitioner.seen) == 3
        assert ("t", None, None, b"a", b"a") in partitioner.seen
        assert ("t", b"k", b"k", b"bb", b"bb") in partitioner.seen
        assert ("t", b"p", b"p", b"ccc", b"ccc") in partitioner.seen
        assert fake.values("t", 0) == [b"bb", b"dddd"]
        assert fake.values("t", 2) == [b"a", b"ccc"]


def test_message_partitioner_by_import_path_gets_objects_and_encoded_bytes(fake):
    PARTITIONER_CALLS.clear()
    with make(
        fake,
        serializer_class="JsonEncoder",
        key_serializer_class="StringEncoder",
        partitioner_class=f"{__name__}:RecordingPartitioner",
    ) as producer:
        producer.send(KeyedMessage("t", {"a": 1}, key="k"))
        producer.send(KeyedMessage("t", {"a": 2}, key="k", partition_key="other"))
    assert PARTITIONER_CALLS == [
        ("t", "k", b"k", {"a": 1}, b'{"a":1}'),
        ("t", "other", b"other", {"a": 2}, b'{"a":2}'),
    ]


PARTITIONER_CALLS: list[tuple[object, ...]] = []


def test_message_partitioner_with_invalid_result_fails_its_message_alone(fake):
    class InvalidPartitioner:
        def partition(self, topic, key, key_bytes, value, value_bytes, cluster):
            return 9 if value == b"odd" else 0

    with (
        make(fake, plugins={"partitioner": InvalidPartitioner()}) as producer,
        pytest.raises(SendFailed, match="partitioner InvalidPartitioner returned 9") as caught,
    ):
        producer.send([KeyedMessage("t", b"even"), KeyedMessage("t", b"odd")])
    assert [m.message for m, _ in caught.value.sent] == [b"even"]


class RecordingPartitioner:
    def partition(self, topic, key, key_bytes, value, value_bytes, cluster):
        PARTITIONER_CALLS.append((topic, key, key_bytes, value, value_bytes))
        return 0


def test_failing_topic_lookups_do_not_delay_other_topics():
    looked_up = []
    router = Router(
        config=SimpleNamespace(retries=100, retry_backoff_ms=0),
        cluster=SimpleNamespace(known_partitions=lambda topic: None),
        runtime=SimpleNamespace(spawn=lambda act, topic, name: looked_up.append(topic)),
        accumulator=SimpleNamespace(extend=None),
        hooks=SimpleNamespace(partitioner=DefaultPartitioner(), key_encoder=None),
        post=None,
        fail=None,
    )
    names = [f"t{n:02}" for n in range(40)]
    for name in names:
        queued = SimpleNamespace(topic=name, first_at=0.0)
        router.route([(queued, (0,))])
    for _ in range(3):
        router.step(time.monotonic())
        for name in looked_up[-16:]:
            router._looked_up(name, LeaderNotAvailable("no leader"))
    assert looked_up[:40] == names
    assert looked_up[40:] == names[:8]
