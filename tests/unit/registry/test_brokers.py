import json
from pathlib import Path

import pytest

from zkbroker.errors import RegistryError
from zkbroker.registry.broker_registration import SessionRecord, _only_here
from zkbroker.registry.brokers import BrokerInfo


@pytest.mark.parametrize(
    ("data", "host", "port", "rack"),
    [
        (
            {"version": 1, "host": "h", "port": 9092, "jmx_port": 1, "timestamp": "5"},
            "h",
            9092,
            None,
        ),
        (
            {
                "version": 2,
                "host": "h",
                "port": 9092,
                "jmx_port": -1,
                "timestamp": "5",
                "endpoints": ["PLAINTEXT://h:9092", "SSL://h:9093"],
            },
            "h",
            9092,
            None,
        ),
        (
            {
                "version": 3,
                "host": None,
                "port": -1,
                "endpoints": ["SSL://other:9093"],
                "rack": "r1",
            },
            "other",
            9093,
            "r1",
        ),
        (
            {
                "version": 4,
                "host": "::1",
                "port": 9092,
                "endpoints": ["EXTERNAL://[::1]:9092"],
                "listener_security_protocol_map": {"EXTERNAL": "PLAINTEXT"},
                "rack": "dc1",
            },
            "::1",
            9092,
            "dc1",
        ),
        (
            {
                "version": 5,
                "host": "h",
                "port": 1,
                "endpoints": ["PLAINTEXT://h:1"],
                "features": {},
            },
            "h",
            1,
            None,
        ),
    ],
)
def test_registrations_of_every_version_are_read(
    data: dict[str, object], host: str, port: int, rack: str | None
) -> None:
    info = BrokerInfo.from_json(7, json.dumps(data).encode())
    assert (info.id, info.host, info.port, info.rack) == (7, host, port, rack)
    assert info.version == data["version"]


def test_a_registration_that_was_written_reads_back_the_same() -> None:
    info = BrokerInfo(3, "::1", 9092, rack="r", endpoints=("PLAINTEXT://[::1]:9092", "OUT://h:1"))
    again = BrokerInfo.from_json(3, info.to_json())
    assert again == info
    assert again.address == "[::1]:9092"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version":1}',
        b'{"endpoints":["x"]}',
        b"null",
        b'{"host":"h","port":1,"endpoints":["x"]}',
        b'{"host":"h","port":1,"endpoints":["P://h:70000"]}',
    ],
)
def test_what_is_no_registration_is_refused(data: bytes) -> None:
    with pytest.raises(RegistryError, match="/brokers/ids/9 holds no broker registration"):
        BrokerInfo.from_json(9, data)


def test_a_session_record_survives_and_a_broken_one_is_none(tmp_path: Path) -> None:
    record = SessionRecord(tmp_path / "session.json")
    assert record.load() is None
    record.save(0x10000145B600001)
    assert record.load() == 0x10000145B600001
    (tmp_path / "session.json").write_text('{"session": 5')
    assert record.load() is None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "203.0.113.9"])
def test_an_address_that_may_mean_another_machine_proves_nothing(host: str) -> None:
    assert not _only_here(host)


def test_listeners_and_protocols_are_registered_as_genuine_brokers_do() -> None:
    secured = BrokerInfo(
        id=1,
        host="h",
        port=9093,
        endpoints=("CLIENT://h:9093", "EXT://h:9094"),
        protocols=(("CLIENT", "SSL"), ("EXT", "SASL_SSL")),
        timestamp_ms=7,
    )
    assert secured.to_json() == (
        b'{"listener_security_protocol_map":{"CLIENT":"SSL","EXT":"SASL_SSL"},'
        b'"endpoints":["CLIENT://h:9093","EXT://h:9094"],"jmx_port":-1,"host":null,'
        b'"timestamp":"7","port":-1,"version":4}'
    )
    mixed = BrokerInfo(
        id=0,
        host="127.0.0.1",
        port=29151,
        endpoints=("SASL_PLAINTEXT://127.0.0.1:29152", "IN://127.0.0.1:29151"),
        protocols=(("SASL_PLAINTEXT", "SASL_PLAINTEXT"), ("IN", "PLAINTEXT")),
    )
    node = json.loads(mixed.to_json())
    assert (node["host"], node["port"]) == ("127.0.0.1", 29151)


def test_listeners_of_registrations_without_a_map_are_named_after_protocols() -> None:
    data = b'{"version":3,"host":null,"port":-1,"endpoints":["SSL://h:9093"],"jmx_port":-1}'
    found = BrokerInfo.from_json(1, data)
    assert found.listeners == {"SSL": ("SSL", "h", 9093)}
    assert found.endpoint_of("SSL") == ("h", 9093)
    assert found.endpoint_of("PLAINTEXT") is None
    assert found.protocols_spoken == ("SSL",)
