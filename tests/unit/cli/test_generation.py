"""The generation of Kafka of a command, and the start positions that it has."""

import pytest

from zkbroker.cli.generation import command_generation, plain_start, require_zookeeper
from zkbroker.cli.positions import parse_range
from zkbroker.errors import ConfigError


def test_generation_option_overrides_the_property():
    assert command_generation(None, {}) is None
    assert command_generation(None, {"kafka.generation": "0.7"}).name == "0.7"
    assert command_generation("0.7.2", {"kafka.generation": "0.8"}).name == "0.7"
    assert command_generation("0.8", {"kafka.generation": "0.7"}) is None
    with pytest.raises(ConfigError, match=r"'0\.6' is not allowed"):
        command_generation("0.6", {})


@pytest.mark.parametrize(
    ("words", "start"), [((), -2), (("beginning",), -2), (("end",), -1), (("1234",), 1234)]
)
def test_start_positions_of_0_7(words, start):
    assert plain_start(command_generation("0.7", {}), parse_range(words)) == start


@pytest.mark.parametrize("words", [("-10",), ("stored",), ("s@5",), ("beginning", "e@5")])
def test_start_positions_that_0_7_lacks_are_refused(words):
    with pytest.raises(ConfigError, match=r"-o of a cluster of Kafka 0\.7"):
        plain_start(command_generation("0.7", {}), parse_range(words))


def test_cluster_of_0_7_needs_zookeeper():
    generation = command_generation("0.7", {})
    assert require_zookeeper(generation, "zk:2181") == "zk:2181"
    with pytest.raises(ConfigError, match="give -z"):
        require_zookeeper(generation, None)
