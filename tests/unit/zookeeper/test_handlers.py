"""The sockets of the ZooKeeper client: wake-ups, and what is ready at once."""

import socket

import gevent

from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.client import new_client
from zkbroker.zookeeper.handlers import READY_IN_A_ROW, WakeUp, ready_now


def test_sockets_that_are_ready_are_not_waited_for(client):
    one, other = socket.socketpair()
    with one, other:
        assert client.handler.select([], [one], [], 5) == ([], [one], [])
        assert ready_now([one], []) is None
        assert client.handler.select([one], [], [], 0.01)[0] == []
        other.send(b"x")
        assert client.handler.select([one, other], [], [], 5)[0] == [one]
        # What is read and written, or closed, is left to kazoo.
        assert ready_now([one], [one]) is None
        other.close()
        assert ready_now([other], []) is None


def test_a_client_that_never_waits_lets_others_run():
    made = new_client("127.0.0.1:1", 6.0, get_runtime("gevent"), lambda granted_s: None, 8.0)
    one, other = socket.socketpair()
    turns = []
    other_task = gevent.spawn(lambda: turns.append("another"))
    with one, other:
        for _ in range(READY_IN_A_ROW):
            made.handler.select([], [one], [], 5)
    assert turns == ["another"]
    other_task.join()


def awake(wake_up):
    return ready_now([wake_up], []) is not None


def test_a_second_wake_up_says_nothing_new():
    wake_up = WakeUp()
    for _ in range(100_000):
        wake_up.send(b"x")
    assert wake_up._read.recv(100) == b"x"
    wake_up.close()


def test_a_wake_up_that_was_taken_is_followed_by_another():
    wake_up = WakeUp()
    wake_up.send(b"x")
    assert awake(wake_up)
    wake_up.recv(1)
    assert awake(wake_up), "taken before the requests are looked at, and not by each of them"
    wake_up.empty()
    assert not awake(wake_up)
    wake_up.send(b"x")
    assert awake(wake_up)
    wake_up.close()
