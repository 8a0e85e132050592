import pytest

from zkbroker.config.broker import BrokerConfig
from zkbroker.config.logger_levels import LoggerLevels, is_logger
from zkbroker.errors import ConfigError


def test_levels_of_log4j_are_read():
    parsed = LoggerLevels().parse("zkbroker.replica:debug, root : WARN,zkbroker.log:TRACE")
    assert parsed == {"zkbroker.replica": "DEBUG", "root": "WARNING", "zkbroker.log": "DEBUG"}
    assert LoggerLevels().accepts(parsed)


@pytest.mark.parametrize("name", ["root", "zkbroker", "zkbroker.replica.fetcher", "zkbroker.audit"])
def test_modules_and_packages_are_loggers(name):
    assert is_logger(name)


@pytest.mark.parametrize(
    "name", ["", "zkbroker.replic", "zkbroker/replica", "zkbroker...", "kazoo"]
)
def test_unknown_names_are_no_loggers(name):
    assert not is_logger(name)


@pytest.mark.parametrize("text", ["zkbroker.replic:DEBUG", "root:LOUD", "DEBUG", "root:"])
def test_invalid_logger_levels_are_refused(text):
    with pytest.raises(ConfigError, match=r"zkbroker\.audit and the modules of zkbroker"):
        BrokerConfig.from_properties({"zookeeper.connect": "z", "logger.levels": text})
