"""Connections a second, with a clock that the test moves."""

import gevent
import gevent.socket

from zkbroker.network.server.connection_rates import ConnectionRates, CreationLimits
from zkbroker.network.server.limits import Limits
from zkbroker.network.server.server import Listener, Server


class _Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_rates_are_not_measured_without_limits():
    rates = ConnectionRates(CreationLimits(), _Clock())
    assert {rates.accepted("A") for _ in range(1000)} == {0.0}
    assert {rates.refused_s("10.0.0.1") for _ in range(1000)} == {0.0}


def test_broker_limit_delays_all_but_the_inter_broker_listener():
    clock = _Clock()
    rates = ConnectionRates(CreationLimits(broker=10, exempt="INSIDE"), clock)
    assert [rates.accepted("A") for _ in range(10)] == [0.0] * 10
    assert rates.accepted("B") == 0.1
    assert rates.accepted("INSIDE") == 0.0
    clock.now += 0.1
    assert rates.accepted("A") == 0.1


def test_listener_has_its_own_limit():
    rates = ConnectionRates(CreationLimits(listeners={"A": 1}), _Clock())
    assert [rates.accepted("A"), rates.accepted("A")] == [0.0, 1.0]
    assert {rates.accepted("B") for _ in range(50)} == {0.0}


def test_address_above_its_rate_is_refused():
    clock = _Clock()
    limits = CreationLimits(addresses={"busy": 2.0}, other_addresses=1.0, max_addresses=2)
    rates = ConnectionRates(limits, clock)
    assert [rates.refused_s("busy") > 0 for _ in range(4)] == [False, False, True, True]
    assert [rates.refused_s("other") > 0 for _ in range(2)] == [False, True]
    let_in = 0
    for _ in range(600):
        clock.now += 0.05
        let_in += rates.refused_s("busy") == 0
    assert 55 <= let_in <= 62
    for number in range(10):
        assert rates.refused_s(f"address-{number}") == 0.0


def test_changed_limits_apply_at_once():
    rates = ConnectionRates(CreationLimits(addresses={"a": 1.0}), _Clock())
    assert [rates.refused_s("a") > 0 for _ in range(2)] == [False, True]
    rates.limits = CreationLimits()
    assert rates.refused_s("a") == 0.0


def _connect(server):
    return gevent.socket.create_connection(server.addresses["A"])


def test_server_closes_refused_connections():
    server = Server([Listener("A", "127.0.0.1", 0)], Limits())
    server.listen()
    server.start(lambda session, frame: [])
    try:
        server.rates.limits = CreationLimits(addresses={"127.0.0.1": 2.0})
        sockets = [_connect(server) for _ in range(3)]
        with gevent.Timeout(10):
            assert sockets[2].recv(1) == b""
        assert (server.connections, server.refused) == (2, 1)
        server.rates.limits = CreationLimits()
        sockets.append(_connect(server))
        with gevent.Timeout(10):
            while server.connections < 3:
                gevent.sleep(0.01)
        for each in sockets:
            each.close()
    finally:
        server.stop(1.0)


def test_delayed_listener_accepts_every_connection():
    server = Server([Listener("A", "127.0.0.1", 0)], Limits(creation=CreationLimits(broker=20)))
    server.listen()
    server.start(lambda session, frame: [])
    try:
        sockets = [_connect(server) for _ in range(25)]
        with gevent.Timeout(10):
            while server.connections < 25:
                gevent.sleep(0.01)
        assert server.refused == 0
        for each in sockets:
            each.close()
    finally:
        server.stop(1.0)
