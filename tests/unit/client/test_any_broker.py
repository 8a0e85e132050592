"""Look-ups ask one broker after the other; a hanging broker costs its patience."""

import pytest

from tests.support.fake_broker import HANG, FakeCluster
from tests.support.producers import RUNTIMES, static_cluster
from zkbroker.client import BrokerAddress, BrokerUnavailable
from zkbroker.client.any_broker import AnyBroker
from zkbroker.client.view import NoBrokersAvailable
from zkbroker.errors import InvalidTopic, NetworkError, RequestTimedOut
from zkbroker.protocol import ApiKey

BROKERS = [BrokerAddress(number, "b", 9000 + number) for number in range(3)]


class FakeConnections:
    """Each broker is its own connection; `unreachable` maps ids to the cause of failure."""

    def __init__(self, unreachable=None):
        self.unreachable = unreachable or {}
        self.limits = []

    def get(self, address, lane, timeout_s):
        self.limits.append(timeout_s)
        if address.id in self.unreachable:
            raise BrokerUnavailable(f"broker {address.id}") from self.unreachable[address.id]
        return address


def brokers(patience_s=0.01, **options):
    return AnyBroker(FakeConnections(**options), 5.0, patience_s)


def test_brokers_are_asked_in_turn():
    asking = brokers()
    asked = [asking.ask(lambda each, _: each.id, BROKERS) for _ in range(6)]
    assert sorted(asked[:3]) == [0, 1, 2]
    assert asked[3:] == asked[:3]


def test_bootstrap_brokers_are_asked_when_no_known_broker_answers():
    asking = brokers(unreachable={1: NetworkError("refused")})
    assert asking.ask(lambda each, _: each.id, BROKERS[:1], BROKERS[1:2]) == 0
    assert asking.ask(lambda each, _: each.id, BROKERS[1:2], BROKERS[2:]) == 2


def test_broker_that_timed_out_is_asked_last():
    asking = brokers()
    asked = []

    def question(broker, wait_s):
        asked.append(broker.id)
        if broker.id == 1:
            raise RequestTimedOut("no answer")
        return broker.id

    for _ in range(6):
        asking.ask(question, BROKERS)
    assert asked.count(1) == 1


def test_patience_doubles_until_slow_broker_answers():
    asking = brokers(patience_s=0.5)
    waits = []

    def question(broker, wait_s):
        waits.append(wait_s)
        if wait_s < 1.5:
            raise RequestTimedOut("not yet")
        return broker.id

    assert asking.ask(question, BROKERS) in {0, 1, 2}
    assert len(waits) == 7, "all three with each patience, and one that answered"


def test_single_broker_gets_whole_timeout():
    assert brokers().ask(lambda _, wait_s: wait_s, BROKERS[:1]) > 4


def test_connection_timeout_counts_as_hanging_broker():
    asking = brokers(unreachable={0: RequestTimedOut("no answer")})
    with pytest.raises(BrokerUnavailable):
        asking.ask(lambda each, _: each, BROKERS[:1], timeout_s=0.0)
    assert asking.ask(lambda each, _: each.id, BROKERS) != 0


def test_no_reachable_broker_raises_at_once():
    refused = NetworkError("refused")
    asking = brokers(unreachable=dict.fromkeys(range(3), refused))
    with pytest.raises(NoBrokersAvailable, match=r"broker 1.*correct the addresses"):
        asking.ask(lambda each, _: each, BROKERS)
    assert len(asking.connections.limits) == 3
    with pytest.raises(NoBrokersAvailable, match="none is registered"):
        asking.ask(lambda each, _: each, ())


def test_broken_connections_are_retried_once():
    asking = brokers()
    asked = []

    def question(broker, wait_s):
        asked.append(broker.id)
        raise NetworkError("closed by the broker")

    with pytest.raises(NetworkError, match="closed"):
        asking.ask(question, BROKERS)
    assert sorted(asked) == [0, 0, 1, 1, 2, 2]


def test_broker_error_is_raised_at_once():
    def question(broker, wait_s):
        raise InvalidTopic("no name")

    with pytest.raises(InvalidTopic):
        brokers().ask(question, BROKERS)


@RUNTIMES
@pytest.mark.parametrize("api", [ApiKey.METADATA, ApiKey.API_VERSIONS])
def test_metadata_is_read_from_next_broker_when_one_hangs(runtime, api):
    with FakeCluster(3) as fake:
        fake.create("t", [1])
        fake.faults[api, 0] = lambda request: HANG
        # If both others took as long, the one that hangs would be asked again.
        options = {"request_timeout_ms": 600_000, "patience_s": 1.0}
        with static_cluster(fake, runtime, **options) as cluster:
            for _ in range(6):
                cluster.refresh(["t"], timeout_s=60)
            assert cluster.partitions("t")[0].leader == 1
            assert cluster.topics() == ["t"]
        assert [key for key, _, _ in fake.brokers[0].requests].count(api) <= 1
