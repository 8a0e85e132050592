"""What a broker writes into its own log.

Invariant: none of these changes what clients are served.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from zkbroker.config.logger_levels import LoggerLevels
from zkbroker.config.schema import option


@dataclass(frozen=True, kw_only=True)
class LoggingOptions:
    """The lines of the broker's log."""

    # fmt: off
    logger_levels: Mapping[str, str] = option("logger.levels", LoggerLevels(), {},
        "`logger:level` pairs, such as `zkbroker.replica:DEBUG,root:WARNING`, over the level of "
        "`--log-level`. May change while the broker runs (`zkbroker log-levels`).")
    # fmt: on
