"""Contexts are rebuilt when their files change, and kept when these cannot be read."""

import contextlib
import logging
import os
import ssl
from pathlib import Path

import pytest

from tests.support.certificates import Authority
from zkbroker.config.broker_security import NONE
from zkbroker.config.tls import TlsSettings
from zkbroker.errors import ConfigError
from zkbroker.security.tls.contexts import (
    Reloaded,
    client_contexts,
    make_client_context,
    make_server_context,
)

AUTHORITY = Authority()


def test_client_verifies_unless_disabled(tmp_path):
    trusted = AUTHORITY.trusted(tmp_path)
    usual = Reloaded(TlsSettings(truststore_location=trusted), make_client_context).context()
    assert (usual.verify_mode, usual.check_hostname) == (ssl.CERT_REQUIRED, True)
    any_host = Reloaded(
        TlsSettings(truststore_location=trusted, host_check=""), make_client_context
    ).context()
    assert (any_host.verify_mode, any_host.check_hostname) == (ssl.CERT_REQUIRED, False)
    unverified = Reloaded(TlsSettings(verify=False), make_client_context).context()
    assert unverified.verify_mode is ssl.CERT_NONE


def test_changed_files_are_reloaded(tmp_path, caplog):
    path = Path(AUTHORITY.issue("CN=one").pem(tmp_path, "key.pem"))
    contexts = Reloaded(TlsSettings(keystore_location=str(path)), make_client_context)
    first = contexts.context()
    assert contexts.context() is first
    fresh = tmp_path / "fresh.pem"
    AUTHORITY.issue("CN=two").pem(tmp_path, "fresh.pem")
    os.replace(fresh, path)
    second = contexts.context()
    assert second is not first
    path.write_text("no key")
    with caplog.at_level(logging.INFO):
        assert contexts.context() is second
        assert contexts.context() is second
    (message,) = caplog.messages
    assert "certificates kept as they were" in message
    assert str(path) in message
    path.unlink()
    assert contexts.context() is second
    AUTHORITY.issue("CN=three").pem(tmp_path, "key.pem")
    assert contexts.context() is not second
    assert contexts.reloads == 2


def test_equal_settings_share_a_context(tmp_path):
    trusted = AUTHORITY.trusted(tmp_path)
    settings = TlsSettings(truststore_location=trusted)
    assert client_contexts(settings) is client_contexts(TlsSettings(truststore_location=trusted))
    with pytest.raises(ConfigError):
        client_contexts(TlsSettings(truststore_location=str(tmp_path / "none")))


@pytest.mark.parametrize(("version", "resumed"), [("TLSv1.2", True), ("TLSv1.3", False)])
def test_session_tickets_need_no_server_memory_and_end_with_the_context(tmp_path, version, resumed):
    keys = TlsSettings(keystore_location=AUTHORITY.issue("CN=broker").pem(tmp_path))
    trusting = TlsSettings(truststore_location=AUTHORITY.trusted(tmp_path), versions=(version,))
    client = make_client_context(trusting)

    def connect(server, session):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        answering = server.wrap_bio(to_server, to_client, server_side=True)
        asking = client.wrap_bio(to_client, to_server, server_hostname="localhost", session=session)
        for side in (asking, answering, asking, answering, asking):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
        answering.write(b"x")
        assert asking.read(1) == b"x"
        return asking

    first = make_server_context(keys, NONE)
    session = connect(first, None).session
    assert connect(first, session).session_reused is resumed
    assert connect(make_server_context(keys, NONE), session).session_reused is False
    if resumed:
        assert first.session_stats()["number"] == 0
