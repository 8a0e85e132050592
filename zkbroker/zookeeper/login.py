"""Logins of the ZooKeeper client: what it is given, and what a refusal means.

    connected --login--> usable          every time a connection is made, in a new session as well
        |
        +-- refused, first time: the session cannot start
        +-- refused later (the server restarts, its users changed): tried again, with a warning

Invariant: no listener hears of a connection before its login is done. A message names the user and
the setting, never the password.
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
"""Of one login; DIGEST-MD5 sends two."""


class SaslNotAnswered(kz.AuthFailedError):  # type: ignore[misc] # kazoo is not typed
    """The server answers tokens of SASL with nothing, for ever: it has no users to compare with."""


class BoundedLogin(ConnectionHandler):  # type: ignore[misc] # kazoo is not typed
    """A connection whose login by SASL ends: kazoo's goes on as long as the server answers."""

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        if isinstance(request, SASL) and xid is not None and xid > _MOST_TOKENS:
            raise SaslNotAnswered
        super()._submit(request, timeout, xid)


def login_options(security: ZooKeeperSecurity) -> dict[str, Any]:
    """Return the options of the client that log it in.

    Raises:
        RegistryError: the library for SASL is not installed.
        ConfigError: the files for TLS cannot be used.
    """
    options: dict[str, Any] = {}
    if security.tls is not None:
        # Looked at here, where it can be said; connections are made by another task.
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
    """Check that the library for SASL is there.

    Raises:
        RegistryError: it is not.
    """
    if importlib.util.find_spec("puresasl") is None:
        raise RegistryError(
            "a login at ZooKeeper by SASL needs the security extra: pip install "
            "'zkbroker[security]', or use zookeeper.auth.digest"
        )


class LoginGate:
    """Keeps the news of a connection until its login is done, and sorts refusals.

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
        self._was_in = False
        self.cut_off = False
        """Whether a server took a connection and closed it before the login was done."""

    def passes(self, state: Any) -> bool:
        """Whether a state may be reported now; one that may not is held."""
        if self._held is None or state not in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO):
            return True
        self._held.append(state)
        return False

    def held(self) -> list[Any]:
        """Return the states to report now that the login is done."""
        held, self._held = self._held, None
        return held or []

    @contextlib.contextmanager
    def login(self) -> Iterator[None]:
        """Make a connection and log in, in the block.

        Raises:
            AuthFailedError: refused for the first time; kazoo ends then.
            ConnectionDropped: it is to be tried again.
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
            if reason is not None and not self._was_in:
                self._on_refused(reason)
                raise kz.AuthFailedError(reason) from error
            logger.warning(
                "login repeated reason=%s", reason or "the connection broke within the login"
            )
            raise kz.ConnectionDropped(str(reason)) from error
        except BaseException:
            self._held = None
            raise
        self._was_in = True


def refusal_text(error: Exception, security: ZooKeeperSecurity, hosts: str) -> str | None:
    """Say why a connection was refused for good; None when it may succeed another time.

    Args:
        error: with which the client's attempt ended.
        security: of the session.
        hosts: where.
    """
    cause = error.__context__
    if isinstance(error, kz.ConnectionDropped):
        if isinstance(cause, TlsRefused):
            return f"no TLS with ZooKeeper at {hosts}: {cause}"
        if isinstance(cause, ssl.SSLError):
            words = zookeeper_words(explain_failure(cause, hosts))
            has_key = security.tls is not None and security.tls.has_key
            if not has_key and "CERT" in str(cause.reason):
                # Java says the same of no certificate and of a wrong one.
                words = (
                    "it asks for a certificate of the client (ssl.clientAuth=need): set "
                    "zookeeper.ssl.keystore.location"
                )
            return f"no TLS with ZooKeeper at {hosts}: {words}"
        return None
    if isinstance(error, kz.SessionClosedRequireSaslError) and security.sasl is None:
        return f"ZooKeeper at {hosts} wants a login by SASL, and none is set: give {SASL_SETTINGS}"
    if isinstance(error, SaslNotAnswered):
        return (
            f"ZooKeeper at {hosts} knows no logins by SASL: give its server a JAAS file with a "
            f"section Server, or leave out {SASL_SETTINGS}"
        )
    if isinstance(error, (kz.AuthFailedError, kz.SessionClosedRequireSaslError)):
        if isinstance(error.__cause__, kz.ConnectionDropped):
            # As when the server restarts.
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
    """Whether the server took the connection and closed it, as one at the wrong port does."""
    cause = error.__context__
    if not isinstance(error, kz.ConnectionDropped) or isinstance(cause, ConnectionRefusedError):
        return False
    return isinstance(cause, ConnectionError) or "broken" in str(error)
