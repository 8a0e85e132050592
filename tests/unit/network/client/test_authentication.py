import pytest

from zkbroker.config.security import SaslLogin
from zkbroker.errors import ConfigError
from zkbroker.network.client.authentication import authenticate
from zkbroker.network.transport import memory_pair
from zkbroker.runtime import get_runtime


def test_a_mechanism_that_is_not_spoken_is_refused() -> None:
    mine, _ = memory_pair(get_runtime("threads"))
    with pytest.raises(ConfigError, match=r"sasl\.mechanism=GSSAPI"):
        authenticate(mine, SaslLogin(mechanism="GSSAPI"), "host")
