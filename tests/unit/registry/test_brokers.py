import json
import threading

import pytest

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.brokers import BrokerInfo, list_brokers

REGISTRATIONS = [
    (
        b'{"version":1,"host":"h","port":9092,"jmx_port":1,"timestamp":"5"}',
        (1, "h", 9092, None),
    ),
    (
        (
            b'{"version":2,"host":"h","port":9092,"jmx_port":-1,"timestamp":"5",'
            b'"endpoints":["PLAINTEXT://h:9092","SSL://h:9093"]}'
        ),
        (2, "h", 9092, None),
    ),
    (
        b'{"version":3,"host":null,"port":-1,"endpoints":["SSL://other:9093"],"rack":"r1"}',
        (3, "other", 9093, "r1"),
    ),
    (
        (
            b'{"version":4,"host":"::1","port":9092,"endpoints":["EXTERNAL://[::1]:9092"],'
            b'"listener_security_protocol_map":{"EXTERNAL":"PLAINTEXT"},"rack":"dc1"}'
        ),
        (4, "::1", 9092, "dc1"),
    ),
    (
        b'{"version":5,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"],"features":{}}',
        (5, "h", 1, None),
    ),
]


@pytest.mark.parametrize(("data", "expected"), REGISTRATIONS)
def test_registrations_of_every_version_are_read(
    data: bytes, expected: tuple[int, str, int, str | None]
) -> None:
    info = BrokerInfo.from_json(7, data)
    assert (info.version, info.host, info.port, info.rack) == expected
    assert info.id == 7


def test_registration_round_trips() -> None:
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
def test_invalid_registration_is_refused(data: bytes) -> None:
    with pytest.raises(RegistryError, match="/brokers/ids/9 holds no broker registration"):
        BrokerInfo.from_json(9, data)


def test_registered_listeners_have_genuine_form() -> None:
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


def test_listeners_without_protocol_map_are_named_by_protocol() -> None:
    data = b'{"version":3,"host":null,"port":-1,"endpoints":["SSL://h:9093"],"jmx_port":-1}'
    found = BrokerInfo.from_json(1, data)
    assert found.listeners == {"SSL": ("SSL", "h", 9093)}
    assert found.endpoint_of("SSL") == ("h", 9093)
    assert found.endpoint_of("PLAINTEXT") is None
    assert found.protocols_spoken == ("SSL",)


def test_broker_that_registers_before_the_watch_is_set_is_listed(session):
    session.delete(paths.BROKER_IDS)
    ensure_path = session.ensure_path

    def ensure(path):
        ensure_path(path)
        if path == paths.BROKER_IDS:
            session.create(paths.broker(1), BrokerInfo(1, "h", 9092).to_json(), ephemeral=True)

    session.ensure_path = ensure
    assert list(list_brokers(session, threading.Event())) == [1]
