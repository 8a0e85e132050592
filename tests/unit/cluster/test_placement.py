"""The number of brokers of a host, their disks and their rack."""

import os
import socket
from pathlib import Path

import pytest

from zkbroker.cluster.placement import broker_count, cores, log_directory, rack_of_host
from zkbroker.errors import ConfigError
from zkbroker.registry.brokers import BrokerInfo

DISKS = (Path("/disk1"), Path("/disk2"))


@pytest.mark.parametrize(
    ("asked", "disks", "count"),
    [
        ("3", (), 3),
        ("100", (), 100),
        ("1", DISKS, 1),
        ("per-core", (), 8),
        ("per-core", DISKS, 8),
        ("per-disk", DISKS, 2),
    ],
)
def test_broker_count_is_parsed(asked, disks, count):
    assert broker_count(asked, disks, available=8) == count


def test_per_core_counts_the_cores_of_this_process():
    assert broker_count("per-core", ()) == cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("asked", ["0", "101", "-1", "per-cpu", "", "1.5", "²"])
def test_invalid_broker_count_is_refused(asked):
    with pytest.raises(ConfigError, match="1 to 100, per-core or per-disk"):
        broker_count(asked, ())


def test_per_disk_needs_disks():
    with pytest.raises(ConfigError, match="--disk"):
        broker_count("per-disk", ())


def test_brokers_are_spread_over_disks():
    places = [log_directory(index, 11 + index, DISKS)["log.dirs"] for index in range(3)]
    assert places == ["/disk1/broker-11", "/disk2/broker-12", "/disk1/broker-13"]
    assert log_directory(0, 1, ()) == {}


def info(broker, rack):
    return BrokerInfo(broker, "h", 1, rack=rack)


@pytest.mark.parametrize("several", [True, False])
def test_rack_is_the_host_unless_others_have_none(several):
    def rack(properties, *others):
        return rack_of_host(properties, others, several=several, host="h1")

    assert rack({}, info(1, "h2")) == "h1"
    assert rack({}, info(1, "h2"), info(2, None)) is None
    assert rack({"broker.rack": "r"}, info(1, "h2")) is None, "a given rack is kept"
    assert rack({}) == ("h1" if several else None), "a single broker needs none"


def test_default_rack_is_the_hostname():
    assert rack_of_host({}, [], several=True) == socket.gethostname()
