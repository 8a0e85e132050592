"""The server over real sockets; clients are plain blocking sockets in the hub's thread pool."""

import contextlib
import os
import socket
import struct
import threading
import time

import gevent
import gevent.socket
import pytest

from tests.support.frame_client import ask, connect, frame, receive
from tests.unit.network.server.conftest import echo
from zkbroker.fileslice import FileSlice
from zkbroker.network.server.limits import Limits
from zkbroker.network.server.server import CloseConnection, Gate, Listener, Server


class ShiftedClock:
    """The monotonic clock; a test lets time pass without waiting."""

    def __init__(self):
        self.passed_s = 0.0

    def __call__(self):
        return time.monotonic() + self.passed_s


def wait_for_line(caplog, text):
    """Wait for a line of the server's log: a peer may see the end of its connection before it."""
    with gevent.Timeout(20):
        while text not in caplog.text:
            gevent.sleep(0.01)


def test_pipelined_requests_are_answered_in_order(serve):
    connection = connect(serve())
    bodies = [b"%d" % number * 500 for number in range(50)]
    sent = b"".join(map(frame, bodies))
    connection.sendall(sent)
    assert receive(connection, len(sent)) == sent


def test_nothing_is_sent_when_the_handler_returns_none(serve):
    def handle(session, request):
        return None if request == b"silent" else [frame(bytes(request))]

    connection = connect(serve(handle))
    connection.sendall(frame(b"silent") + frame(b"loud"))
    assert receive(connection, 8) == frame(b"loud")


@pytest.fixture
def opened(tmp_path):
    """Write a file, and return its descriptor, which is closed after the test."""
    descriptors = []

    def make(content):
        path = tmp_path / "data"
        path.write_bytes(content)
        descriptors.append(os.open(path, os.O_RDONLY))
        return descriptors[-1]

    yield make
    for fd in descriptors:
        os.close(fd)


def test_file_slices_are_sent_between_other_parts_and_closed_once(serve, opened):
    content = os.urandom(3_000_000)
    fd = opened(content)
    closed = []

    def handle(session, request):
        slices = [
            FileSlice(fd, 10, 2_000_000, lambda: closed.append(1)),
            FileSlice(fd, 5, 7, lambda: closed.append(2)),
        ]
        return [b"head", slices[0], b"middle", slices[1], b"tail"]

    connection = connect(serve(handle))
    connection.sendall(frame(b"get"))
    expected = b"head" + content[10:2_000_010] + b"middle" + content[5:12] + b"tail"
    assert receive(connection, len(expected)) == expected
    gevent.sleep(0)
    assert closed == [1, 2]


def test_file_slices_are_closed_once_when_the_reader_leaves(serve, opened):
    fd = opened(bytes(30_000_000))
    closed = []
    done = gevent.event.Event()

    def release():
        closed.append(1)
        done.set()

    def handle(session, request):
        return [FileSlice(fd, 0, 30_000_000, release), FileSlice(fd, 0, 1, release)]

    connection = connect(serve(handle))
    connection.sendall(frame(b"get"))
    receive(connection, 1000)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    assert done.wait(10)
    gevent.sleep(0)
    assert closed == [1, 1]


def test_file_shorter_than_its_slice_closes_the_connection(serve, opened, caplog):
    fd = opened(b"short")
    connection = connect(serve(lambda session, request: [FileSlice(fd, 0, 100)]))
    connection.sendall(frame(b"get"))
    assert receive(connection, 100) == b"short"
    assert "95 bytes before the slice" in caplog.text


@pytest.mark.parametrize(
    ("garbage", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "a TLS handshake"),
        (b"\xff\xff\xff\xff....", "frame length -1"),
        ((5000).to_bytes(4, "big") + b"x", "frame length 5000 is not within 0 to 1000"),
    ],
)
def test_garbage_closes_only_its_connection(serve, caplog, garbage, message):
    address = serve(max_request_bytes=1000)
    other, bad = connect(address), connect(address)
    bad.sendall(garbage)
    assert bad.recv(10) == b""
    assert message in caplog.text
    assert "peer=127.0.0.1:" in caplog.text
    assert ask(other, b"still here") == b"still here"


