"""What brokers of one machine cannot share is told apart, or refused."""

import pytest

from zkbroker.cluster.broker_properties import check_shared, properties_of
from zkbroker.errors import ConfigError

GIVEN = {
    "num.partitions": "4",
    "admin.port": "9990",
    "legacy07.listener": "127.0.0.1:6667",
    "legacy07.log.dir": "/data/old/",
}


def test_the_first_broker_has_what_was_given():
    assert properties_of(0, 1, GIVEN) == GIVEN


def test_ports_count_up_and_each_has_its_own_directory():
    assert properties_of(1, 2, GIVEN) == {
        "num.partitions": "4",
        "admin.port": "9991",
        "legacy07.listener": "127.0.0.1:6668",
        "legacy07.log.dir": "/data/old-broker-2",
    }


@pytest.mark.parametrize("value", ["0", "-1"])
def test_a_port_that_is_chosen_or_off_stays(value):
    assert properties_of(2, 3, {"admin.port": value}) == {"admin.port": value}


def test_there_may_be_no_port_left():
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
def test_what_only_one_broker_can_have_is_refused(key, value, instead):
    check_shared({key: value}, 1)
    with pytest.raises(ConfigError, match=f"cannot be that of 2 brokers: .*{instead}"):
        check_shared({key: value}, 2)


def test_free_ports_are_for_all():
    check_shared({"port": "0", "listeners": "PLAINTEXT://127.0.0.1:0"}, 3)
