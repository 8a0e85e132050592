"""The levels of a broker's own log.

Invariant: none of these changes an answer to a client.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from zkbroker.config.logger_levels import LoggerLevels
from zkbroker.config.schema import option


@dataclass(frozen=True, kw_only=True)
class LoggingOptions:
    """Which lines the broker's log gets."""

    # fmt: off
    logger_levels: Mapping[str, str] = option("logger.levels", LoggerLevels(), {},
        "`logger:level` pairs, such as `zkbroker.replica:DEBUG,root:WARNING`, which override "
        "`--log-level`. May change while the broker runs (`zkbroker log-levels`).")
    # fmt: on
