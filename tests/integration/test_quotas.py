"""Quotas at a real broker: rates, muted connections and their order, and their neighbours."""

import time
from collections.abc import Iterator

import pytest

from tests.support.broker_requests import fetch_request, message_set, produce
from tests.support.brokers import connect
from tests.support.clusters import MakeCluster
from tests.support.zookeeper import until
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import FetchRequest, SimpleConsumer
from zkbroker.network.client.connection import BrokerConnection, Pending
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.protocol.messages import (
    CreateTopicsRequest,
    HeartbeatRequest,
    ProduceRequest,
)
from zkbroker.protocol.messages import (
    FetchRequest as WireFetch,
)
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.registry.user_configs import DEFAULT, ConfigEntity, change_entity_config
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

TOPIC = "events"
QUOTA = 200_000
"""Ten requests a second, which a busy machine sends, too."""
REQUEST_BYTES = 20_000
BEAT = HeartbeatRequest("g", 1, "m")
DATA = message_set(2, [bytes(REQUEST_BYTES)])


@pytest.fixture(scope="module")
def cluster(local_cluster: MakeCluster) -> Iterator[LocalCluster]:
    with local_cluster(1) as running:
        with connect(running.brokers[0]) as connected:
            connected.request(CreateTopicsRequest([NewTopic(TOPIC, 1, 1)], timeout_ms=10_000))
            until(lambda: produce(connected, TOPIC, DATA).error_code == 0)
        yield running
        for broker in running.brokers:
            assert "Traceback" not in broker.log_path.read_text()


@pytest.fixture
def session(cluster: LocalCluster) -> Iterator[ZkSession]:
    with ZkSession(cluster.zookeeper) as started:
        yield started


def _produce(acks: int = 1) -> ProduceRequest:
    topics = [ProduceRequestTopic(TOPIC, [ProduceRequestPartition(0, DATA)])]
    return ProduceRequest(acks=acks, topics=topics)


def _fetch() -> WireFetch:
    return fetch_request(TOPIC, 0, max_bytes=2 * REQUEST_BYTES)


def _throttle_ms(connection: BrokerConnection) -> int:
    throttle_ms: int = connection.request(_produce()).throttle_time_ms
    return throttle_ms


def _rate_of(connection: BrokerConnection, seconds: float) -> float:
    """Produce without a pause; return the bytes a second that were taken."""
    started, sent = time.monotonic(), 0
    while (now := time.monotonic()) - started < seconds:
        assert connection.request(_produce()).topics[0].partitions[0].error_code == 0
        sent += len(DATA)
    return sent / (now - started)


def _fetch_rate_of(connection: BrokerConnection, seconds: float) -> float:
    started, read = time.monotonic(), 0
    while (now := time.monotonic()) - started < seconds:
        answer = connection.request(_fetch())
        if answer.throttle_time_ms:
            assert answer.topics == []
        else:
            read += len(answer.topics[0].partitions[0].records)
    return read / (now - started)


def _note(answered: list[str], name: str, pending: Pending) -> None:
    if pending.expects_answer:
        pending.add_done_callback(lambda _: answered.append(name))


def _set(session: ZkSession, client: str, key: str, quota: int | None) -> None:
    text = None if quota is None else str(quota)
    change_entity_config(session, ConfigEntity(client=client), {key: text})


def test_producer_quota_limits_one_client_only(cluster: LocalCluster, session: ZkSession) -> None:
    _set(session, "greedy", "producer_byte_rate", QUOTA)
    with (
        connect(cluster.brokers[0], "greedy") as greedy,
        connect(cluster.brokers[0], "other") as other,
    ):
        until(lambda: _throttle_ms(greedy) > 0)
        # The least rate is shown with a fixed clock, and over thirty seconds.
        assert _rate_of(greedy, 3.0) < 1.1 * QUOTA
        _set(session, "greedy", "producer_byte_rate", REQUEST_BYTES)
        # Some twenty seconds of its quota.
        pending = [greedy.send(_produce()) for _ in range(20)]
        for _ in range(10):
            assert _throttle_ms(other) == 0
        assert not pending[-1].done
        _set(session, "greedy", "producer_byte_rate", None)
        assert pending[-1].result(60).topics[0].partitions[0].error_code == 0


