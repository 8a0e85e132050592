"""Every request that a genuine broker with SimpleAclAuthorizer was sent by a user of few rights.

Our broker has the same topics and ACLs, and the same request has the same answer. Answers are
compared decoded, without what depends on the run: the wording of messages, places of brokers, the
order of topics, and what genuine brokers kept in records before.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden.test_replay import Exchange, Wire, plain
from tests.support.authorized import (
    SETTINGS,
    allow_brokers,
    connect_as_bob,
    grant,
    revoke,
)
from tests.support.broker_requests import message_set, produce
from tests.support.brokers import connect, running_broker
from zkbroker.cluster.process import BrokerProcess
from zkbroker.protocol import ApiKey, decode_response, encode_response, supported
from zkbroker.protocol.messages import MetadataRequest
from zkbroker.security import Operation, ResourceType
from zkbroker.security.acls import Pattern, Permission
from zkbroker.zookeeper import ZkSession

DATA = Path(__file__).parent / "data" / "security" / "acl-2.3.0.jsonl"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
T_A, T_DESC, G_A = Pattern(TOPIC, "t-a"), Pattern(TOPIC, "t-desc"), Pattern(GROUP, "g-a")

LEVEL = "not a version of Kafka 2.1"
MOMENT = "the group's coordinator was not there yet"
NOT_COMPARED = {
    487: LEVEL,
    547: LEVEL,
    596: LEVEL,
    # The offsets topic of the recording was made by the first of these.
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
    return [
        (
            entry["seq"],
            Exchange(
                entry["name"],
                number,
                entry["api_key"],
                entry["api_version"],
                entry["correlation_id"],
                bytes.fromhex(entry["request"]),
                bytes.fromhex(entry["response"]),
            ),
        )
        for number, line in enumerate(DATA.read_text().splitlines(), 1)
        for entry in [json.loads(line)]
    ]


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
"""Number of the exchange → what was granted or denied before it."""


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
    """Wait until the broker obeys what was granted last: it takes the changes in their order."""
    mark = f"mark-{number}"
    grant(zk, Operation.DESCRIBE, TOPIC, mark)
    wire = AsBob(process.address)
    asked = b"".join(bytes(part) for part in metadata_frame(mark))[4:]
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        answer = wire.ask(asked)
        assert answer is not None
        (topic,) = decode_response(ApiKey.METADATA, 1, answer)[1].topics
        if topic.error_code == 3:
            wire.close()
            return
    pytest.fail(f"what was granted before {number} is not obeyed")


def metadata_frame(topic: str) -> Any:
    from zkbroker.protocol import RequestHeader, encode_request

    return encode_request(RequestHeader(ApiKey.METADATA, 1, 1, "test"), MetadataRequest([topic]))


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


def test_every_genuine_answer_to_a_user_of_few_rights_is_ours(
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


def test_what_was_refused_left_nothing_behind(
    replayed: list[tuple[int, Exchange, bytes | None]], zookeeper: Any
) -> None:
    with ZkSession(f"{zookeeper.connect_string}/replay-acl") as zk:
        topics = set(zk.children("/brokers/topics"))
        assert topics - {"__consumer_offsets"} == {"t-a", "t-desc"}
        assert "zz" not in zk.children("/kafka-acl/Topic")
        assert zk.children("/admin/delete_topics") == []
