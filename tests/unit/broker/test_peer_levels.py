"""Brokers with incompatible protocol levels are reported, once."""

import pytest

from zkbroker.broker.peer_levels import PeerLevels
from zkbroker.registry.brokers import BrokerInfo

KAFKA_0_8_2 = BrokerInfo(1, "h", 9092, version=1)
KAFKA_0_9 = BrokerInfo(2, "h", 9092, version=2)
KAFKA_2_3 = BrokerInfo(3, "h", 9092, version=4)
OURS = BrokerInfo(4, "h", 9092)
OURS_OLD = BrokerInfo(5, "h", 9092, level="0.8.2")
OURS_2_1 = BrokerInfo(6, "h", 9092, level="2.1")


def reported(caplog, level, *brokers):
    caplog.clear()
    PeerLevels(9, level).look({each.id: each for each in (*brokers, BrokerInfo(9, "h", 1))})
    return caplog.messages


@pytest.mark.parametrize("broker", [KAFKA_2_3, OURS, OURS_2_1])
def test_old_level_in_newer_cluster_is_reported(caplog, broker):
    (text,) = reported(caplog, "0.8.2", broker)
    assert f"inter.broker.protocol.version=0.8.2 here, but brokers [{broker.id}] have a" in text
    assert "(2.1, 2.2, 2.3)" in text


@pytest.mark.parametrize("broker", [KAFKA_0_8_2, KAFKA_0_9, OURS_OLD])
def test_newer_level_in_old_cluster_is_reported(caplog, broker):
    (text,) = reported(caplog, "2.1", broker)
    assert f"inter.broker.protocol.version=2.1 here, but brokers [{broker.id}] have 0.8.2" in text
    assert "Set inter.broker.protocol.version=0.8.2" in text


def test_compatible_levels_are_not_reported(caplog):
    assert reported(caplog, "0.8.2", KAFKA_0_8_2, KAFKA_0_9, OURS_OLD) == []
    assert reported(caplog, "2.3", KAFKA_2_3, OURS, OURS_2_1) == []


def test_peer_is_reported_once_until_it_leaves(caplog):
    levels = PeerLevels(9, "0.8.2")
    for brokers in ([OURS], [OURS], [OURS, KAFKA_2_3], [KAFKA_2_3], [OURS, KAFKA_2_3]):
        levels.look({each.id: each for each in brokers})
    assert ["[4]" in message for message in caplog.messages] == [True, False, True]


def test_registration_holds_a_level_below_the_latest():
    read = BrokerInfo.from_json(5, OURS_OLD.to_json())
    assert (read, read.level) == (OURS_OLD, "0.8.2")
    assert b"inter_broker_protocol" not in OURS.to_json()
