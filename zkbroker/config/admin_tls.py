"""TLS of the admin page: the TLS settings of a listener, with the prefix `admin.`.

    admin.ssl.keystore.location=/etc/zkbroker/admin.pem
    admin.ssl.client.auth=required

Invariant: a page with TLS settings has a key, or the broker does not start.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zkbroker.config.broker_security import NONE, TLS_KEYS, server_tls
from zkbroker.config.schema import nearest
from zkbroker.config.tls import TlsSettings
from zkbroker.errors import ConfigError

PREFIX = "admin.ssl."
_ADMIN = "admin."


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminTls:
    """How the page is protected.

    Args:
        tls: its key, and the authorities that sign clients' certificates.
        client_auth: whether clients show certificates: `none`, `requested` or `required`.
    """

    tls: TlsSettings
    client_auth: str = NONE


def admin_tls(properties: Mapping[str, str], warn: Callable[[str], object]) -> AdminTls | None:
    """Build it from the properties of a broker; None without TLS settings.

    Raises:
        ConfigError: a value is not allowed, or there is no key.
    """
    given = {key.removeprefix(_ADMIN): t for key, t in properties.items() if key.startswith(PREFIX)}
    if not given:
        return None
    for key in given.keys() - TLS_KEYS:
        known = [f"{_ADMIN}{each}" for each in TLS_KEYS]
        warn(f"config key={_ADMIN}{key} is unknown and ignored{nearest(_ADMIN + key, known)}")
    tls, server = server_tls(given, f"the admin page (settings with the prefix {_ADMIN})")
    if not tls.has_key:
        raise ConfigError(
            "the admin page has TLS settings and no key: set admin.ssl.keystore.location to a PEM "
            "file with the private key and its certificates"
        )
    if server.client_auth != NONE and not tls.has_authorities:
        raise ConfigError(
            f"admin.ssl.client.auth={server.client_auth} needs admin.ssl.truststore.location: the "
            "authorities that sign clients' certificates"
        )
    return AdminTls(tls=tls, client_auth=server.client_auth)
