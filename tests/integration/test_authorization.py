"""A cluster of two brokers with an authorizer: requests of a client with few rights.

The brokers connect from 127.0.0.1, where everything is allowed, and the client from 127.0.0.2.
"""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.authorized import (
    ANONYMOUS,
    BOB,
    SETTINGS,
    allow_brokers,
    grant,
    revoke,
)
from tests.support.clusters import TestCluster
from tests.support.legacy07_server import Client07
from tests.support.permissions import SAMPLES
from tests.support.zookeeper import until
from zkbroker.broker.permissions import NEEDS
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import (
    BROKER_VERSIONS,
    ApiKey,
    RequestHeader,
    decode_response,
    encode_request,
)
from zkbroker.protocol import messages as m
from zkbroker.protocol.messages.acls import AclCreation, AclFilter
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.registry import paths
from zkbroker.registry.acls import read_all_acls
from zkbroker.runtime import get_runtime
from zkbroker.security import Operation, ResourceType
from zkbroker.security.acls import Pattern, PatternType, Permission
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


class Bob:
    """A client with few rights; opens a new connection when the broker closed the last."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._client: Client07 | None = None

    def ask(self, request: Any, version: int | None = None) -> Any:
        """Return the answer; None where the connection was closed instead."""
        api = ApiKey(request.api_key)
        version = BROKER_VERSIONS[api][1] if version is None else version
        header = RequestHeader(api, version, 1, "bob")
        answer = self.send(frame_of(header, request))
        return None if answer is None else decode_response(api, version, answer)[1]

    def send(self, frame: bytes) -> bytes | None:
        if self._client is None:
            self._client = Client07(self._address, BOB)
        try:
            answer: bytes | None = self._client.ask(frame)
        except OSError:
            answer = None
        if answer is None:
            self.close()
        return answer

    def close(self) -> None:
        if self._client is not None:
            self._client.socket.close()
            self._client = None


def frame_of(header: RequestHeader, request: Any) -> bytes:
    """Return a request without its size."""
    return b"".join(bytes(part) for part in encode_request(header, request))[4:]


@pytest.fixture(scope="module")
def where(zookeeper: Any) -> str:
    return f"{zookeeper.connect_string}/authorization"


@pytest.fixture(scope="module")
def zk(where: str) -> Iterator[ZkSession]:
    with ZkSession(where) as session:
        allow_brokers(session)
        yield session


@pytest.fixture(scope="module")
def cluster(where: str, zk: ZkSession) -> Iterator[LocalCluster]:
    settings = {**SETTINGS, "offsets.topic.num.partitions": "1", "num.partitions": "1"}
    with TestCluster(brokers=2, zookeeper=where, properties=settings, replication=2) as made:
        yield made
        for broker in made.brokers:
            assert "Traceback" not in broker.log_path.read_text()


@pytest.fixture(scope="module")
def addresses(cluster: LocalCluster) -> list[tuple[str, int]]:
    return [each.address for each in cluster.brokers]


@pytest.fixture(scope="module")
def friend(addresses: list[tuple[str, int]]) -> Iterator[BrokerConnection]:
    with BrokerConnection(get_runtime("threads"), *addresses[0]) as connection:
        yield connection


@pytest.fixture
def bobs(addresses: list[tuple[str, int]]) -> Iterator[list[Bob]]:
    made = [Bob(each) for each in addresses]
    yield made
    for each in made:
        each.close()


def codes(value: Any) -> set[int]:
    """Every error code of an answer."""
    if isinstance(value, list):
        return {code for each in value for code in codes(each)}
    found = set()
    for name in getattr(value, "__dataclass_fields__", ()):
        if name == "error_code":
            found.add(int(value.error_code))
        else:
            found |= codes(getattr(value, name))
    return found


def tree(zk: ZkSession, path: str = "") -> dict[str, bytes]:
    """All nodes in ZooKeeper and their data, except those that brokers change by themselves."""
    found: dict[str, bytes] = {}
    for name in zk.children(path or "/"):
        child = f"{path}/{name}"
        if child in ("/brokers/ids", "/controller", "/isr_change_notification"):
            continue
        found[child] = zk.get(child)[0]
        found.update(tree(zk, child))
    return found


def led(zk: ZkSession, topic: str) -> bool:
    """Whether the leader of a topic has registered, some milliseconds after it leads."""
    return zk.exists(paths.partition_state(topic, 0)) is not None


def test_brokers_replicate_with_authorizer(friend: BrokerConnection, zk: ZkSession) -> None:
    until(lambda: len(friend.request(m.MetadataRequest([])).brokers) == 2)
    created = friend.request(m.CreateTopicsRequest([NewTopic("allowed", 1, 2)]))
    assert codes(created) == {0}

    def in_sync() -> bool:
        (topic,) = friend.request(m.MetadataRequest(["allowed"])).topics
        return [len(each.isr) for each in topic.partitions] == [2]

    until(in_sync)
    until(lambda: led(zk, "allowed"))


@pytest.mark.parametrize("api", [api for api in NEEDS if NEEDS[api]])
def test_request_without_rights_is_refused_and_changes_nothing(
    api: ApiKey, bobs: list[Bob], zk: ZkSession, friend: BrokerConnection
) -> None:
    before = tree(zk)
    for request in SAMPLES[api]:
        for version in range(BROKER_VERSIONS[api][0], BROKER_VERSIONS[api][1] + 1):
            if not can_be_sent(request, version):
                continue
            answer = bobs[0].ask(request, version)
            assert answer is not None
            if api in (ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_LOG_DIRS):
                assert [getattr(answer, name, []) for name in ("groups", "log_dirs")] == [[], []]
            elif getattr(request, "topics", ()) is not None:
                assert codes(answer) & {29, 30, 31, 53}, answer
    assert tree(zk) == before
    assert friend.request(m.ListGroupsRequest()).groups == []


def can_be_sent(request: Any, version: int) -> bool:
    """Whether a version can encode a request: one for all topics, since 1 or 2."""
    try:
        encode_request(RequestHeader(request.api_key, version, 1, "bob"), request)
    except ValueError:
        return False
    return True


def test_hidden_topic_looks_like_missing_topic(bobs: list[Bob]) -> None:
    topics = bobs[0].ask(m.MetadataRequest(["allowed", "nowhere"]), 5).topics
    assert [(each.topic, each.error_code, each.partitions) for each in topics] == [
        ("allowed", 29, []),
        ("nowhere", 29, []),
    ]
    assert bobs[0].ask(m.MetadataRequest(None), 5).topics == []
    assert bobs[0].ask(m.MetadataRequest([]), 0).topics == []


def test_acl_changes_reach_every_broker(
    bobs: list[Bob], zk: ZkSession, friend: BrokerConnection
) -> None:
    def errors() -> list[int]:
        return [bob.ask(m.MetadataRequest(["allowed"])).topics[0].error_code for bob in bobs]

    acl = AclCreation(TOPIC, "all", 4, ANONYMOUS, BOB, Operation.DESCRIBE, Permission.ALLOW)
    assert codes(friend.request(m.CreateAclsRequest([acl]))) == {0}
    assert errors()[0] == 0, "the broker that stored it uses it at once"
    until(lambda: errors() == [0, 0])
    filters = [AclFilter(TOPIC, "all", 4, ANONYMOUS, BOB)]
    (deleted,) = friend.request(m.DeleteAclsRequest(filters)).results
    assert [(each.resource_name, each.host) for each in deleted.matching] == [("all", BOB)]
    assert errors()[0] == 29
    until(lambda: errors() == [29, 29])
    grant(zk, Operation.READ, TOPIC, "*")
    until(lambda: errors() == [0, 0])
    revoke(zk, Pattern(TOPIC, "*"))
    until(lambda: errors() == [29, 29])


def test_user_with_create_right_auto_creates_topic(bobs: list[Bob], zk: ZkSession) -> None:
    def error_of(name: str) -> int:
        return int(bobs[0].ask(m.MetadataRequest([name])).topics[0].error_code)

    pattern = PatternType.PREFIXED
    grant(zk, Operation.DESCRIBE, TOPIC, "made-", pattern_type=pattern)
    grant(zk, Operation.DESCRIBE, TOPIC, "seen")
    until(lambda: 3 in codes(bobs[0].ask(m.ListOffsetsRequest(topics=offsets("seen")))))
    assert error_of("made-a") == 29
    assert "made-a" not in zk.children("/brokers/topics")
    grant(zk, Operation.CREATE, TOPIC, "made-", pattern_type=pattern)
    until(lambda: error_of("made-a") in (0, 5))
    until(lambda: error_of("made-a") == 0)
    until(lambda: led(zk, "made-a"))
    revoke(zk, Pattern(TOPIC, "made-", pattern))
    revoke(zk, Pattern(TOPIC, "seen"))


def offsets(topic: str) -> list[Any]:
    request = SAMPLES[ApiKey.LIST_OFFSETS][0]
    return [type(request.topics[0])(topic, request.topics[0].partitions)]


def test_odd_and_many_acls_are_stored_or_refused(friend: BrokerConnection, zk: ZkSession) -> None:
    def create(name: str, principal: str = "User:x", kind: int = TOPIC, op: int = 3) -> int:
        acl = AclCreation(kind, name, 3, principal, "*", op, 3)
        (result,) = friend.request(m.CreateAclsRequest([acl])).results
        if result.error_code:
            assert result.error_message
        return int(result.error_code)

    assert [create(name) for name in ("a/b", "a\0b", "", "..", "x" * 30_000)] == [42] * 5
    assert [create("t", "x"), create("t", "User:"), create("t", kind=9), create("t", op=1)] == [
        *([42] * 4)
    ]
    assert create("kafka", kind=ResourceType.CLUSTER) == 42
    assert create("100%") == 0
    assert Pattern(TOPIC, "100%") in read_all_acls(zk)
    for wrong in (AclFilter(resource_type=0), AclFilter(operation=99), AclFilter(pattern_type=7)):
        (result,) = friend.request(m.DeleteAclsRequest([wrong])).results
        assert (result.error_code, result.matching) == (42, [])
    assert friend.request(m.DescribeAclsRequest(permission_type=0)).error_code == 42
    many = [AclCreation(TOPIC, f"many-{n % 50}", 3, f"User:u{n}", "*", 3, 3) for n in range(2000)]
    assert codes(friend.request(m.CreateAclsRequest(many))) == {0}
    found = friend.request(m.DescribeAclsRequest(TOPIC, "many-7", 3)).resources
    assert [len(each.acls) for each in found] == [40]
    filters = [AclFilter(TOPIC, f"many-{n}", 3) for n in range(50)]
    results = friend.request(m.DeleteAclsRequest(filters)).results
    assert sum(len(each.matching) for each in results) == 2000
    assert not any(pattern.name.startswith("many-") for pattern in read_all_acls(zk))


def test_mutated_requests_without_rights_change_nothing(
    bobs: list[Bob], zk: ZkSession, friend: BrokerConnection, cluster: LocalCluster
) -> None:
    before = tree(zk)
    dice = random.Random(26)
    frames = [
        frame_of(RequestHeader(api, BROKER_VERSIONS[api][1], 1, "bob"), request)
        for api, requests in SAMPLES.items()
        for request in requests
    ]
    for _ in range(1500):
        frame = bytearray(dice.choice(frames))
        for _ in range(dice.randrange(1, 4)):
            # Behind acks, with which no answer comes.
            at = dice.randrange(4, len(frame))
            frame[at] = dice.randrange(256)
        if frame[:2] == b"\0\0":
            continue
        bobs[0].send(bytes(frame))
    assert tree(zk) == before
    assert friend.request(m.ListGroupsRequest()).groups == []
    assert all(broker.alive for broker in cluster.brokers)


def test_audit_log_of_denials_is_bounded(cluster: LocalCluster) -> None:
    log = cluster.brokers[0].log_path.read_text() + cluster.brokers[1].log_path.read_text()
    lines = [line for line in log.splitlines() if "zkbroker.audit" in line and "denied " in line]
    assert any(f"principal={ANONYMOUS} operation=Write" in line for line in lines)
    assert any(f"host={BOB}" in line for line in lines)
    assert not any("host=127.0.0.1" in line for line in lines)
    assert len(lines) < 1500
