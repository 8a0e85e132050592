"""Connections are opened as their settings say, or refused with the reason."""

import socket

import pytest

from tests.support.certificates import Authority, self_signed
from tests.support.sockets import refusing_port
from tests.support.tls_server import server_context, tls_echo
from zkbroker.config.security import ClientSecurity
from zkbroker.errors import AuthenticationFailed, ConfigError, NetworkError
from zkbroker.network.client.opening import check_security, open_transport
from zkbroker.network.client.tls import TlsTransport
from zkbroker.network.transport import SocketTransport

AUTHORITY = Authority()
TIMEOUT_S = 20.0


@pytest.fixture
def trusting(tmp_path):
    return {"security.protocol": "SSL", "ssl.ca.location": AUTHORITY.trusted(tmp_path)}


def opened(runtime, port, settings, host="127.0.0.1"):
    security = ClientSecurity.from_properties(settings)
    return open_transport(runtime, host, port, TIMEOUT_S, security=security)


def echoed(transport, data):
    transport.send([data])
    buffer = bytearray(len(data))
    view, have = memoryview(buffer), 0
    while have < len(data):
        count = transport.receive_into(view[have:])
        assert count
        have += count
    transport.close()
    return bytes(buffer)


def test_default_transport_is_plaintext(runtime):
    with tls_echo(None) as port:
        transport = open_transport(runtime, "127.0.0.1", port, TIMEOUT_S)
        assert isinstance(transport, SocketTransport)
        assert echoed(transport, b"hello") == b"hello"


def test_refused_connect_error_names_the_address(runtime):
    with refusing_port() as port, pytest.raises(NetworkError, match=f"connect to 127.0.0.1:{port}"):
        open_transport(runtime, "127.0.0.1", port, TIMEOUT_S)


@pytest.mark.parametrize("newest", [True, False])
def test_tls_transport_is_opened_by_the_settings(runtime, tmp_path, trusting, newest):
    context = server_context(AUTHORITY.issue("broker").pem(tmp_path), newest=newest)
    with tls_echo(context) as port:
        transport = opened(runtime, port, trusting)
        assert isinstance(transport, TlsTransport)
        assert transport.version() == ("TLSv1.3" if newest else "TLSv1.2")
        assert not transport.readable() or newest
        data = bytes(range(256)) * 4000
        assert echoed(transport, data) == data


def test_client_presents_its_certificate(runtime, tmp_path, trusting):
    context = server_context(
        AUTHORITY.issue("broker").pem(tmp_path), trusted=AUTHORITY.trusted(tmp_path), required=True
    )
    with tls_echo(context) as port:
        own = {"ssl.keystore.location": AUTHORITY.issue("client", hosts=()).pem(tmp_path)}
        assert echoed(opened(runtime, port, trusting | own), b"hello") == b"hello"
        transport = opened(runtime, port, trusting)
        with pytest.raises(OSError, match=r"asks for a certificate of the client|reset|closed"):
            # With TLS 1.3 the refusal comes after the client's part of the handshake.
            transport.receive_into(memoryview(bytearray(1)))
        transport.close()


@pytest.mark.parametrize(
    ("made", "host", "message"),
    [
        (AUTHORITY.issue("broker", days=-1), "127.0.0.1", "has expired"),
        (AUTHORITY.issue("broker", starts_days=1), "127.0.0.1", "not valid yet"),
        (AUTHORITY.issue("broker", hosts=("b.example",)), "127.0.0.1", "not for 127.0.0.1"),
        (AUTHORITY.issue("broker", hosts=("127.0.0.1",)), "localhost", "not for localhost"),
        (self_signed(), "127.0.0.1", "self-signed"),
        (Authority("Other").issue("broker"), "127.0.0.1", "authority that is not trusted"),
        (Authority().issue("broker"), "127.0.0.1", "authority that is not trusted"),
        (AUTHORITY.issue("broker", usage=True), "127.0.0.1", "not for servers"),
    ],
)
def test_unverifiable_broker_certificate_is_refused(
    runtime, tmp_path, trusting, made, host, message
):
    with (
        tls_echo(server_context(made.pem(tmp_path))) as port,
        pytest.raises(AuthenticationFailed, match=message) as refused,
    ):
        opened(runtime, port, trusting, host)
    assert f"{host}:{port}" in str(refused.value)


def test_certificate_checks_can_be_disabled(runtime, tmp_path, trusting):
    elsewhere = AUTHORITY.issue("broker", hosts=("b.example",))
    with tls_echo(server_context(elsewhere.pem(tmp_path))) as port:
        any_host = trusting | {"ssl.endpoint.identification.algorithm": ""}
        assert echoed(opened(runtime, port, any_host), b"hello") == b"hello"
    with tls_echo(server_context(self_signed().pem(tmp_path))) as port:
        unverified = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}
        assert echoed(opened(runtime, port, unverified), b"hello") == b"hello"


def test_tls_to_a_plaintext_port_fails(runtime, trusting):
    # The server echoes the ClientHello, which is no valid response.
    with (
        tls_echo(None) as port,
        pytest.raises(AuthenticationFailed, match="by TLS: "),
    ):
        opened(runtime, port, trusting)


def test_tls_handshake_times_out(runtime, trusting):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        security = ClientSecurity.from_properties(trusting)
        port = silent.getsockname()[1]
        with pytest.raises(NetworkError, match="no TLS handshake"):
            open_transport(runtime, "127.0.0.1", port, 0.05, security=security)


def test_tls_files_are_checked_before_connecting(tmp_path):
    broken = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "none")}
    with pytest.raises(ConfigError, match="cannot be read"):
        check_security(ClientSecurity.from_properties(broken))
