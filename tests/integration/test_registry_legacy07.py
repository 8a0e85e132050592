"""The 0.7 registry on a real ZooKeeper: nodes, ids in use, lost sessions."""

import re
import threading

import pytest

from tests.support.legacy07 import znodes
from tests.support.zookeeper import expire, until
from zkbroker.errors import RegistryError
from zkbroker.registry.legacy07 import Registration07, broker_path, parse_broker, topic_path
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.errors import BrokerIdInUse


def registration(session, topics, broker_id=0):
    return Registration07(
        session, broker_id, "127.0.0.1", 17300, lambda: topics, lambda: 1795309621203
    )


def test_nodes_match_genuine_broker(chroot, zk):
    genuine = znodes("kafka-0.7.2-2-two-consumers-in-a-group.txt")
    topics = {
        path.split("/")[3]: int(value)
        for path, (kind, value) in genuine.items()
        if kind == "E" and path.startswith("/brokers/topics/")
    }
    with ZkSession(chroot, session_timeout_ms=30_000) as session:
        registered = registration(session, topics)
        registered.start()
        for path, (kind, value) in genuine.items():
            if path.startswith("/brokers"):
                data, stat = zk.get(path)
                assert data.decode() == (value or "")
                assert (stat.ephemeral_owner != 0) == (kind == "E")
        registered.close()
        assert zk.children("/brokers/ids") == []
        assert zk.children("/brokers/topics/g07g") == []


def test_new_topic_is_registered(chroot, zk):
    topics = {}
    with ZkSession(chroot, session_timeout_ms=30_000) as session:
        registered = registration(session, topics)
        registered.start()
        topics["new topic"] = 3
        registered.topic_made("new topic")
        until(lambda: zk.exists(topic_path("new topic", 0)) is not None)
        assert zk.get(topic_path("new topic", 0))[0] == b"3"
        registered.close()


def test_registration_is_restored_after_lost_session_or_deleted_node(chroot, zk):
    with ZkSession(chroot, session_timeout_ms=30_000) as session:
        registered = registration(session, {"t": 2})
        registered.start()
        first = zk.exists(broker_path(0)).ephemeral_owner
        expire(session)
        until(lambda: (stat := zk.exists(topic_path("t", 0))) and stat.ephemeral_owner != first)
        until(lambda: zk.exists(broker_path(0)) is not None)
        again = zk.exists(broker_path(0))
        assert again.ephemeral_owner == session.session_id != first
        zk.delete(broker_path(0))
        until(lambda: zk.exists(broker_path(0)) is not None)
        registered.close()


def test_registration_waits_for_node_of_dead_session(chroot, zk):
    old = ZkSession(chroot, session_timeout_ms=30_000)
    old.start()
    registration(old, {"t": 1}).start()
    done = threading.Event()
    with ZkSession(chroot, session_timeout_ms=30_000) as session:
        registered = registration(session, {"t": 1})

        def start():
            registered.start()
            done.set()

        threading.Thread(target=start, daemon=True).start()
        assert not done.wait(0.5)
        old.close()
        assert done.wait(60)
        assert zk.exists(topic_path("t", 0)).ephemeral_owner == session.session_id
        registered.close()


def test_an_id_in_use_is_refused(chroot):
    with (
        ZkSession(chroot, session_timeout_ms=30_000) as one,
        ZkSession(chroot, session_timeout_ms=2000) as two,
    ):
        first = registration(one, {})
        first.start()
        with pytest.raises(BrokerIdInUse, match=r"legacy07\.broker\.id"):
            registration(two, {}).start()
        first.close()


def test_broker_address_is_parsed():
    assert parse_broker(b"127.0.0.1-1795309621203:127.0.0.1:17300") == ("127.0.0.1", 17300)
    for bad in (b"", b"host:1", b"c:h:x", b"c:::1", b'{"host":"h","port":1}'):
        with pytest.raises(RegistryError, match=re.escape("Kafka 0.7")):
            parse_broker(bad)
