"""The login of a client over a connected transport."""

from zkbroker.config.security import SaslLogin
from zkbroker.errors import ConfigError
from zkbroker.network.transport import ClientTransport


def authenticate(transport: ClientTransport, login: SaslLogin, host: str) -> None:
    """Log in; afterwards the transport carries requests.

    Args:
        transport: connected, and encrypted where the protocol says so.
        login: mechanism and credentials.
        host: of the broker.

    Raises:
        ConfigError: the mechanism is not spoken.
    """
    raise ConfigError(
        f"sasl.mechanism={login.mechanism} is not spoken yet: set security.protocol=SSL or "
        "PLAINTEXT"
    )