def test_consumer_quota_limits_rate(cluster: LocalCluster, session: ZkSession) -> None:
    _set(session, "reader", "consumer_byte_rate", QUOTA)
    with (
        connect(cluster.brokers[0], "filler") as filler,
        connect(cluster.brokers[0], "reader") as reader,
    ):
        for _ in range(100):
            produce(filler, TOPIC, DATA)
        until(lambda: reader.request(_fetch()).throttle_time_ms > 0)
        assert _fetch_rate_of(reader, 3.0) < 1.4 * QUOTA


def test_batch_above_quota_is_served_then_throttled(
    cluster: LocalCluster, session: ZkSession
) -> None:
    _set(session, "small", "consumer_byte_rate", 50)
    with connect(cluster.brokers[0], "small") as small:
        until(lambda: small.request(fetch_request(TOPIC, 0)).throttle_time_ms > 0)
    # Another connection is not muted yet; its fetch is answered empty, at once.
    with connect(cluster.brokers[0], "small") as small:
        answer = small.request(fetch_request(TOPIC, 0, max_wait_ms=20_000, min_bytes=1 << 20))
        assert answer.topics == []
        assert answer.throttle_time_ms > 20_000


def test_requests_after_throttled_produce_are_answered_in_order(
    cluster: LocalCluster, session: ZkSession
) -> None:
    _set(session, "member", "producer_byte_rate", 8_000)
    with connect(cluster.brokers[0], "member") as member:
        until(lambda: _throttle_ms(member) > 0)
        for acks in (1, 0):
            answered: list[str] = []
            started = time.monotonic()
            requests = {"first": _produce(acks), "second": _produce(), "beat": BEAT}
            sent = {name: member.send(request) for name, request in requests.items()}
            for name, pending in sent.items():
                _note(answered, name, pending)
            sent["beat"].result(120)
            # Two throttled produces of 2.5 seconds each precede it, minus the quota that was left.
            assert time.monotonic() - started > 3
            assert answered == [*(["first"] if acks else []), "second", "beat"]


def test_request_quota_is_shared_by_connections_of_client(
    cluster: LocalCluster, session: ZkSession
) -> None:
    entity = ConfigEntity(user=DEFAULT, client="slow")
    change_entity_config(session, entity, {"request_percentage": "0.01"})
    try:
        with (
            connect(cluster.brokers[0], "slow") as one,
            connect(cluster.brokers[0], "slow") as two,
            connect(cluster.brokers[0], "quick") as other,
        ):
            until(lambda: one.request(BEAT).throttle_time_ms > 0)
            assert 0 < two.request(BEAT).throttle_time_ms <= 1000
            assert other.request(BEAT).throttle_time_ms == 0
    finally:
        change_entity_config(session, entity, {"request_percentage": None})


@pytest.mark.soak
def test_rates_over_thirty_seconds_are_within_ten_percent(
    cluster: LocalCluster, session: ZkSession
) -> None:
    _set(session, "long", "producer_byte_rate", QUOTA)
    _set(session, "long", "consumer_byte_rate", QUOTA)
    with connect(cluster.brokers[0], "long") as client:
        until(lambda: _throttle_ms(client) > 0)
        assert 0.9 * QUOTA < _rate_of(client, 30.0) < 1.1 * QUOTA
        assert 0.9 * QUOTA < _fetch_rate_of(client, 30.0) < 1.1 * QUOTA


def test_throttled_clients_deliver_everything(cluster: LocalCluster, session: ZkSession) -> None:
    cluster.create_topic("ours")
    quotas = {"producer_byte_rate": "50000", "consumer_byte_rate": "50000"}
    for client in ("ours", "ours-reader"):
        change_entity_config(session, ConfigEntity(client=client), quotas)
    values = [b"%d" % number + bytes(100_000) for number in range(4)]
    config = ProducerConfig.from_properties(
        {
            "metadata.broker.list": cluster.bootstrap_servers,
            "client.id": "ours",
            "producer.type": "async",
            "queue.buffering.max.ms": "1",
            # Shorter than the connection is muted.
            "request.timeout.ms": "1500",
            "message.send.max.retries": "0",
        }
    )
    with Producer(config) as producer:
        for number, value in enumerate(values):
            assert producer.send(KeyedMessage("ours", value)).result(60).offset == number
    host, port = cluster.brokers[0].address
    with SimpleConsumer(host, port, client_id="ours-reader") as reader:
        read: list[bytes | None] = []
        while len(read) < len(values):
            found = reader.fetch(FetchRequest("ours", 0, len(read), 120_000))
            assert found.error is None
            read += [message.value for message in found]
    assert read == values