def test_partial_frame_times_out(serve, caplog):
    address = serve(max_frame_s=0.2, max_idle_s=60)
    other, half = connect(address), connect(address)
    half.sendall(frame(b"never whole")[:7])
    assert half.recv(10) == b""
    wait_for_line(caplog, "part of a request")
    assert ask(other, b"idle is fine") == b"idle is fine"


def test_idle_connections_are_closed(serve, caplog):
    assert connect(serve(max_idle_s=0.2)).recv(1) == b""
    wait_for_line(caplog, "timed out: idle")


def test_connection_without_login_in_time_is_closed(serve, caplog):
    def log_in(session, request):
        if bytes(request) == b"in":
            session.let_in(100)
        return [frame(bytes(request))]

    clock = ShiftedClock()
    gates = {"PLAINTEXT": Gate(log_in, 100, max_login_s=600)}
    address = serve(gates=gates, clock=clock, max_idle_s=3600, rate_window_s=0.2)
    known, slow = connect(address), connect(address)
    assert ask(known, b"in") == b"in"
    assert ask(slow, b"not yet") == b"not yet"
    clock.passed_s = 600
    with gevent.Timeout(20), contextlib.suppress(OSError):
        while ask(slow, b"not yet"):
            pass
    wait_for_line(caplog, "no login in time")
    assert ask(known, b"still here") == b"still here"


def test_waiting_handler_is_not_idle(serve):
    clock = ShiftedClock()

    def handle(session, request):
        clock.passed_s = 3600
        gevent.sleep(0.3)  # some looks for idle connections
        clock.passed_s = 0
        return [frame(b"late")]

    connection = connect(serve(handle, clock=clock, max_idle_s=600, rate_window_s=0.1))
    assert ask(connection, b"poll") == b"late"


def test_connections_above_the_address_limit_are_refused_until_one_closes(serve, servers, caplog):
    address = serve(max_connections_per_ip=2)
    first, second = connect(address), connect(address)
    for connection in (first, second):
        assert ask(connection, b"in") == b"in"
    assert connect(address).recv(1) == b""
    assert "max.connections.per.ip" in caplog.text
    assert servers[0].refused == 1
    first.close()
    while servers[0].connections == 2:
        gevent.sleep(0.01)
    again = connect(address)
    assert ask(again, b"in") == b"in"


@pytest.mark.parametrize(
    "limits",
    [
        {"max_connections_per_ip": 0, "max_connections_overrides": {"127.0.0.1": 1}},
        {"max_connections": 1},
    ],
    ids=["override of an address", "total"],
)
def test_connections_are_bounded(serve, limits):
    address = serve(**limits)
    first = connect(address)
    assert ask(first, b"in") == b"in"
    assert connect(address).recv(1) == b""


def test_requests_in_work_are_bounded_without_parked_ones(serve):
    working = []
    peak = []
    gate = gevent.event.Event()

    def handle(session, request):
        if request == b"park":
            with session.parked(gate.set):
                gate.wait()
            return [frame(b"parked")]
        working.append(1)
        peak.append(len(working))
        gevent.sleep(0.01)
        working.pop()
        return [frame(b"done")]

    address = serve(handle, max_queued_requests=2)
    parked = [connect(address) for _ in range(3)]
    for connection in parked:
        connection.sendall(frame(b"park"))
    busy = [connect(address) for _ in range(10)]
    for connection in busy:
        connection.sendall(frame(b"work") * 2)
    for connection in busy:
        assert receive(connection, 16) == frame(b"done") * 2
    assert max(peak) == 2
    gate.set()
    for connection in parked:
        assert receive(connection, 10) == frame(b"parked")


def test_figures_count_connections_and_requests(servers, serve):
    gate = gevent.event.Event()

    def handle(session, request):
        gate.wait()
        return [frame(b"done")]

    address = serve(handle, max_queued_requests=1, max_connections=2)
    (server,) = servers
    assert server.figures().connections == {"PLAINTEXT": 0}
    connections = [connect(address) for _ in range(2)]
    for connection in connections:
        connection.sendall(frame(b"work"))
    with gevent.Timeout(30):
        while not server.figures().requests_waiting:
            gevent.sleep(0.01)
    assert connect(address).recv(1) == b""
    found = server.figures()
    assert found.connections == {"PLAINTEXT": 2}
    assert (found.accepted, found.refused) == (2, 1)
    assert (found.requests_handled, found.requests_waiting) == (1, 1)
    gate.set()
    for connection in connections:
        assert receive(connection, 8) == frame(b"done")
    assert server.figures().requests_handled == 0


