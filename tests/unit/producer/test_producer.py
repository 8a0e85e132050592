"""The producer against brokers whose answers the test decides, on both runtimes."""

from collections import Counter

import pytest

from tests.support.fake_broker import CLOSE, LOSE_ANSWER, FakeCluster
from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, make
from zkbroker.errors import ErrorCode
from zkbroker.producer import (
    BrokersUnavailable,
    KeyedMessage,
    MessageTooLarge,
    SendFailed,
    TopicUnavailable,
)
from zkbroker.protocol import ApiKey
from zkbroker.records import iter_entries


@RUNTIMES
def test_a_sync_send_returns_where_the_message_was_stored(runtime):
    with FakeCluster(2) as fake:
        fake.create("t", [0, 1])
        with make(fake, runtime) as producer:
            first = producer.send(KeyedMessage("t", b"one", partition=1, timestamp_ms=5))
            assert first == ("t", 1, 0, 5)
            many = producer.send([KeyedMessage("t", b"%d" % i, partition=1) for i in range(10)])
            assert [metadata.offset for metadata in many] == list(range(1, 11))
        assert fake.values("t", 1) == [b"one", *[b"%d" % i for i in range(10)]]


@RUNTIMES
def test_an_async_send_returns_a_future_of_where_it_was_stored(runtime):
    with FakeCluster(2) as fake:
        fake.create("t", [0, 1])
        with asynchronous(fake, runtime) as producer:
            futures = [producer.send(KeyedMessage("t", b"%d" % i, key=b"k")) for i in range(500)]
            results = [future.result(WAIT_S) for future in futures]
        partition = results[0].partition
        assert [r.offset for r in results] == list(range(500))
        assert fake.values("t", partition) == [b"%d" % i for i in range(500)]


@RUNTIMES
def test_close_delivers_what_is_queued_although_it_lingers(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        producer = asynchronous(fake, runtime, queue_time=3_600_000)
        futures = [producer.send(KeyedMessage("t", b"%d" % i)) for i in range(50)]
        producer.close(WAIT_S)
        assert all(future.done() for future in futures)
        assert len(fake.values("t", 0)) == 50


@RUNTIMES
def test_keyless_messages_are_spread_evenly_over_the_led_partitions(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0, None, 0])
        with make(fake, runtime) as producer:
            places = producer.send([KeyedMessage("t", b"x") for _ in range(100)])
        assert Counter(place.partition for place in places) == {0: 50, 2: 50}


@RUNTIMES
def test_a_topic_is_created_where_the_brokers_create_topics(runtime):
    with FakeCluster() as fake:
        fake.auto_create = 2
        with make(fake, runtime) as producer:
            assert producer.send(KeyedMessage("new", b"x")).offset == 0


@RUNTIMES
def test_an_unknown_topic_fails_with_the_cure_and_holds_up_no_other(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        with make(fake, runtime) as producer:
            with pytest.raises(SendFailed, match=r"auto\.create\.topics\.enable") as caught:
                producer.send([KeyedMessage("none", b"x"), KeyedMessage("t", b"y")])
            assert [message.topic for message, _ in caught.value.sent] == ["t"]
            (message, error) = caught.value.failed[0]
            assert message.topic == "none"
            assert isinstance(error, TopicUnavailable)


@RUNTIMES
def test_a_partition_that_does_not_exist_fails_with_the_range(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0, 0])
        with make(fake, runtime) as producer, pytest.raises(SendFailed, match="give 0 to 1"):
            producer.send(KeyedMessage("t", b"x", partition=2))


@RUNTIMES
def test_a_moved_leader_is_found_and_nothing_is_lost_or_doubled(runtime):
    with FakeCluster(2) as fake:
        fake.create("t", [0])
        with make(fake, runtime) as producer:
            producer.send(KeyedMessage("t", b"before"))
            fake.create("t", [1])
            producer.send(KeyedMessage("t", b"after"))
        assert fake.values("t", 0) == [b"before", b"after"]


@RUNTIMES
def test_a_broker_that_is_down_longer_than_the_retries_fails_with_the_cure(runtime):
    with FakeCluster(2) as fake:
        fake.create("t", [1])
        with make(fake, runtime, request_timeout_ms=2000) as producer:
            fake.brokers[1].stop()
            with pytest.raises(SendFailed, match=r"message\.send\.max\.retries") as caught:
                producer.send(KeyedMessage("t", b"x"))
            assert isinstance(caught.value.failed[0][1], BrokersUnavailable)


