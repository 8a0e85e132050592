"""Which settings of a broker may change while it runs, and the configuration after a change.

    /config/brokers/[id]        first: settings of one broker
    /config/brokers/<default>   second: settings of all brokers
    the properties file         third

Invariant: the settings that brokers of 1.1 to 2.1 let change may change, as far as they mean
something here; all others are refused with the reason. A setting that is accepted takes effect
while the broker runs, or is one of `WITHOUT_EFFECT`.
"""

import re
from collections.abc import Mapping

from zkbroker.config.broker import BrokerConfig
from zkbroker.config.broker_keys import BROKER_NAMES, SHOWN
from zkbroker.config.ignored_broker_keys import IGNORED
from zkbroker.config.log import LogManagerConfig
from zkbroker.config.schema import Int, OptionKind, nearest, parse_value, quiet
from zkbroker.errors import ErrorCode, ProtocolError

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"

RATES: Mapping[str, OptionKind[int]] = {
    LEADER_RATE: Int(0),
    FOLLOWER_RATE: Int(0),
    "replica.alter.log.dirs.io.max.bytes.per.second": Int(0),
}
"""Settings that a properties file does not have."""

WITHOUT_EFFECT: Mapping[str, str] = {
    "background.threads": IGNORED["background.threads"],
    "num.io.threads": IGNORED["num.io.threads"],
    "num.network.threads": IGNORED["num.network.threads"],
    "num.recovery.threads.per.data.dir": LogManagerConfig.IGNORED[
        "num.recovery.threads.per.data.dir"
    ],
    "replica.alter.log.dirs.io.max.bytes.per.second": IGNORED["num.replica.alter.log.dirs.threads"],
}
"""Settings that are accepted because tools set them, and that do nothing; with the reason."""

_FIXED_DEFAULTS = {"log.message.format.version", "log.retention.policy"}
"""Defaults of topics that need a restart: all brokers must know the format or the policy."""

CHANGEABLE = frozenset(
    {
        *(set(BROKER_NAMES.values()) - _FIXED_DEFAULTS),
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "logger.levels",
        "max.connection.creation.rate",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "num.replica.fetchers",
        *WITHOUT_EFFECT,
        *RATES,
    }
)
"""Settings that may change while a broker runs."""


_KEYS_OF_LISTENERS = re.compile(
    r"listener\.name\.[a-z0-9_.-]+\.ssl\.(keystore|truststore)\.(location|type)"
)
_SECRETS_OF_LISTENERS = re.compile(r"listener\.name\.[a-z0-9_.-]+\.ssl\..*(password|key)")


def may_change(key: str) -> bool:
    """Whether a setting may change while a broker runs; the files of a listener's keys may, too."""
    return key in CHANGEABLE or _KEYS_OF_LISTENERS.fullmatch(key) is not None


def check_change(key: str, text: str) -> None:
    """Check that a setting may change while a broker runs, and that its value is allowed.

    Raises:
        ProtocolError: INVALID_REQUEST: it may not change; the message says what to do.
        ConfigError: the value is not allowed.
    """
    if not may_change(key):
        raise ProtocolError(_why_fixed(key), code=ErrorCode.INVALID_REQUEST)
    if key not in CHANGEABLE:
        return  # checked together with the listener's other settings
    kind = RATES.get(key) or (SHOWN[key].kind if key in SHOWN else None) or Int(1, 2**31 - 1)
    parse_value(key, text, kind)


def _why_fixed(key: str) -> str:
    known = SHOWN.get(key)
    if _SECRETS_OF_LISTENERS.fullmatch(key):
        return (
            f"{key} is not kept in ZooKeeper, where passwords and keys do not belong: put it into "
            "the broker's properties file; a changed key file is read again by itself"
        )
    if known is None:
        return f"{key} is no setting of a broker{nearest(key, CHANGEABLE | SHOWN.keys())}"
    changes = next((name for name in known.names if name in CHANGEABLE), None)
    if changes is not None:
        return f"{key} needs a restart of the broker; set {changes}, which may change while it runs"
    if known.kind is None:
        return f"{key} has no effect on this broker, and may not change while it runs"
    return (
        f"{key} needs a restart of the broker: set it in the broker's properties file, and restart "
        "it"
    )


def changed_config(
    static: BrokerConfig, of_all: Mapping[str, str], own: Mapping[str, str]
) -> BrokerConfig:
    """Return the configuration of a broker with the settings that changed since its start.

    Args:
        static: what it was started with.
        of_all: settings of all brokers, checked by `check_change`.
        own: those of this broker, checked likewise; they win.

    Raises:
        ConfigError: the settings contradict each other.
    """
    changed = {key: text for key, text in {**of_all, **own}.items() if key not in RATES}
    if not changed:
        return static
    return BrokerConfig.from_properties({**static.given, **changed}, warn=quiet)
