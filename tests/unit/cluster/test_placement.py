"""How many brokers a host gets, on which disks, and in which rack."""

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
def test_how_many_are_meant(asked, disks, count):
    assert broker_count(asked, disks, available=8) == count


def test_one_for_each_core_is_for_each_that_this_process_may_use():
    assert broker_count("per-core", ()) == cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("asked", ["0", "101", "-1", "per-cpu", "", "1.5", "²"])
def test_anything_else_is_refused_with_what_may_be_given(asked):
    with pytest.raises(ConfigError, match="1 to 100, per-core or per-disk"):
        broker_count(asked, ())


def test_one_for_each_disk_needs_disks():
    with pytest.raises(ConfigError, match="--disk"):
        broker_count("per-disk", ())


def test_brokers_take_turns_on_disks():
    places = [log_directory(index, 11 + index, DISKS)["log.dirs"] for index in range(3)]
    assert places == ["/disk1/broker-11", "/disk2/broker-12", "/disk1/broker-13"]
    assert log_directory(0, 1, ()) == {}


def info(broker, rack):
    return BrokerInfo(broker, "h", 1, rack=rack)


@pytest.mark.parametrize("several", [True, False])
def test_the_rack_is_the_host_unless_others_name_none(several):
    def rack(properties, *others):
        return rack_of_host(properties, others, several=several, host="h1")

    assert rack({}, info(1, "h2")) == "h1"
    assert rack({}, info(1, "h2"), info(2, None)) is None
    assert rack({"broker.rack": "r"}, info(1, "h2")) is None, "what was given counts"
    assert rack({}) == ("h1" if several else None), "a single broker needs none"


def test_a_host_is_named_as_it_names_itself():
    assert rack_of_host({}, [], several=True) == socket.gethostname()
