"""Node data is decoded or refused with an error; an unreadable node is logged once."""

import logging

import pytest

from zkbroker.errors import RegistryError
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.node_json import int32, read_json, tell_unreadable
from zkbroker.registry.partitions import PartitionState
from zkbroker.registry.topics import changed_topic, decode_assignment, decode_settings

GARBAGE = [
    b"",
    b"garbage",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"1e999",
    b"NaN",
    b"Infinity",
    b"9" * 10_000,
]


@pytest.mark.parametrize("data", GARBAGE)
def test_invalid_json_raises_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_json(data)


def test_json_is_read() -> None:
    assert read_json(b'{"a":[1,2.5,"x"]}') == {"a": [1, 2.5, "x"]}


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, "99999999999"])
def test_number_beyond_32_bits_is_refused(number: object) -> None:
    with pytest.raises(ValueError, match="32 bits"):
        int32(number)


@pytest.mark.parametrize(
    "data",
    [
        *GARBAGE[1:],
        b'{"partitions":[5]}',
        b'{"partitions":["0"]}',
        b'{"partitions":{"0":[99999999999]}}',
        b'{"partitions":{"0":[-1]}}',
        b'{"partitions":{"0":[1,1]}}',
        b'{"partitions":{"-1":[1]}}',
        b'{"partitions":{"3000000000":[1]}}',
        b'{"partitions":{"0":[1e999]}}',
    ],
)
def test_unencodable_assignment_is_refused(data: bytes) -> None:
    with pytest.raises(RegistryError, match="holds no replica assignment"):
        decode_assignment("t", data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"leader":99999999999,"leader_epoch":1,"isr":[1]}',
        b'{"leader":1,"leader_epoch":99999999999,"isr":[1]}',
        b'{"leader":1,"leader_epoch":1,"isr":[99999999999]}',
        b'{"leader":1,"leader_epoch":1e999,"isr":[1]}',
        b"{}",
        b"[" * 100_000,
    ],
)
def test_unencodable_partition_state_is_refused(data: bytes) -> None:
    with pytest.raises(RegistryError, match="no partition state"):
        PartitionState.from_json(data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"host":"h","port":99999}',
        b'{"host":"h","port":1e999}',
        b'{"host":"%s","port":9092}' % (b"h" * 40_000),
        b'{"host":"h","port":9092,"rack":"%s"}' % (b"r" * 40_000),
        b'{"host":"\\ud800","port":9092}',
        b"[" * 100_000,
    ],
)
def test_unencodable_registration_is_refused(data: bytes) -> None:
    with pytest.raises(RegistryError, match="no broker registration"):
        BrokerInfo.from_json(1, data)


def test_deeply_nested_settings_and_notices_are_refused() -> None:
    assert changed_topic(b"[" * 100_000) is None
    with pytest.raises(RegistryError, match="holds no settings"):
        decode_settings("/config/topics/t", b"[" * 100_000)


def test_unreadable_node_is_logged_once_per_session(caplog: pytest.LogCaptureFixture) -> None:
    class Session:
        pass

    logger, one, other = logging.getLogger("test"), Session(), Session()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            tell_unreadable(one, logger, "topic", "/brokers/topics/t holds garbage")
        tell_unreadable(one, logger, "topic", "/brokers/topics/t holds other garbage")
        tell_unreadable(other, logger, "topic", "/brokers/topics/t holds garbage")
    assert len(caplog.records) == 3
