import pytest

from tests.support.inline_runtime import InlineRuntime
from zkbroker.broker.dialing import Dialing
from zkbroker.broker.replica_copying import ReplicaCopying
from zkbroker.broker.view import ClusterView
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import NetworkError
from zkbroker.registry.brokers import BrokerInfo


@pytest.fixture
def copying():
    config = BrokerConfig(zookeeper_connect="127.0.0.1:1")
    own = BrokerInfo(id=1, host="h", port=1)
    runtime = InlineRuntime()
    return ReplicaCopying(config, Dialing(runtime, own), 1, ClusterView(own), runtime=runtime)


def test_throttle_rates_follow_the_broker_settings(copying):
    settings = {
        "leader.replication.throttled.rate": "1000",
        "follower.replication.throttled.rate": "2000",
    }
    copying.settings_changed(settings)
    assert copying.leader_throttle.rate == 1000
    assert copying.fetchers.throttle.rate == 2000
    copying.settings_changed({})
    assert copying.leader_throttle.rate is copying.fetchers.throttle.rate is None


def test_unregistered_leader_cannot_be_reached(copying):
    with pytest.raises(NetworkError, match="broker 7 is not registered"):
        copying._connect(7, 0)
