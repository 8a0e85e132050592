"""TLS of a server: accepted clients, bounds, and resistance to malformed handshakes."""

import gc
import logging
import os
import random
import resource
import socket
import ssl
from contextlib import contextmanager
from pathlib import Path

import gevent
import gevent.event
import gevent.socket
import pytest

from tests.support import soak
from tests.support.certificates import Authority
from tests.support.mutations import mutated
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.security import ClientSecurity
from zkbroker.errors import AuthenticationFailed, ConfigError
from zkbroker.fileslice import FileSlice
from zkbroker.network.client.opening import open_transport
from zkbroker.network.frames import FrameReader
from zkbroker.network.server import tls
from zkbroker.network.server.limits import Limits
from zkbroker.network.server.server import Listener, Server
from zkbroker.network.server.tls import ListenersTls
from zkbroker.runtime import get_runtime

AUTHORITY = Authority()
TIMEOUT_S = 20.0


class TlsServer:
    """A server with one TLS listener; it returns the principal, the request itself, or a file."""

    def __init__(self, directory, **more):
        self.directory = directory
        self.key = AUTHORITY.issue("CN=broker").pem(directory, "broker.pem")
        self.properties = {
            "zookeeper.connect": "z:1",
            "listeners": "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2",
            "ssl.keystore.location": self.key,
            "ssl.truststore.location": AUTHORITY.trusted(directory),
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        self.asked, self.answer = gevent.event.Event(), gevent.event.Event()
        self.file = directory / "log"
        self.file.write_bytes(os.urandom(3_000_000))
        self.tls = ListenersTls(BrokerConfig.from_properties(self.properties).security)
        self.server = Server(
            [Listener("SSL", "127.0.0.1", 0, "SSL")], Limits(), transport=self.tls.transport
        )

    def __enter__(self):
        self.server.listen()
        self.server.start(self._answer)
        self.port = self.server.addresses["SSL"][1]
        return self

    def __exit__(self, *exc_info):
        self.server.stop(1)

    def _answer(self, session, request):
        if request == b"principal":
            answer = f"{session.principal} {session.protocol}".encode()
            return [len(answer).to_bytes(4, "big"), answer]
        if request == b"wait":
            self.asked.set()
            self.answer.wait(TIMEOUT_S)
        if request == b"file":
            fd = os.open(self.file, os.O_RDONLY)
            size = self.file.stat().st_size
            return [size.to_bytes(4, "big"), FileSlice(fd, 0, size, lambda: os.close(fd))]
        return [len(request).to_bytes(4, "big"), bytes(request)]

    def ask(self, request, **own):
        settings = {
            "security.protocol": "SSL",
            "ssl.ca.location": self.properties["ssl.truststore.location"],
            **{name.replace("_", "."): value for name, value in own.items()},
        }
        transport = open_transport(
            get_runtime("gevent"),
            "127.0.0.1",
            self.port,
            TIMEOUT_S,
            security=ClientSecurity.from_properties(settings),
        )
        transport.limit(TIMEOUT_S)
        try:
            transport.send([len(request).to_bytes(4, "big"), request])
            answer = FrameReader(transport.receive_into, 10_000_000).next_frame()
            assert answer is not None
            return bytes(answer)
        finally:
            transport.close()


@contextmanager
def raw(port):
    connection = gevent.socket.create_connection(("127.0.0.1", port))
    connection.settimeout(TIMEOUT_S)
    with connection:
        yield connection


def test_requests_and_files_arrive_unchanged(tmp_path):
    with TlsServer(tmp_path) as server:
        for size in (0, 1, 16_383, 16_384, 16_385, 70_000, 2_000_000):
            data = os.urandom(size)
            assert server.ask(data) == data
        assert server.ask(b"file") == server.file.read_bytes()
        older = "TLSv1.2"
        assert server.ask(b"file", ssl_enabled_protocols=older) == server.file.read_bytes()


def test_stop_answers_requests_in_flight_over_tls(tmp_path):
    with TlsServer(tmp_path) as server:
        asking = gevent.spawn(server.ask, b"wait")
        assert server.asked.wait(TIMEOUT_S)
        stopping = gevent.spawn(server.server.stop, TIMEOUT_S)
        while not server.server.stopping:
            gevent.sleep(0.01)
        gevent.sleep(0)
        server.answer.set()
        assert asking.get(timeout=TIMEOUT_S) == b"wait"
        stopping.join(TIMEOUT_S)


def test_principal_comes_from_the_client_certificate(tmp_path):
    alice = AUTHORITY.issue("CN=alice,OU=a", hosts=()).pem(tmp_path)
    with TlsServer(tmp_path, ssl_client_auth="requested") as server:
        assert server.ask(b"principal") == b"User:ANONYMOUS SSL"
        assert server.ask(b"principal", ssl_keystore_location=alice) == b"User:CN=alice,OU=a SSL"
    rules = "RULE:^CN=(.*?),.*$/$1/U"
    required = {"ssl_client_auth": "required", "ssl_principal_mapping_rules": rules}
    with TlsServer(tmp_path, **required) as server:
        assert server.ask(b"principal", ssl_keystore_location=alice) == b"User:ALICE SSL"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "shows no certificate"),
        (AUTHORITY.issue("CN=old", days=-1, hosts=()), "certificate has expired"),
        (
            Authority("Other").issue("CN=mallory", hosts=()),
            "authority that is not in ssl.truststore",
        ),
        (AUTHORITY.issue("CN=x", hosts=()), "no rule of ssl.principal.mapping.rules matches"),
    ],
)
def test_refused_client_certificate_is_logged(tmp_path, caplog, made, message):
    rules = "RULE:^CN=alice$/alice/"
    required = {"ssl_client_auth": "required", "ssl_principal_mapping_rules": rules}
    with TlsServer(tmp_path, **required) as server:
        own = {} if made is None else {"ssl_keystore_location": made.pem(tmp_path)}
        with pytest.raises((OSError, AuthenticationFailed, AssertionError)):
            server.ask(b"principal", **own)
        server.server.stop(1)
    assert message in caplog.text
    assert "Traceback" not in caplog.text


