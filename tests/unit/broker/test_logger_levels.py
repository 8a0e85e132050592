import logging

from zkbroker.broker.logger_levels import AppliedLevels


def test_logger_levels_are_applied_and_restored():
    logger = logging.getLogger("zkbroker.a-logger-of-this-test")
    logger.setLevel(logging.ERROR)
    root = logging.getLogger().level
    levels = AppliedLevels()
    levels.follow({logger.name: "DEBUG", "root": "CRITICAL"})
    assert (logger.level, logging.getLogger().level) == (logging.DEBUG, logging.CRITICAL)
    levels.follow({logger.name: "INFO"})
    assert (logger.level, logging.getLogger().level) == (logging.INFO, root)
    levels.follow({})
    assert logger.level == logging.ERROR
