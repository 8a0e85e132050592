"""TLS of the ZooKeeper client: handshakes, refusals and decrypted bytes."""

import select
import socket
import ssl
import threading

import pytest

from tests.support.certificates import Authority
from zkbroker.config.tls import TlsSettings
from zkbroker.zookeeper.handlers import ready_now
from zkbroker.zookeeper.tls import TlsRefused, has_decrypted, shake_hands, zookeeper_words

AUTHORITY = Authority()


@pytest.fixture
def settings(tmp_path):
    return TlsSettings(truststore_location=AUTHORITY.trusted(tmp_path))


def serve(tmp_path, after, authority=AUTHORITY):
    """Answer a handshake in a thread; then `after` gets the server's encrypted socket."""
    ours, theirs = socket.socketpair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("zookeeper", hosts=("zk",)).pem(tmp_path))

    def answer():
        try:
            with context.wrap_socket(theirs, server_side=True) as encrypted:
                after(encrypted)
        except OSError:
            theirs.close()

    thread = threading.Thread(target=answer)
    thread.start()
    return ours, thread


def test_decrypted_bytes_count_as_ready(tmp_path, settings):
    done = threading.Event()

    def send(encrypted):
        encrypted.sendall(b"hello world")
        done.wait(10)

    ours, thread = serve(tmp_path, send)
    encrypted = shake_hands(ours, settings, "zk", 10, select.select)
    assert encrypted.gettimeout() == 0
    got = b""
    while not got:
        select.select([encrypted], [], [], 10)
        try:
            got = encrypted.recv(5)
        except ssl.SSLWantReadError:
            continue
    assert got == b"hello"
    assert has_decrypted([encrypted, ours]) == [encrypted]
    assert ready_now([encrypted], [], [encrypted]) == ([encrypted], [], [])
    assert encrypted.recv(100) == b" world"
    assert has_decrypted([encrypted]) == []
    assert ready_now([encrypted], [], []) is None
    done.set()
    thread.join()
    encrypted.close()


def test_certificate_for_another_host_is_refused(tmp_path, settings):
    ours, thread = serve(tmp_path, lambda encrypted: None)
    with pytest.raises(TlsRefused, match="its certificate is not for other"):
        shake_hands(ours, settings, "other", 10, select.select)
    thread.join()


def test_closed_or_silent_handshake_can_be_retried(settings):
    ours, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(ConnectionError) as failed:
        shake_hands(ours, settings, "zk", 10, select.select)
    assert not isinstance(failed.value, TlsRefused)
    ours, theirs = socket.socketpair()
    with pytest.raises(TimeoutError):
        shake_hands(ours, settings, "zk", 0.01, select.select)
    theirs.close()


def test_socket_is_closed_if_it_cannot_be_wrapped(settings):
    ours, theirs = socket.socketpair()
    # The traceback keeps the frame of `shake_hands`, and with it a socket that was not closed.
    with pytest.raises(ValueError, match="server_hostname") as failed:
        shake_hands(ours, settings, "", 10, select.select)
    theirs.setblocking(False)
    assert theirs.recv(1) == b"", f"closed before {failed.value!r} was raised"
    theirs.close()


def test_tls_errors_name_zookeeper_settings():
    message = "it asks (ssl.client.auth=required): set ssl.keystore.location; see the broker's log"
    assert zookeeper_words(message) == (
        "it asks (ssl.clientAuth=need): set zookeeper.ssl.keystore.location; see the server's log"
    )
