"""Logins of the ZooKeeper client: its credentials, and its handling of refusals.

    connected --login--> usable          for every connection, also in a new session
        |
        +-- refused the first time: the session cannot start
        +-- refused later (the server restarts, its users changed): retried, with a warning

Invariant: no listener is notified of a connection before its login is complete. A message names the
user and the setting, never the password.
"""

import contextlib
import importlib.util
import logging
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import kazoo.exceptions as kz
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL
from kazoo.protocol.states import KeeperState

from zkbroker.config.zookeeper_security import ZooKeeperSecurity
from zkbroker.errors import RegistryError
from zkbroker.security.tls.contexts import client_contexts
from zkbroker.security.tls.explain import explain_failure
from zkbroker.zookeeper.tls import TlsRefused, zookeeper_words

logger = logging.getLogger(__name__)

SASL_SETTINGS = "zookeeper.sasl.jaas.config, or the section Client of the JAAS file"


_MOST_TOKENS = 4
"""The most tokens of one login; DIGEST-MD5 sends two."""


class SaslNotAnswered(kz.AuthFailedError):  # type: ignore[misc] # kazoo is not typed
    """The server answers every SASL token with an empty one: it has no users configured."""


class BoundedLogin(ConnectionHandler):  # type: ignore[misc] # kazoo is not typed
    """A connection whose SASL login ends: kazoo's goes on as long as the server answers."""

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        if isinstance(request, SASL) and xid is not None and xid > _MOST_TOKENS:
            raise SaslNotAnswered
        super()._submit(request, timeout, xid)


def login_options(security: ZooKeeperSecurity) -> dict[str, Any]:
    """Return the options of the client for its login.

    Raises:
        RegistryError: the library for SASL is not installed.
        ConfigError: the files for TLS cannot be used.
    """
    options: dict[str, Any] = {}
    if security.tls is not None:
        # Checked here, where an error reaches the caller; another task makes the connections.
        client_contexts(security.tls)
    if security.digest is not None:
        login = security.digest
        options["auth_data"] = {("digest", f"{login.user}:{login.password.reveal()}")}
    if security.sasl is not None:
        require_sasl()
        options["sasl_options"] = {
            "mechanism": "DIGEST-MD5",
            "username": security.sasl.user,
            "password": security.sasl.password.reveal(),
        }
    return options


def require_sasl() -> None:
    """Check that the library for SASL is installed.

    Raises:
        RegistryError: it is not.
    """
    if importlib.util.find_spec("puresasl") is None:
        raise RegistryError(
            "a login at ZooKeeper by SASL needs the security extra: pip install "
            "'zkbroker[security]', or use zookeeper.auth.digest"
        )


class ZkLoginGate:
    """Holds back the report of a connection until its login is complete, and handles refusals.

    Args:
        security: of the session.
        hosts: for messages.
        on_refused: called with the reason when the first login is refused.
    """

    def __init__(
        self, security: ZooKeeperSecurity, hosts: str, on_refused: Callable[[str], object]
    ) -> None:
        self._security = security
        self._hosts = hosts
        self._on_refused = on_refused
        self._held: list[Any] | None = None
        self._logged_in_before = False
        self.cut_off = False
        """Whether a server accepted a connection and closed it before the login was complete."""

    def passes(self, state: Any) -> bool:
        """Whether a state may be reported now; if not, it is held back."""
        if self._held is None or state not in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO):
            return True
        self._held.append(state)
        return False

    def held(self) -> list[Any]:
        """Return the states that were held back, once the login is complete."""
        held, self._held = self._held, None
        return held or []

    @contextlib.contextmanager
    def login(self) -> Iterator[None]:
        """Return the context in which a connection is made and logged in.

        Raises:
            AuthFailedError: the first login was refused; kazoo then ends.
            ConnectionDropped: the connection must be retried.
        """
        self._held = []
        try:
            yield
        except kz.KazooException as error:
            self._held = None
            self.cut_off |= _is_cut_off(error)
            reason = refusal_text(error, self._security, self._hosts)
            if reason is None and not isinstance(error, kz.AuthFailedError):
                raise
            if reason is not None and not self._logged_in_before:
                self._on_refused(reason)
                raise kz.AuthFailedError(reason) from error
            logger.warning(
                "login repeated reason=%s", reason or "the connection broke during the login"
            )
            raise kz.ConnectionDropped(str(reason)) from error
        except BaseException:
            self._held = None
            raise
        self._logged_in_before = True


def refusal_text(error: Exception, security: ZooKeeperSecurity, hosts: str) -> str | None:
    """Return the reason for which a connection was refused for good; None if a retry may succeed.

    Args:
        error: the error of the client's attempt.
        security: of the session.
        hosts: the addresses, for the text.
    """
    cause = error.__context__
    if isinstance(error, kz.ConnectionDropped):
        if isinstance(cause, TlsRefused):
            return f"no TLS with ZooKeeper at {hosts}: {cause}"
        if isinstance(cause, ssl.SSLError):
            words = zookeeper_words(explain_failure(cause, hosts))
            has_key = security.tls is not None and security.tls.has_key
            if not has_key and "CERT" in str(cause.reason):
                # Java sends the same alert for a missing and for a wrong certificate.
                words = (
                    "it asks for a certificate of the client (ssl.clientAuth=need): set "
                    "zookeeper.ssl.keystore.location"
                )
            return f"no TLS with ZooKeeper at {hosts}: {words}"
        return None
    if isinstance(error, kz.SessionClosedRequireSaslError) and security.sasl is None:
        return f"ZooKeeper at {hosts} requires a SASL login, and none is set: set {SASL_SETTINGS}"
    if isinstance(error, SaslNotAnswered):
        return (
            f"ZooKeeper at {hosts} accepts no SASL logins: give its server a JAAS file with a "
            f"section Server, or remove {SASL_SETTINGS}"
        )
    if isinstance(error, (kz.AuthFailedError, kz.SessionClosedRequireSaslError)):
        if isinstance(error.__cause__, kz.ConnectionDropped):
            # For example while the server restarts.
            return None
        if security.sasl is not None:
            return (
                f"ZooKeeper at {hosts} refused the login of {security.sasl.user} (SASL): check its "
                f"password in {SASL_SETTINGS}, and that the server knows the user "
                f"(user_{security.sasl.user} in the section Server of the server's JAAS file)"
            )
        return (
            f"ZooKeeper at {hosts} refused the login of {security.logins or 'nobody'}: check "
            "zookeeper.auth.digest, and which schemes the server knows"
        )
    return None


def _is_cut_off(error: Exception) -> bool:
    """Whether the server accepted the connection and closed it, as at the wrong port."""
    cause = error.__context__
    if not isinstance(error, kz.ConnectionDropped) or isinstance(cause, ConnectionRefusedError):
        return False
    return isinstance(cause, ConnectionError) or "broken" in str(error)
