"""Which groups a reading describes."""

from types import SimpleNamespace

from zkbroker.console.cluster_state import ClusterState, GroupStorage, SeenGroup
from zkbroker.console.groups import AT_ONCE, Groups
from zkbroker.errors import NetworkError
from zkbroker.runtime import get_runtime


def test_groups_of_coordinators_are_described_while_zookeeper_is_away():
    def connection(broker):
        raise NetworkError(f"broker {broker} does not answer")

    seen = ClusterState()
    for number in range(2 * AT_ONCE):
        key = (GroupStorage.ZOOKEEPER, f"z{number}")
        seen.groups[key] = SeenGroup(*key, described_ms=1)
    key = (GroupStorage.COORDINATOR, "c")
    seen.groups[key] = SeenGroup(*key, coordinator=5, described_ms=2)
    cluster = SimpleNamespace(brokers=lambda: {5: None}, connection=connection)
    Groups(seen, get_runtime("threads"), 1).look(cluster, None, 1000)
    assert (seen.groups[key].error, seen.groups[key].described_ms) == (
        "broker 5 does not answer",
        1000,
    )
