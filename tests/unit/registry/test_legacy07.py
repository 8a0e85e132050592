"""The registration of a 0.7 broker after changes that ZooKeeper did not make."""

import pytest

from tests.support.zookeeper import until
from zkbroker.registry.legacy07 import Registration07, topic_path
from zkbroker.zookeeper import ConnectionLost

NODE = topic_path("t", 0)


@pytest.fixture
def topics():
    return {"t": 1}


@pytest.fixture
def registered(session, topics):
    made = Registration07(session, 0, "h", 9092, lambda: dict(topics), lambda: 5)
    made.start()
    yield made
    made.close()


@pytest.fixture
def refused(session):
    """The paths whose deletion failed, once each."""
    delete, found = session.delete, []

    def fail_once(path, **options):
        if path not in found:
            found.append(path)
            raise ConnectionLost(f"{path}: no answer")
        delete(path, **options)

    session.delete = fail_once
    return found


def data_of(session):
    """Return the topic's data; the registration may replace its node at any moment."""
    (found,) = session.get_many([NODE])
    return found and found[0]


def test_changed_number_of_partitions_is_registered(session, topics, registered, refused):
    assert session.get(NODE)[0] == b"1"
    topics["t"] = 2
    registered.topic_made("t")
    until(lambda: refused and data_of(session) == b"2")


def test_deleted_topic_is_deregistered(session, topics, registered, refused):
    del topics["t"]
    registered.topic_made("t")
    until(lambda: refused and session.exists(NODE) is None)
