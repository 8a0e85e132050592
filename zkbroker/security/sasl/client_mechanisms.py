"""From a client's login to its side of the mechanism."""

from zkbroker.config.sasl_login import SaslLogin
from zkbroker.security.sasl import OAUTHBEARER, PLAIN
from zkbroker.security.sasl.mechanism import ClientMechanism
from zkbroker.security.sasl.oauthbearer import OAuthBearerClient
from zkbroker.security.sasl.plain import PlainClient
from zkbroker.security.sasl.scram import HASHES
from zkbroker.security.sasl.scram_client import ScramClient
from zkbroker.security.sasl.token_sources import find_token

_EXTENSION = "unsecuredLoginExtension_"


def client_mechanism(login: SaslLogin) -> ClientMechanism:
    """Make the client's side of one authentication; may wait for a token.

    Raises:
        AuthenticationFailed: there is no token.
        ConfigError: the settings of tokens cannot be used.
    """
    if login.mechanism == PLAIN:
        return PlainClient(login.user, login.user_password)
    if login.mechanism == OAUTHBEARER:
        options = {} if login.line is None else login.line.options
        extensions = {
            name.removeprefix(_EXTENSION): value
            for name, value in options.items()
            if name.startswith(_EXTENSION)
        }
        return OAuthBearerClient(find_token(login), extensions)
    return ScramClient(HASHES[login.mechanism], login.user, login.user_password)
