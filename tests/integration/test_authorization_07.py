"""Clients of 0.7 at a broker with an authorizer: refused requests change nothing."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.authorized import BOB, SETTINGS, allow_brokers, grant
from tests.support.brokers import running_broker
from tests.support.legacy07_server import Client07
from tests.support.zookeeper import until
from zkbroker.protocol.legacy07 import (
    Fetch07,
    Offsets07,
    Produce07,
    decode_answer,
    encode_request,
)
from zkbroker.records.legacy07 import build_message
from zkbroker.security import Operation, ResourceType
from zkbroker.zookeeper import ZkSession

TOPIC = ResourceType.TOPIC
ONE = build_message(b"one")


@pytest.fixture(scope="module")
def zk(zookeeper: Any) -> Iterator[ZkSession]:
    with ZkSession(f"{zookeeper.connect_string}/authorization-07") as session:
        allow_brokers(session)
        yield session


@pytest.fixture(scope="module")
def address(
    zk: ZkSession, zookeeper: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, int]]:
    settings = {
        **SETTINGS,
        "legacy07.listener": "127.0.0.1:0",
        "legacy07.zookeeper.chroot": "/authorization-07-old",
        "log.flush.interval.messages": "1",
    }
    where = f"{zookeeper.connect_string}/authorization-07"
    with running_broker(tmp_path_factory.mktemp("b"), where, settings) as process:
        log = process.log_path.read_text()
        found = re.search(r"0\.7 listener started id=\S+ address=127\.0\.0\.1:(\d+)", log)
        assert found, log
        yield "127.0.0.1", int(found[1])


def fetched(address: tuple[str, int], topic: str, source: str = "") -> tuple[int, bytes]:
    with Client07(address, source) as client:
        answer = client.ask(encode_request(Fetch07(topic, 0, 0, 1000)))
        error, body = decode_answer(memoryview(answer))
        return error, bytes(body)


def test_legacy07_client_without_rights_is_refused(address: tuple[str, int], zk: ZkSession) -> None:
    with Client07(address) as friend:
        friend.send(encode_request(Produce07("shared", 0, ONE)))
        until(lambda: fetched(address, "shared")[1] == ONE)
    before = zk.children("/brokers/topics")
    for request in (
        Produce07("shared", 0, ONE),
        Produce07("new", 0, ONE),
        Offsets07("shared", 0, -1, 1),
    ):
        with Client07(address, BOB) as bob:
            assert bob.ask(encode_request(request)) is None
    assert fetched(address, "shared", BOB) == (-1, b"")
    assert fetched(address, "new", BOB) == (-1, b"")
    assert fetched(address, "shared")[1] == ONE
    assert zk.children("/brokers/topics") == before


def test_legacy07_client_with_acl_for_its_address_is_served(
    address: tuple[str, int], zk: ZkSession
) -> None:
    grant(zk, Operation.READ, TOPIC, "shared", host=BOB)
    until(lambda: fetched(address, "shared", BOB) == (0, ONE))
    grant(zk, Operation.WRITE, TOPIC, "shared", host=BOB)

    def written() -> bool:
        with Client07(address, BOB) as bob:
            bob.send(encode_request(Produce07("shared", 0, ONE)))
        return len(fetched(address, "shared", BOB)[1]) > len(ONE)

    until(written)
