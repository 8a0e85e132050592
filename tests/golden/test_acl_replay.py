"""Recorded requests of a user with few rights to a genuine broker with SimpleAclAuthorizer.

Our broker has the same topics and ACLs, and the same request has the same answer. Answers are
compared decoded, without the parts that depend on the run: texts of messages, addresses of brokers,
the order of topics, and the records stored before.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.authorized import (
    SETTINGS,
    allow_brokers,
    connect_as_bob,
    grant,
    revoke,
)
from tests.support.broker_requests import message_set, produce
from tests.support.brokers import connect, running_broker
from tests.support.recorded_exchanges import Exchange, Wire, plain
from zkbroker.cluster.process import BrokerProcess
from zkbroker.protocol import (
    ApiKey,
    RequestHeader,
    decode_response,
    encode_request,
    encode_response,
    supported,
)
from zkbroker.protocol.messages import MetadataRequest
from zkbroker.security import Operation, ResourceType
from zkbroker.security.acls import Pattern, Permission
from zkbroker.zookeeper import ZkSession

DATA = Path(__file__).parent / "data" / "security" / "acl-2.3.0.jsonl"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
T_A, T_DESC, G_A = Pattern(TOPIC, "t-a"), Pattern(TOPIC, "t-desc"), Pattern(GROUP, "g-a")

LEVEL = "not a version of Kafka 2.1"
MOMENT = "the group had no coordinator yet"
NOT_COMPARED = {
    487: LEVEL,
    547: LEVEL,
    596: LEVEL,
    # The first of these created the offsets topic of the recording.
    551: MOMENT,
    568: MOMENT,
    569: MOMENT,
    574: "since 2.8 Write on some topic is enough for a producer id, and clients rely on it",
}
"""Number of the exchange → why its answer may differ."""


class AsBob(Wire):
    def send(self, request: bytes) -> None:
        if self.socket is None:
            self.socket = connect_as_bob(self.address)
        super().send(request)


def exchanges() -> list[tuple[int, Exchange]]:
    rows = enumerate(map(json.loads, DATA.read_text().splitlines()), 1)
    return [(row["seq"], Exchange.from_row(number, row)) for number, row in rows]


Grants = dict[int, Callable[[ZkSession], None]]


def few(zk: ZkSession) -> None:
    grant(zk, Operation.WRITE, *T_A[:2])
    grant(zk, Operation.DESCRIBE, *T_DESC[:2])
    grant(zk, Operation.READ, *G_A[:2])


def write_denied(zk: ZkSession) -> None:
    grant(zk, Operation.WRITE, *T_A[:2], permission=Permission.DENY)


def read_from_here(zk: ZkSession) -> None:
    revoke(zk, T_A)
    grant(zk, Operation.READ, *T_A[:2])
    grant(zk, Operation.READ, *T_A[:2], permission=Permission.DENY, host="10.9.9.9")


def describe_denied(zk: ZkSession) -> None:
    grant(zk, Operation.DESCRIBE, *T_A[:2], permission=Permission.DENY)


GRANTED: Grants = {537: few, 594: write_denied, 601: read_from_here, 604: describe_denied}
"""Number of the exchange → the grant or denial before it."""


@pytest.fixture(scope="module")
def replayed(
    zookeeper: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[tuple[int, Exchange, bytes | None]]]:
    where = f"{zookeeper.connect_string}/replay-acl"
    settings = {
        **SETTINGS,
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "1",
    }
    with ZkSession(where) as zk:
        allow_brokers(zk)
        # What is allowed to friends only would make the topics known: the recording had none.
        directory = tmp_path_factory.mktemp("acl")
        with running_broker(directory, where, settings, "t-a", "t-desc") as process:
            with connect(process) as friend:
                for _ in range(4):
                    assert produce(friend, "t-a", message_set(2, [b"v"])).error_code == 0
            yield replay(process, zk)


def replay(process: BrokerProcess, zk: ZkSession) -> list[tuple[int, Exchange, bytes | None]]:
    wire = AsBob(process.address)
    done = []
    for number, exchange in exchanges():
        if number in GRANTED:
            GRANTED[number](zk)
            settle(process, zk, number)
        done.append((number, exchange, wire.ask(exchange.request)))
    wire.close()
    return done


def settle(process: BrokerProcess, zk: ZkSession, number: int) -> None:
    """Wait until the broker applies the last change: it applies changes in their order."""
    mark = f"mark-{number}"
    grant(zk, Operation.DESCRIBE, TOPIC, mark)
    wire = AsBob(process.address)
    header = RequestHeader(ApiKey.METADATA, 1, 1, "test")
    request = b"".join(map(bytes, encode_request(header, MetadataRequest([mark]))))[4:]
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        answer = wire.ask(request)
        assert answer is not None
        (topic,) = decode_response(ApiKey.METADATA, 1, answer)[1].topics
        if topic.error_code == 3:
            wire.close()
            return
    pytest.fail(f"the change before {number} is not applied")


def comparable(exchange: Exchange, answer: bytes) -> Any:
    correlation_id, response = decode_response(exchange.api_key, exchange.version, answer)
    assert correlation_id == exchange.correlation_id
    again = b"".join(bytes(each) for each in encode_response(1, response, exchange.version))
    assert len(again) == len(answer) + 4
    found = plain(response)
    for field in ("topics", "groups", "resources"):
        items = found.get(field)
        if items:
            items.sort(key=str)
    for topic in found.get("topics", []):
        for partition in topic.get("partitions", ()):
            if exchange.api_key == ApiKey.FETCH:
                partition["records"] = len(partition["records"]) > 0
    for broker in found.get("brokers", ()):
        broker["host"] = broker["port"] = None
    if exchange.api_key in (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS):
        # Genuine brokers print the object of the request.
        for each in (found, *found.get("results", ())):
            if "error_message" in each:
                each["error_message"] = each["error_message"] is not None
    found.pop("cluster_id", None)
    return found


def test_answers_to_restricted_user_equal_genuine_ones(
    replayed: list[tuple[int, Exchange, bytes | None]],
) -> None:
    compared = 0
    wrong = []
    for number, exchange, answer in replayed:
        if number in NOT_COMPARED:
            continue
        assert supported(exchange.api_key, exchange.version), exchange.name
        assert exchange.response is not None
        if answer is None:
            wrong.append((exchange.name, "no answer"))
            continue
        genuine, ours = comparable(exchange, exchange.response), comparable(exchange, answer)
        compared += 1
        if genuine != ours:
            wrong.append((number, exchange.name, genuine, ours))
    assert wrong == []
    assert compared == 111 - len(NOT_COMPARED)


def test_refused_requests_have_no_effect(
    replayed: list[tuple[int, Exchange, bytes | None]], zookeeper: Any
) -> None:
    with ZkSession(f"{zookeeper.connect_string}/replay-acl") as zk:
        topics = set(zk.children("/brokers/topics"))
        assert topics - {"__consumer_offsets"} == {"t-a", "t-desc"}
        assert "zz" not in zk.children("/kafka-acl/Topic")
        assert zk.children("/admin/delete_topics") == []
