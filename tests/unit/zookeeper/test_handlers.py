"""The sockets of the ZooKeeper client: ready sockets and wake-ups."""

import socket

import gevent

from zkbroker.zookeeper.handlers import READY_IN_A_ROW, WakeUp, ready_now


def test_ready_sockets_return_at_once(client):
    one, other = socket.socketpair()
    with one, other:
        assert client.handler.select([], [one], [], 5) == ([], [one], [])
        assert ready_now([one], []) is None
        assert client.handler.select([one], [], [], 0.01)[0] == []
        other.send(b"x")
        assert client.handler.select([one, other], [], [], 5)[0] == [one]
        # Kazoo handles sockets that are read and written, or closed.
        assert ready_now([one], [one]) is None
        other.close()
        assert ready_now([other], []) is None


def test_busy_client_yields_to_other_greenlets(gevent_client):
    one, other = socket.socketpair()
    turns = []
    other_task = gevent.spawn(lambda: turns.append("another"))
    with one, other:
        for _ in range(READY_IN_A_ROW):
            gevent_client.handler.select([], [one], [], 5)
    assert turns == ["another"]
    other_task.join()


def awake(wake_up):
    return ready_now([wake_up], []) is not None


def test_wake_ups_are_coalesced():
    wake_up = WakeUp()
    for _ in range(100_000):
        wake_up.send(b"x")
    assert wake_up._read.recv(100) == b"x"
    wake_up.close()


def test_emptied_wake_up_can_be_set_again():
    wake_up = WakeUp()
    wake_up.send(b"x")
    assert awake(wake_up)
    wake_up.recv(1)
    assert awake(wake_up), "only `empty` ends a wake-up"
    wake_up.empty()
    assert not awake(wake_up)
    wake_up.send(b"x")
    assert awake(wake_up)
    wake_up.close()