def test_plaintext_client_gets_a_tls_alert(tmp_path, caplog):
    with TlsServer(tmp_path) as server, raw(server.port) as connection:
        connection.sendall(b"\0\0\0\x20\0\x12\0\0" + bytes(28))
        assert connection.recv(100)[:2] == b"\x15\x03"
        assert connection.recv(100) == b""
    assert "a client that does not speak TLS" in caplog.text


def test_handshake_times_out(tmp_path, caplog):
    with TlsServer(tmp_path, ssl_handshake_timeout_ms="50") as server, raw(server.port) as silent:
        silent.sendall(b"\x16\x03\x01\x02\x00")
        assert silent.recv(100) == b""
    assert "no handshake within 0.05 s" in caplog.text


def test_handshakes_per_address_are_bounded(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(tls, "HANDSHAKES_PER_ADDRESS", 3)
    with TlsServer(tmp_path) as server:
        waiting = [gevent.socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]
        waiting[3].settimeout(TIMEOUT_S)
        assert waiting[3].recv(1) == b""
        assert "3 TLS handshakes of 127.0.0.1 are under way" in caplog.text
        for each in waiting:
            each.close()
        gevent.wait(timeout=0.1)
        while server.tls._under_way:
            gevent.sleep(0.01)
        assert server.ask(b"hello") == b"hello"


def test_changed_keys_are_reloaded_without_restart(tmp_path, caplog):
    with TlsServer(tmp_path) as server:
        assert server.ask(b"hello") == b"hello"
        AUTHORITY.issue("CN=broker", hosts=("b.example",)).pem(tmp_path, "broker.pem")
        with pytest.raises(AuthenticationFailed, match=r"not for 127\.0\.0\.1"):
            server.ask(b"hello")
        AUTHORITY.issue("CN=broker").pem(tmp_path, "broker.pem")
        assert server.ask(b"hello") == b"hello"
        Path(server.key).write_text("nothing")
        assert server.ask(b"hello") == b"hello"
        assert "certificates kept as they were" in caplog.text


def test_removed_authority_revokes_its_certificates(tmp_path):
    alice = AUTHORITY.issue("CN=alice", hosts=()).pem(tmp_path)
    trusted = tmp_path / "clients.pem"
    trusted.write_text(AUTHORITY.chain_pem())
    with TlsServer(
        tmp_path, ssl_client_auth="required", ssl_truststore_location=str(trusted)
    ) as server:
        server.properties["ssl.truststore.location"] = AUTHORITY.trusted(tmp_path)
        assert server.ask(b"hello", ssl_keystore_location=alice) == b"hello"
        trusted.write_text(Authority("Another").chain_pem())
        with pytest.raises(OSError, match="does not trust the authority that signed"):
            server.ask(b"hello", ssl_keystore_location=alice)


def test_other_key_files_are_used_unless_broken(tmp_path, caplog):
    other = AUTHORITY.issue("CN=broker", hosts=("b.example",)).pem(tmp_path)
    with TlsServer(tmp_path) as server:

        def changed(path):
            given = server.properties | {"listener.name.ssl.ssl.keystore.location": path}
            return BrokerConfig.from_properties(given).security

        broken = changed(str(tmp_path / "none.pem"))
        with pytest.raises(ConfigError, match="cannot be read"):
            server.tls.check(broken)
        server.tls.follow(broken)
        assert "keys kept listener=SSL" in caplog.text
        server.tls.check(changed(other))
        assert server.ask(b"hello") == b"hello"
        server.tls.follow(changed(other))
        with pytest.raises(AuthenticationFailed, match="not for"):
            server.ask(b"hello")


def hello():
    """Return the first message of a TLS client."""
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    ("seeds", "most_mib"),
    [
        (1_000, 24),
        pytest.param(100_000, 32, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
def test_mutated_handshakes_do_no_harm(tmp_path, caplog, seeds, most_mib):
    seeds = soak.part_of(seeds)
    caplog.set_level(logging.ERROR)
    whole = hello()
    with TlsServer(tmp_path, ssl_handshake_timeout_ms="2000") as server:

        def send(seed):
            with raw(server.port) as connection:
                try:
                    connection.sendall(mutated(whole, random.Random(seed)))
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):
                        pass
                except OSError:
                    pass  # cut, as it should be

        def run(first, last):
            for start in range(first, last, 50):
                gevent.joinall([gevent.spawn(send, start + number) for number in range(50)])

        warm_up = min(1_000, seeds // 4)
        run(0, warm_up)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run(warm_up, seeds)
        while server.server.connections:
            gevent.sleep(0.01)
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown_kib < most_mib * 1024
        assert server.ask(b"hello") == b"hello"
        assert not server.tls._under_way
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
