"""Listeners: valid and invalid endpoints, and their protocols."""

import pytest

from zkbroker.config.listeners import (
    Endpoint,
    parse_endpoint,
    parse_listeners,
    parse_protocol_map,
)
from zkbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("PLAINTEXT://b1:9092", Endpoint("PLAINTEXT", "b1", 9092)),
        ("internal://:0", Endpoint("INTERNAL", "", 0)),
        ("PLAINTEXT://[::1]:65535", Endpoint("PLAINTEXT", "::1", 65535)),
        ("PLAINTEXT://[fe80::1]:9092", Endpoint("PLAINTEXT", "fe80::1", 9092)),
        ("A_B://host:1", Endpoint("A_B", "host", 1)),
    ],
)
def test_endpoint_text_round_trips(text: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(text) == endpoint
    assert parse_endpoint(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    "text", ["b1:9092", "PLAINTEXT://b1", "PLAINTEXT://b1:65536", "PLAINTEXT://::1:9092", "A://b:x"]
)
def test_invalid_listener_is_refused_with_its_property(text: str) -> None:
    with pytest.raises(ConfigError, match=r"advertised\.listeners"):
        parse_endpoint(text, "advertised.listeners")


def test_listener_names_are_mapped_to_protocols() -> None:
    protocols = parse_protocol_map(("inside:plaintext", "OUTSIDE: SSL"))
    assert protocols == {"INSIDE": "PLAINTEXT", "OUTSIDE": "SSL"}
    found = parse_listeners(("inside://:1", "outside://:2", "SASL_SSL://:3"), "l", protocols)
    assert [each.protocol for each in found] == ["PLAINTEXT", "SSL", "SASL_SSL"]
    with pytest.raises(ConfigError, match="listener CLIENTS has no security protocol: add CLIENTS"):
        parse_listeners(("clients://:1",), "listeners", protocols)


def test_listeners_with_same_port_are_refused() -> None:
    with pytest.raises(ConfigError, match="port 9092 twice"):
        parse_listeners(("PLAINTEXT://a:9092", "SSL://b:9092"), "listeners", {})
    assert len(parse_listeners(("PLAINTEXT://a:0", "SSL://b:0"), "listeners", {})) == 2


def test_invalid_protocol_map_is_refused() -> None:
    with pytest.raises(ConfigError, match="give A:PROTOCOL with one of PLAINTEXT, SSL"):
        parse_protocol_map(("A:TLS",))
    with pytest.raises(ConfigError, match="gives A two protocols"):
        parse_protocol_map(("A:SSL", "a:PLAINTEXT"))
    with pytest.raises(ConfigError, match="NAME:PROTOCOL"):
        parse_protocol_map(("INSIDE",))
    assert parse_protocol_map(("A:SSL", "A:SSL")) == {"A": "SSL"}


def test_duplicate_listener_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="PLAINTEXT twice"):
        parse_listeners(("plaintext://:1", "PLAINTEXT://:2"), "listeners", {})
