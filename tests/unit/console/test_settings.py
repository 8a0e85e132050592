import pytest

from zkbroker.console.settings import ConsoleSettings, cluster_id_of, cluster_settings
from zkbroker.errors import ConfigError


def test_cluster_settings_from_properties():
    found = cluster_settings(
        "live west",
        {
            "zookeeper.connect": "zk:2181/kafka",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "console",
            "sasl.password": "pw",
            "console.admin.pages": "1=http://b1:9100/, 2=https://b2:9100",
            "console.admin.port": "9100",
            "console.admin.user": "a",
            "console.admin.password": "hidden-word",
            "console.lakes": "/lake/a,/lake/b",
            "client.id": "x",
        },
    )
    assert (found.id, found.name) == ("live-west", "live west")
    assert found.admin_pages == {1: "http://b1:9100", 2: "https://b2:9100"}
    assert (found.admin_port, found.lakes) == (9100, ("/lake/a", "/lake/b"))
    assert found.security.protocol == "SASL_PLAINTEXT"
    assert "hidden-word" not in repr(found)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "has no address"),
        ({"zookeeper.conect": "z:1"}, "zookeeper.conect is not a setting"),
        ({"bootstrap.servers": "b:1", "console.admin.port": "x"}, "give a port"),
        ({"bootstrap.servers": "b:1", "console.admin.pages": "b1:9100"}, "not an admin page"),
        ({"bootstrap.servers": "b:1", "console.admin.pages": "3=file:///x"}, "give ID=http"),
    ],
)
def test_invalid_properties_are_refused(properties, message):
    with pytest.raises(ConfigError, match=message):
        cluster_settings("c", properties)


def test_cluster_id_is_valid_in_urls():
    assert cluster_id_of("zk:2181/kafka") == "zk-2181-kafka"
    assert cluster_id_of("///") == "cluster"


@pytest.mark.parametrize("bad", [{"interval_s": 0.1}, {"samples": 1}])
def test_interval_and_samples_out_of_bounds_are_refused(bad):
    with pytest.raises(ConfigError):
        ConsoleSettings(**bad)
