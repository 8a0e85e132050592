"""Settings that are impossible for clients of Kafka 0.7."""

import pytest

from zkbroker.config.refused_client_keys import refuse_unsupported
from zkbroker.errors import ConfigError


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT"])
def test_unsupported_security_protocol_is_refused(protocol):
    with pytest.raises(ConfigError, match=f"security.protocol={protocol} is not supported"):
        refuse_unsupported({"security.protocol": protocol})


def test_plaintext_is_accepted():
    assert refuse_unsupported({"security.protocol": "PLAINTEXT", "a": "b"}) == {"a": "b"}
