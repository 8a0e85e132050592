"""The Kafka generation of a properties file."""

import pytest

from zkbroker.config.generation import find_generation, generation_name, without_generation
from zkbroker.errors import ConfigError


@pytest.mark.parametrize("key", ["kafka.generation", "protocol.generation"])
@pytest.mark.parametrize(
    ("text", "old"), [("0.7", True), (" 0.7.2 ", True), ("", False), ("0.8", False)]
)
def test_generation_is_read_from_either_key(key, text, old):
    given = {key: text, "groupid": "g"}
    assert generation_name(given) == ("0.7" if old else "")
    assert getattr(find_generation(given), "name", None) == ("0.7" if old else None)
    assert without_generation({key: text, "groupid": "g"}) == {"groupid": "g"}


def test_default_generation_and_unknown_generations():
    assert generation_name({"groupid": "g"}) == ""
    for text in ("0.6", "7", "0.71"):
        with pytest.raises(ConfigError, match=r"kafka\.generation"):
            generation_name({"kafka.generation": text})
