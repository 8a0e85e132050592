"""TLS contexts, which are made again when their files change.

    settings --files--> context      a file's time, size or inode changes: read again
                          |          unusable files: the old context stays, one log line
                     connections     open ones are not affected

Invariant: a new connection uses the present files, or the last usable ones; a client verifies its
broker unless the settings say otherwise.
"""

import functools
import logging
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from zkbroker.config.broker_security import NONE, REQUIRED
from zkbroker.config.tls import TlsSettings
from zkbroker.errors import ConfigError
from zkbroker.security.tls.ciphers import restrict
from zkbroker.security.tls.keystores import load_authorities, load_key

logger = logging.getLogger(__name__)

_Stamp = tuple[tuple[int, int, int], ...]
_KEPT = 64
_ABSENT = (0, 0, 0)
# Without a name in Python below 3.12; OpenSSL from 3.0 on.
_ENABLE_KTLS = 1 << 3


class Reloaded:
    """A context that follows its files.

    Args:
        tls: the settings.
        make: makes the context; raises `ConfigError`.

    Raises:
        ConfigError: the files cannot be used.
    """

    def __init__(self, tls: TlsSettings, make: Callable[[TlsSettings], ssl.SSLContext]) -> None:
        self._tls = tls
        self._make = make
        # Guards against threads; no greenlet waits or switches while it holds this.
        self._guard = threading.Lock()
        self._stamp = _stamp(tls)
        self._context = make(tls)
        self.reloads = 0
        """How often changed files were loaded."""

    def context(self) -> ssl.SSLContext:
        """Return the context of the present files, or of the last usable ones."""
        stamp = _stamp(self._tls)
        with self._guard:
            if stamp != self._stamp:
                self._stamp = stamp
                self._reload()
            return self._context

    def _reload(self) -> None:
        files = ",".join(self._tls.files)
        try:
            self._context = self._make(self._tls)
        except ConfigError as error:
            # A traceback would add nothing to the message.
            logger.error("certificates kept as they were files=%s error=%s", files, error)  # noqa: TRY400
        else:
            self.reloads += 1
            logger.info("certificates read again files=%s", files)


def _stamp(tls: TlsSettings) -> _Stamp:
    return tuple(map(_file_stamp, tls.files))


def _file_stamp(path: str) -> tuple[int, int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return _ABSENT
    return found.st_mtime_ns, found.st_size, found.st_ino


@functools.lru_cache(_KEPT)
def client_contexts(tls: TlsSettings) -> Reloaded:
    """Return the context of a client's connections, shared by all with these settings.

    Raises:
        ConfigError: the files cannot be used.
    """
    return Reloaded(tls, make_client_context)


def make_server_context(
    tls: TlsSettings, client_auth: str, *, kernel: bool = True
) -> ssl.SSLContext:
    """Make the context of a listener.

    Args:
        tls: its keys.
        client_auth: `none`, `requested` or `required`.
        kernel: whether to hand encryption to the kernel if it supports that.

    Raises:
        ConfigError: the files cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    # TLS 1.3 sessions are not resumed: each connection is verified. TLS 1.2 sessions can be resumed
    # with a ticket, which takes no memory here and becomes invalid with this context.
    context.num_tickets = 0
    if kernel:
        context.options |= _ENABLE_KTLS
    restrict(context, tls)
    load_key(context, tls)
    if client_auth != NONE:
        load_authorities(context, tls)
        context.verify_mode = ssl.CERT_REQUIRED if client_auth == REQUIRED else ssl.CERT_OPTIONAL
    return context


def make_client_context(tls: TlsSettings) -> ssl.SSLContext:
    """Make the context of a client.

    Raises:
        ConfigError: the files cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION
    restrict(context, tls)
    context.check_hostname = tls.checks_host
    if tls.verify:
        load_authorities(context, tls)
    else:
        context.verify_mode = ssl.CERT_NONE
    if tls.has_key:
        load_key(context, tls)
    return context