def test_unread_responses_do_not_block_other_requests(serve):
    def handle(session, request):
        return [frame(bytes(20_000_000) if request == b"much" else b"done")]

    address = serve(handle, max_queued_requests=2)
    readers = [connect(address) for _ in range(4)]
    for reader in readers:
        reader.sendall(frame(b"much"))
        # The response has begun, and does not fit into the buffers of the system.
        assert receive(reader, 1)
    quick = connect(address)
    assert ask(quick, b"little") == b"done"


def test_parked_request_is_woken_when_the_peer_leaves(serve, servers):
    parked, left = gevent.event.Event(), gevent.event.Event()

    def handle(session, request):
        woken = gevent.event.Event()
        with session.parked(woken.set):
            parked.set()
            woken.wait()
        assert session.peer_gone
        left.set()

    address = serve(handle, rate_window_s=0.1)
    stays, goes = connect(address), connect(address)
    goes.sendall(frame(b"wait"))
    assert parked.wait(10)
    assert not left.is_set()
    goes.close()
    assert left.wait(10)
    stays.close()


def test_response_memory_shrinks_as_more_is_held(servers):
    server = Server([], Limits(max_answer_bytes=8_000_000))
    assert server.reserve_answer(10) == 10
    server.release_answer(10)
    given = [server.reserve_answer(50_000_000) for _ in range(100)]
    assert given[:3] == [1_000_000, 875_000, 765_625]
    assert given == sorted(given, reverse=True)
    # Every request gets some memory, but not much.
    assert given[-1] == 64 * 1024
    assert sum(given) < 8_000_000 + 100 * 64 * 1024
    for each in given:
        server.release_answer(each)
    assert server.reserve_answer(50_000_000) == 1_000_000


def test_slow_large_requests_do_not_block_other_addresses(serve, servers):
    address = serve(max_queued_request_bytes=2_000_000, rate_window_s=600)
    # Each announces 100 MB and sends a little; together that is more than the limit.
    slow = [connect(address, "127.0.0.2") for _ in range(30)]
    for each in slow:
        each.sendall((100_000_000).to_bytes(4, "big") + bytes(90_000))
    gevent.sleep(0.1)
    other = connect(address)
    for _ in range(3):
        assert ask(other, bytes(300_000)) == bytes(300_000)
    assert servers[0].connections == 31


def test_slow_large_requests_are_closed_when_others_need_memory(serve, servers):
    address = serve(max_queued_request_bytes=250_000, min_bytes_per_s=1000, rate_window_s=0.3)
    body = bytes(100_000)
    halves = [connect(address) for _ in range(2)]
    for half in halves:
        half.sendall(frame(body)[:90_000])
    gevent.sleep(0.1)
    whole = [connect(address) for _ in range(5)]

    def use(connection):
        return ask(connection, body) == body

    tasks = [gevent.spawn(use, connection) for connection in whole]
    small = connect(address)
    assert ask(small, b"small") == b"small"

    def drip():
        while True:
            for half in halves:
                half.sendall(b".")
            gevent.sleep(0.05)

    dripping = gevent.spawn(drip)
    gevent.joinall(tasks, timeout=20)
    assert [task.value for task in tasks] == [True] * 5
    dripping.kill()


def test_slow_reader_delays_only_itself(serve):
    address = serve(lambda session, request: [frame(bytes(5_000_000))])
    slow, quick = connect(address), connect(address)
    slow.sendall(frame(b"much") * 5)
    for _ in range(3):
        assert len(ask(quick, b"much")) == 5_000_000
    assert len(receive(slow, 5 * 5_000_004)) == 5 * 5_000_004


def test_busy_connection_lets_others_be_served(serve):
    address = serve()
    stop = threading.Event()
    flood = frame(bytes(200))

    def pump():
        with socket.create_connection(address) as connection:
            connection.settimeout(0.5)
            reader = threading.Thread(target=drain, args=(connection,))
            reader.start()
            while not stop.is_set():
                connection.sendall(flood * 50)
            connection.shutdown(socket.SHUT_WR)
            reader.join()

    def drain(connection):
        try:
            while connection.recv(65536):
                pass
        except OSError:
            pass

    pumping = threading.Thread(target=pump)
    pumping.start()
    try:
        other = connect(address)
        for _ in range(5):
            assert ask(other, b"me too") == b"me too"
    finally:
        stop.set()
        while pumping.is_alive():
            gevent.sleep(0.01)


