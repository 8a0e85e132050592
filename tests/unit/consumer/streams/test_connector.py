"""Registration of a connector, and the use that it refuses."""

from typing import Any

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer import (
    EARLIEST_TIME,
    LATEST_TIME,
    ConsumerClosed,
    ConsumerConnector,
    NotOwned,
    Whitelist,
)
from zkbroker.consumer.streams import connector as module
from zkbroker.errors import ClientError, ConfigError, InvalidTopic
from zkbroker.registry import group_offsets, groups, topics


class Session(InstantSession):
    lease = True

    def start(self) -> "Session":
        return self

    def lease_valid(self) -> bool:
        return self.lease


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Any:
    session = Session()
    monkeypatch.setattr(module, "ZkSession", lambda *_, **__: session)
    return session


def connector(**properties: str) -> ConsumerConnector:
    given = {"zookeeper.connect": "zk:1", "group.id": "g", "consumer.timeout.ms": "10"}
    return ConsumerConnector(ConsumerConfig.from_properties({**given, **properties}))


def test_member_registers_subscription_and_leaves(session: Any) -> None:
    with connector() as consumer:
        consumer.create_message_streams({"t": 2})
        found = groups.subscriptions(session, "g")
        assert found[consumer.consumer_id] is not None
        assert found[consumer.consumer_id].streams == {"t": 2}
        assert (consumer.owned(), consumer.positions(), consumer.lag()) == (set(), {}, {})
        children = session.children("/consumers/g/ids")
        assert children == [consumer.consumer_id]
    assert session.closed
    assert session.server.children("/consumers/g/ids") == []


def test_session_ends_where_the_cluster_cannot_be_used(session: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        connector(**{"security.protocol": "SSL", "ssl.truststore.location": "/no/such/file"})
    assert session.closed


def test_second_creation_of_streams_is_refused(session: Any) -> None:
    with connector() as consumer:
        with pytest.raises(ClientError, match="create the message streams first"):
            consumer.owned()
        consumer.create_message_streams_by_filter(Whitelist("t.*"))
        with pytest.raises(ClientError, match="has made its streams"):
            consumer.create_message_streams({"t": 1})


def test_invalid_streams_are_refused_before_join(session: Any) -> None:
    with connector() as consumer:
        with pytest.raises(InvalidTopic, match="no/such"):
            consumer.create_message_streams({"no/such": 1})
        with pytest.raises(ConfigError, match="at least one"):
            consumer.create_message_streams({"t": 0})
        with pytest.raises(ConfigError, match="at least one"):
            consumer.create_message_streams_by_filter(Whitelist("t"), 0)
        consumer.create_message_streams({"t": 1})


def test_seek_and_commit_need_ownership(session: Any) -> None:
    with connector() as consumer:
        consumer.create_message_streams({"t": 1})
        for act in (
            lambda: consumer.seek("t", 0, 5),
            lambda: consumer.rewind(-2),
            lambda: consumer.commit_offsets({("t", 0): 5}),
        ):
            with pytest.raises(NotOwned, match=consumer.consumer_id):
                act()


def test_time_in_place_of_an_offset_is_refused(session: Any) -> None:
    with connector() as consumer:
        consumer.create_message_streams({"t": 1})
        with pytest.raises(ClientError, match=r"no offset.*call rewind\(EARLIEST_TIME\)"):
            consumer.seek("t", 0, EARLIEST_TIME)
        with pytest.raises(ClientError, match="no offset"):
            consumer.commit_offsets({("t", 0): LATEST_TIME})


def test_listener_commits_partitions_that_shutdown_releases(session: Any) -> None:
    topics.create_topic(session, "t", {0: [1]}, {})
    found: list[Any] = []

    class Commits:
        def before_starting_fetchers(self, consumer_id: str, owned: Any) -> None:
            pass

        def before_releasing_partitions(self, owned: Any) -> None:
            consumer.commit_offsets(dict.fromkeys(owned, 5))
            found.append(group_offsets.read_offset(session, "g", "t", 0))

    consumer = connector(**{"auto.commit.enable": "false"})
    consumer.add_rebalance_listener(Commits())
    consumer.create_message_streams({"t": 1})
    assert consumer._rebalancer is not None
    assert consumer._rebalancer.settled.wait(60)
    consumer.shutdown()
    assert found == [(5, 0)]
    with pytest.raises(ConsumerClosed):
        consumer.commit_offsets({("t", 0): 6})


def test_nothing_is_committed_automatically_once_the_session_may_be_over(session: Any) -> None:
    topics.create_topic(session, "t", {0: [1]}, {})
    group_offsets.commit_offset(session, "g", "t", 0, 5)
    with connector() as consumer:
        consumer.create_message_streams({"t": 1})
        assert consumer._rebalancer is not None
        assert consumer._rebalancer.settled.wait(60)
        assert consumer._processed() == {("t", 0): 5}
        session.lease = False  # as after a pause, before the client notices
        assert consumer._processed() == {}


def test_shut_down_connector_refuses_use(session: Any) -> None:
    consumer = connector()
    (stream,) = consumer.create_message_streams({"t": 1})["t"]
    consumer.shutdown()
    consumer.shutdown()
    assert consumer.closed
    assert list(stream) == []
    with pytest.raises(ConsumerClosed):
        consumer.owned()
    with pytest.raises(ConsumerClosed):
        consumer.create_message_streams({"t": 1})