@RUNTIMES
def test_refusals_that_pass_are_retried_with_the_same_bytes(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        seen = []

        def refuse_twice(request):
            seen.append(bytes(request.topics[0].partitions[0].records))
            return ErrorCode.NOT_ENOUGH_REPLICAS if len(seen) < 3 else None

        fake.faults[ApiKey.PRODUCE, 0] = refuse_twice
        with make(fake, runtime) as producer:
            assert producer.send(KeyedMessage("t", b"x")).offset == 0
            assert producer.metrics()["retries"] == 2
        assert len(seen) == 3
        assert len(set(seen)) == 1


@RUNTIMES
def test_a_lost_answer_is_stored_once_with_idempotence(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        faults = iter([LOSE_ANSWER, CLOSE, LOSE_ANSWER])
        fake.faults[ApiKey.PRODUCE, 0] = lambda request: next(faults, None)
        with make(fake, runtime, enable_idempotence="true") as producer:
            assert producer.send(KeyedMessage("t", b"x")).offset == 0
            assert producer.send(KeyedMessage("t", b"y")).offset == 1
        assert fake.values("t", 0) == [b"x", b"y"]


@RUNTIMES
def test_batches_that_are_too_large_are_split_until_they_fit(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        fake.max_message_bytes = 1000
        for idempotence in ("false", "true"):
            with make(fake, runtime, enable_idempotence=idempotence) as producer:
                messages = [KeyedMessage("t", b"%03d" % i + b"x" * 97) for i in range(50)]
                producer.send(messages)
        values = fake.values("t", 0)
        assert [value[:3] for value in values] == [b"%03d" % i for i in range(50)] * 2


@RUNTIMES
def test_a_message_too_large_for_the_broker_fails_alone(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        fake.max_message_bytes = 1000
        with make(fake, runtime, enable_idempotence="true") as producer:
            with pytest.raises(SendFailed, match=r"max\.message\.bytes") as caught:
                producer.send([KeyedMessage("t", x) for x in (b"a", b"x" * 2000, b"b")])
            assert isinstance(caught.value.failed[0][1], MessageTooLarge)
            assert [message.message for message, _ in caught.value.sent] == [b"a", b"b"]
            producer.send(KeyedMessage("t", b"c"))
        assert fake.values("t", 0) == [b"a", b"b", b"c"]


def test_the_message_format_follows_what_the_broker_understands():
    for version, magic in ((0, 0), (1, 0), (2, 1), (3, 2), (7, 2)):
        with FakeCluster(max_produce_version=version) as fake:
            fake.create("t", [0])
            with make(fake) as producer:
                producer.send(KeyedMessage("t", b"x", key=b"k"))
            data = fake.log("t", 0).sets[0]
            assert next(iter_entries(data)).magic == magic


@RUNTIMES
def test_without_acknowledgements_the_offset_is_unknown(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        with make(fake, runtime, request_required_acks=0) as producer:
            assert producer.send(KeyedMessage("t", b"x")).offset == -1


@RUNTIMES
def test_no_later_batch_is_stored_when_the_very_first_one_is_refused(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        fake.max_message_bytes = 2000
        options = {"enable_idempotence": "true", "batch_max_bytes": 4000, "queue_time": 0}
        with asynchronous(fake, runtime, **options) as producer:
            futures = [producer.send(KeyedMessage("t", b"%03d" % i + b"x" * 97)) for i in range(99)]
            for future in futures:
                future.result(WAIT_S)
        assert [value[:3] for value in fake.values("t", 0)] == [b"%03d" % i for i in range(99)]


@RUNTIMES
def test_lost_producer_state_starts_new_numbers_and_stores_what_was_refused_once(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        with make(fake, runtime, enable_idempotence="true") as producer:
            producer.send([KeyedMessage("t", b"%d" % i) for i in range(3)])
            (number,) = fake.log("t", 0).producers
            epoch, _ = fake.log("t", 0).producers[number]
            # The broker lost what it stored last: its idea of the sequence goes back.
            fake.log("t", 0).producers[number] = (epoch, [(-9, -7, 0)])
            producer.send([KeyedMessage("t", b"%d" % i) for i in range(3, 6)])
            producer.send(KeyedMessage("t", b"6"))
        assert fake.values("t", 0) == [b"%d" % i for i in range(7)]


@RUNTIMES
def test_after_a_batch_was_refused_for_good_the_next_gets_numbers_without_a_gap(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        refused = iter([None, ErrorCode.INVALID_TIMESTAMP])
        fake.faults[ApiKey.PRODUCE, 0] = lambda request: next(refused, None)
        with make(fake, runtime, enable_idempotence="true") as producer:
            producer.send(KeyedMessage("t", b"one"))
            with pytest.raises(SendFailed):
                producer.send(KeyedMessage("t", b"two"))
            producer.send(KeyedMessage("t", b"three"))
        assert fake.values("t", 0) == [b"one", b"three"]
        sent = [
            next(iter(iter_entries(bytes(request.topics[0].partitions[0].records))))
            for key, _, request in fake.brokers[0].requests
            if key is ApiKey.PRODUCE
        ]
        # Three requests: none was tried with numbers that the broker had to refuse.
        assert [entry.base_sequence for entry in sent] == [0, 1, 0]
        assert sent[2].producer_id != sent[0].producer_id