def test_failing_handler_closes_its_connection(serve, caplog):
    def handle(session, request):
        if request == b"refuse":
            raise CloseConnection("api_key=99 is not served")
        if request == b"bug":
            raise KeyError("oops")
        return [frame(bytes(request))]

    address = serve(handle)
    other = connect(address)
    for request, message in ((b"refuse", "api_key=99 is not served"), (b"bug", "KeyError: 'oops'")):
        connection = connect(address)
        connection.sendall(frame(request))
        assert connection.recv(1) == b""
        assert message in caplog.text
    assert ask(other, b"fine") == b"fine"


def test_repeated_warnings_are_logged_once_with_a_count(serve, caplog):
    clock = ShiftedClock()
    address = serve(clock=clock)

    def send_garbage(times):
        caplog.clear()
        for _ in range(times):
            connection = connect(address)
            connection.sendall(b"\x16\x03\x01\x01 no request")
            assert connection.recv(1) == b""
        return caplog.messages

    (message,) = send_garbage(20)
    assert message.endswith("a TLS handshake, not a request of this protocol")
    clock.passed_s = 61
    (message,) = send_garbage(2)
    assert message.endswith(" (and 19 more from there before, not logged)")


def test_stop_answers_requests_in_flight(serve, servers):
    entered, leave = gevent.event.Event(), gevent.event.Event()

    def handle(session, request):
        entered.set()
        leave.wait()
        return [frame(bytes(request))]

    address = serve(handle)
    idle, busy = connect(address), connect(address)
    busy.sendall(frame(b"one") + frame(b"two"))
    assert entered.wait(10)
    stopping = gevent.spawn(servers[0].stop, 10.0)
    assert idle.recv(1) == b""
    leave.set()
    assert receive(busy, 14) == frame(b"one") + frame(b"two")
    assert busy.recv(1) == b""
    stopping.join()
    with pytest.raises(OSError):
        gevent.socket.create_connection(address, 1)


def test_stop_closes_connections_that_do_not_end(serve, servers, caplog):
    entered = gevent.event.Event()

    def handle(session, request):
        entered.set()
        gevent.sleep(3600)
        return []

    connection = connect(serve(handle))
    connection.sendall(frame(b"for ever"))
    assert entered.wait(10)
    servers[0].stop(0.1)
    assert servers[0].connections == 0
    assert "connections cut at shutdown count=1" in caplog.text


@pytest.mark.parametrize("host", ["::1", ""])
def test_listens_on_ipv6(serve, host):
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        address = serve(host=host)
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    for target in ["::1"] if host else ["::1", "127.0.0.1"]:
        connection = connect((target, address[1]))
        assert ask(connection, b"six") == b"six"


def test_connection_failing_in_accept_does_not_end_the_listener(servers):
    server = Server([Listener("PLAINTEXT", "127.0.0.1", 0)], Limits())
    server.listen()
    real = server._sockets[0]
    # Of this kind of socket no TCP option can be set.
    broken, _ = socket.socketpair(socket.AF_UNIX)
    offered = [(broken, ("127.0.0.1", 1))]

    class Listening:
        fileno, close = real.fileno, real.close

        def accept(self):
            return offered.pop() if offered else real.accept()

    server._sockets[0] = Listening()
    server.start(echo)
    servers.append(server)
    connection = connect(server.addresses["PLAINTEXT"])
    assert ask(connection, b"still here") == b"still here"
    assert broken.fileno() == -1
    assert server.connections == 1


def test_unexpected_error_of_a_connection_does_not_end_the_listener(servers, caplog):
    set_up = [ValueError("a defect"), None]

    def transport(listener, connection):
        error = set_up.pop(0)
        if error is not None:
            raise error

    server = Server([Listener("PLAINTEXT", "127.0.0.1", 0)], Limits(), transport=transport)
    server.listen()
    server.start(echo)
    servers.append(server)
    first, second = (connect(server.addresses["PLAINTEXT"]) for _ in range(2))
    assert ask(second, b"still here") == b"still here"
    assert first.recv(1) == b""
    assert "reason=ValueError('a defect')" in caplog.text
