"""Outcomes of a batch: stored, retried, split or given up."""

import pytest

from tests.support.fake_broker import CLOSE, LOSE_ANSWER, FakeCluster
from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, make
from zkbroker.errors import ErrorCode
from zkbroker.producer import (
    BrokersUnavailable,
    KeyedMessage,
    KeyRequired,
    MessageTooLarge,
    SendFailed,
)
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import DescribeConfigsResponse
from zkbroker.protocol.messages.configs import ConfigEntry, ConfigResourceType, DescribedConfigs
from zkbroker.records import iter_records


@RUNTIMES
def test_broker_down_longer_than_retries_fails_send_and_names_setting(runtime):
    with FakeCluster(2) as fake:
        fake.create("t", [1])
        with make(fake, runtime, request_timeout_ms=1000) as producer:
            fake.brokers[1].stop()
            with pytest.raises(SendFailed, match=r"message\.send\.max\.retries") as caught:
                producer.send(KeyedMessage("t", b"x"))
            assert isinstance(caught.value.failed[0][1], BrokersUnavailable)


@RUNTIMES
def test_retriable_errors_are_retried_with_same_bytes(fake, runtime):
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
def test_idempotent_message_is_stored_once_after_lost_response(fake, runtime):
    faults = iter([LOSE_ANSWER, CLOSE, LOSE_ANSWER])
    fake.faults[ApiKey.PRODUCE, 0] = lambda request: next(faults, None)
    with make(fake, runtime, enable_idempotence="true") as producer:
        assert producer.send(KeyedMessage("t", b"x")).offset == 0
        assert producer.send(KeyedMessage("t", b"y")).offset == 1
    assert fake.values("t", 0) == [b"x", b"y"]


@RUNTIMES
def test_too_large_batches_are_split_until_they_fit(fake, runtime):
    fake.max_message_bytes = 1000
    for idempotence in ("false", "true"):
        with make(fake, runtime, enable_idempotence=idempotence) as producer:
            messages = [KeyedMessage("t", b"%03d" % i + b"x" * 97) for i in range(50)]
            producer.send(messages)
    values = fake.values("t", 0)
    assert [value[:3] for value in values] == [b"%03d" % i for i in range(50)] * 2


@RUNTIMES
def test_message_too_large_for_broker_fails_alone(fake, runtime):
    fake.max_message_bytes = 1000
    with make(fake, runtime, enable_idempotence="true") as producer:
        with pytest.raises(SendFailed, match=r"max\.message\.bytes") as caught:
            producer.send([KeyedMessage("t", x) for x in (b"a", b"x" * 2000, b"b")])
        assert isinstance(caught.value.failed[0][1], MessageTooLarge)
        assert [message.message for message, _ in caught.value.sent] == [b"a", b"b"]
        producer.send(KeyedMessage("t", b"c"))
    assert fake.values("t", 0) == [b"a", b"b", b"c"]


@RUNTIMES
def test_order_is_kept_when_first_batch_is_refused_as_too_large(fake, runtime):
    fake.max_message_bytes = 2000
    options = {"enable_idempotence": "true", "batch_max_bytes": 4000, "queue_time": 0}
    with asynchronous(fake, runtime, **options) as producer:
        futures = [producer.send(KeyedMessage("t", b"%03d" % i + b"x" * 97)) for i in range(99)]
        for future in futures:
            future.result(WAIT_S)
    assert [value[:3] for value in fake.values("t", 0)] == [b"%03d" % i for i in range(99)]


def described(**values):
    """Return the settings of topic t."""
    entries = [
        ConfigEntry(name=name.replace("_", "."), value=text) for name, text in values.items()
    ]
    found = DescribedConfigs(
        resource_name="t", resource_type=ConfigResourceType.TOPIC, entries=entries
    )
    return lambda request: DescribeConfigsResponse(resources=[found])


def refuse_null_keys(code, asked):
    def answer(request):
        records = list(iter_records(bytes(request.topics[0].partitions[0].records)))
        asked.append(len(records))
        return code if any(record.key is None for record in records) else None

    return answer


@RUNTIMES
@pytest.mark.parametrize("code", [ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD])
@pytest.mark.parametrize("idempotence", ["false", "true"])
def test_keyless_messages_to_compacted_topic_fail_at_once_and_alone(
    fake, runtime, code, idempotence
):
    asked = []
    fake.faults[ApiKey.PRODUCE, 0] = refuse_null_keys(code, asked)
    fake.faults[ApiKey.DESCRIBE_CONFIGS, 0] = described(cleanup_policy="compact,delete")
    with make(fake, runtime, enable_idempotence=idempotence) as producer:
        with pytest.raises(SendFailed) as caught:
            producer.send(KeyedMessage("t", b"x"))
        (_, error), *_ = caught.value.failed
        assert isinstance(error, KeyRequired)
        assert "cleanup.policy" in str(error)
        assert asked == [1], "not sent again"
        with pytest.raises(SendFailed) as caught:
            producer.send([KeyedMessage("t", k, key=k or None) for k in (b"a", b"", b"b")])
        assert len(caught.value.failed) == 1
        producer.send(KeyedMessage("t", b"c", key=b"c"))
    assert fake.values("t", 0) == [b"a", b"b", b"c"]


@RUNTIMES
@pytest.mark.parametrize("policy", ["delete", None])
def test_batch_damaged_in_transit_is_sent_again(fake, runtime, policy):
    damaged = iter([ErrorCode.CORRUPT_MESSAGE] * 2)
    fake.faults[ApiKey.PRODUCE, 0] = lambda request: next(damaged, None)
    if policy is not None:
        fake.faults[ApiKey.DESCRIBE_CONFIGS, 0] = described(cleanup_policy=policy)
    with make(fake, runtime) as producer:
        assert producer.send(KeyedMessage("t", b"x")).offset == 0


@RUNTIMES
def test_error_of_too_few_in_sync_replicas_names_counts(fake, runtime):
    fake.faults[ApiKey.PRODUCE, 0] = lambda request: ErrorCode.NOT_ENOUGH_REPLICAS
    fake.faults[ApiKey.DESCRIBE_CONFIGS, 0] = described(min_insync_replicas="2")
    with (
        make(fake, runtime) as producer,
        pytest.raises(SendFailed, match=r"1 of 1 replicas in sync, and min\.insync\.replicas=2"),
    ):
        producer.send(KeyedMessage("t", b"x"))
