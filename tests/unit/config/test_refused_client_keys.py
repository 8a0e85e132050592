"""Settings that clients of Kafka 0.7 cannot obey are refused."""

import pytest

from zkbroker.config.refused_client_keys import refuse_unsupported
from zkbroker.errors import ConfigError


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT"])
def test_what_would_be_a_broken_promise_is_refused_by_name(protocol):
    with pytest.raises(ConfigError, match=f"security.protocol={protocol} is not supported"):
        refuse_unsupported({"security.protocol": protocol})


def test_what_says_nothing_new_is_taken_without_a_word():
    assert refuse_unsupported({"security.protocol": "PLAINTEXT", "a": "b"}) == {"a": "b"}
