"""Rates of new connections, with a clock that the test moves."""

import gevent

from tests.support.clocks import Clock
from tests.support.frame_client import connect
from zkbroker.network.server.connection_rates import ConnectionRates, CreationLimits


def test_rates_are_not_measured_without_limits():
    rates = ConnectionRates(CreationLimits(), Clock(100.0))
    assert {rates.accepted("A") for _ in range(1000)} == {0.0}
    assert {rates.refused_s("10.0.0.1") for _ in range(1000)} == {0.0}


def test_broker_limit_delays_all_but_the_inter_broker_listener():
    clock = Clock(100.0)
    rates = ConnectionRates(CreationLimits(broker=10, exempt="INSIDE"), clock)
    assert [rates.accepted("A") for _ in range(10)] == [0.0] * 10
    assert rates.accepted("B") == 0.1
    assert rates.accepted("INSIDE") == 0.0
    clock.now += 0.1
    assert rates.accepted("A") == 0.1


def test_listener_has_its_own_limit():
    rates = ConnectionRates(CreationLimits(listeners={"A": 1}), Clock(100.0))
    assert [rates.accepted("A"), rates.accepted("A")] == [0.0, 1.0]
    assert {rates.accepted("B") for _ in range(50)} == {0.0}


def test_address_above_its_rate_is_refused():
    clock = Clock(100.0)
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
    rates = ConnectionRates(CreationLimits(addresses={"a": 1.0}), Clock(100.0))
    assert [rates.refused_s("a") > 0 for _ in range(2)] == [False, True]
    rates.limits = CreationLimits()
    assert rates.refused_s("a") == 0.0


def test_server_closes_refused_connections(serve, servers):
    address = serve(clock=Clock(100.0))
    (server,) = servers
    server.rates.limits = CreationLimits(addresses={"127.0.0.1": 2.0})
    sockets = [connect(address) for _ in range(3)]
    assert sockets[2].recv(1) == b""
    assert (server.connections, server.refused) == (2, 1)
    server.rates.limits = CreationLimits()
    sockets.append(connect(address))
    await_connections(server, 3)


def test_delayed_listener_accepts_every_connection(serve, servers):
    address = serve(creation=CreationLimits(broker=20))
    sockets = [connect(address) for _ in range(25)]
    await_connections(servers[0], len(sockets))
    assert servers[0].refused == 0


def await_connections(server, count):
    with gevent.Timeout(10):
        while server.connections < count:
            gevent.sleep(0.01)
