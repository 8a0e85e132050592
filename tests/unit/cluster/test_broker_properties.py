"""Properties that brokers of one machine cannot share are made distinct, or refused."""

import pytest

from zkbroker.cluster.broker_properties import check_shared, properties_of
from zkbroker.errors import ConfigError

GIVEN = {
    "num.partitions": "4",
    "admin.port": "9990",
    "legacy07.listener": "127.0.0.1:6667",
    "legacy07.log.dir": "/data/old/",
}


def test_first_broker_gets_the_given_properties():
    assert properties_of(0, 1, GIVEN) == GIVEN


def test_further_brokers_get_next_ports_and_own_directories():
    assert properties_of(1, 2, GIVEN) == {
        "num.partitions": "4",
        "admin.port": "9991",
        "legacy07.listener": "127.0.0.1:6668",
        "legacy07.log.dir": "/data/old-broker-2",
    }


@pytest.mark.parametrize("value", ["0", "-1"])
def test_automatic_or_disabled_port_is_kept(value):
    assert properties_of(2, 3, {"admin.port": value}) == {"admin.port": value}


def test_port_above_65535_is_refused():
    with pytest.raises(ConfigError, match="leaves no port for broker 3"):
        properties_of(2, 3, {"admin.port": "65534"})


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("broker.id", "7", "numbered from 1"),
        ("legacy07.broker.id", "7", "broker.id"),
        ("log.dirs", "/data", "--data"),
        ("port", "9092", "--port"),
        ("listeners", "SSL://:9093", "port 0, as in SSL://127.0.0.1:0"),
    ],
)
def test_property_that_brokers_cannot_share_is_refused(key, value, instead):
    check_shared({key: value}, 1)
    with pytest.raises(ConfigError, match=f"cannot be that of 2 brokers: .*{instead}"):
        check_shared({key: value}, 2)


def test_port_0_can_be_shared():
    check_shared({"port": "0", "listeners": "PLAINTEXT://127.0.0.1:0"}, 3)
