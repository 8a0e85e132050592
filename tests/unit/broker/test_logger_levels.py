import logging

from zkbroker.broker.logger_levels import AppliedLevels


def test_levels_follow_and_are_given_back():
    logger = logging.getLogger("zkbroker.a-logger-of-this-test")
    logger.setLevel(logging.ERROR)
    root = logging.getLogger().level
    levels = AppliedLevels()
    levels.follow({logger.name: "DEBUG", "root": "CRITICAL"})
    assert (logger.level, logging.getLogger().level) == (logging.DEBUG, logging.CRITICAL)
    levels.follow({logger.name: "INFO"})
    assert (logger.level, logging.getLogger().level) == (logging.INFO, root)
    levels.restore()
    assert logger.level == logging.ERROR
