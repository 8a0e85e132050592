"""Settings of a broker, in the spellings of 0.7.2, 0.8.2 and every later ZooKeeper-based Kafka.

Invariant: a genuine `server.properties` of any of those generations works unmodified. Each of its
keys is an option of the broker (`zkbroker.config.broker_options`, and a few here) or of the log
(`zkbroker.config.log`), or stands in `IGNORED` or `IGNORED_PREFIXES` with the reason why it has no
effect, which is logged when the key is given.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from zkbroker.config.admin_tls import PREFIX as ADMIN_PREFIX
from zkbroker.config.admin_tls import AdminTls, admin_tls
from zkbroker.config.broker_options.admin import AdminOptions
from zkbroker.config.broker_options.authorization import AUTHORIZER_KEYS, AuthorizationOptions
from zkbroker.config.broker_options.controller import ControllerOptions
from zkbroker.config.broker_options.groups import GroupOptions
from zkbroker.config.broker_options.identity import IdentityOptions
from zkbroker.config.broker_options.listeners import ListenerOptions
from zkbroker.config.broker_options.logging import LoggingOptions
from zkbroker.config.broker_options.quotas import QuotaOptions
from zkbroker.config.broker_options.replication import ReplicationOptions
from zkbroker.config.broker_options.requests import RequestOptions
from zkbroker.config.broker_options.topics import TopicOptions
from zkbroker.config.broker_options.transactions import TransactionOptions
from zkbroker.config.broker_security import PREFIX, TLS_KEYS, BrokerSecurity
from zkbroker.config.connection_rates import listener_of_rate, listener_rates
from zkbroker.config.ignored_broker_keys import IGNORED, IGNORED_PREFIXES
from zkbroker.config.legacy07 import KEYS as LEGACY07_KEYS
from zkbroker.config.legacy07 import LISTENER, LOG_DIR, Legacy07Config, beside
from zkbroker.config.levels import LEVELS
from zkbroker.config.log import LOG_KEYS, LogConfig, LogManagerConfig
from zkbroker.config.sasl_options import KEYS as SASL_KEYS
from zkbroker.config.schema import (
    Int32,
    from_properties,
    keys,
    logger,
    nearest,
    option,
    quiet,
    validate,
)
from zkbroker.config.tls import TlsSettings
from zkbroker.config.zookeeper_security import IGNORED as ZOOKEEPER_IGNORED
from zkbroker.config.zookeeper_security import ZooKeeperSecurityOptions
from zkbroker.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(
    AdminOptions,
    TransactionOptions,
    GroupOptions,
    ReplicationOptions,
    QuotaOptions,
    RequestOptions,
    LoggingOptions,
    TopicOptions,
    ControllerOptions,
    AuthorizationOptions,
    ListenerOptions,
    ZooKeeperSecurityOptions,
    IdentityOptions,
):
    """Settings of one broker. Sizes in bytes, times in milliseconds."""

    # fmt: off
    metrics_topics: int = option("metrics.topics.max", Int32(0), 1000,
        "Topics with metrics of their own; all others are counted together.")
    metrics_group_offsets: int = option("metrics.group.offsets.max", Int32(0), 10_000,
        "Most committed offsets in a broker's metrics, for the groups that it coordinates: groups "
        "with members come first, then groups by name. 0 shows none.")
    # fmt: on
    log: LogConfig = field(default_factory=LogConfig)
    """Defaults of every topic's log."""
    log_manager: LogManagerConfig = field(default_factory=LogManagerConfig)
    legacy07: Legacy07Config = field(default_factory=Legacy07Config)
    """The listener for clients of Kafka 0.7, and its logs."""

    security: BrokerSecurity = field(default_factory=BrokerSecurity)
    """How the listeners are protected."""
    admin_tls: AdminTls | None = None
    """How the admin page is protected."""

    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The properties that it was built from, as given."""

    IGNORED: ClassVar[Mapping[str, str]] = {**IGNORED, **ZOOKEEPER_IGNORED}

    def __post_init__(self) -> None:
        validate(self)
        if self.broker_id < 0 and not self.broker_id_generation:
            raise ConfigError("broker.id is required while broker.id.generation.enable=false")
        if self.broker_id > self.reserved_broker_max_id and self.broker_id_generation:
            logger.warning(
                "config key=broker.id value=%d lies in the range of generated ids, above "
                "reserved.broker.max.id=%d",
                self.broker_id,
                self.reserved_broker_max_id,
            )
        self._check_follower_times()
        self._check_console()
        self._check_listeners(self.inter_broker_protocol)
        self.zookeeper_security()
        if self.legacy07.listener:
            self._check_legacy07()

    def _check_legacy07(self) -> None:
        own = self.legacy07
        if Path(own.log_dir).resolve() in {
            Path(each).resolve() for each in self.log_manager.log_dirs
        }:
            raise ConfigError(
                f"legacy07.log.dir={own.log_dir} is one of log.dirs: give log.dirs another "
                "directory, 0.7 logs and newer ones cannot share one"
            )
        if own.chroot.strip("/") == self.zookeeper_connect.partition("/")[2].strip("/"):
            raise ConfigError(
                f"legacy07.zookeeper.chroot={own.chroot} is the chroot of zookeeper.connect: give "
                "one of them another, the two registries cannot share one"
            )

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, warn: Callable[[str], None] | None = None
    ) -> "BrokerConfig":
        """Build a broker's configuration, its log's included, from properties.

        Args:
            properties: key → text, as read from `server.properties`.
            warn: receives each warning; the log of `zkbroker.config` by default.

        Raises:
            ConfigError: a value is not allowed, or `zookeeper.connect` is missing.
        """
        report = warn if warn is not None else logger.warning
        own: dict[str, str] = {}
        of_log: dict[str, str] = {}
        for key, value in properties.items():
            prefix = next((known for known in IGNORED_PREFIXES if key.startswith(known)), None)
            if key in LOG_KEYS:
                of_log[key] = value
                if key in LogManagerConfig.IGNORED:
                    report(f"config key={key} has no effect: {LogManagerConfig.IGNORED[key]}")
            elif listener_of_rate(key) is not None:
                continue
            elif key.startswith(_OF_SECURITY):
                if key in TlsSettings.IGNORED:
                    report(f"config key={key} has no effect: {TlsSettings.IGNORED[key]}")
                elif key.startswith("ssl.") and key not in TLS_KEYS:
                    report(f"config key={key} is unknown and ignored{nearest(key, TLS_KEYS)}")
            elif key in SASL_KEYS - _OWN_KEYS:
                pass  # read by the security of the listeners
            elif prefix is not None and key not in IGNORED:
                report(f"config key={key} has no effect: {IGNORED_PREFIXES[prefix]}")
            else:
                own[key] = value
        # Each of the log's two configurations is given the other's keys as well, hence `quiet`.
        legacy07 = Legacy07Config()
        if properties.get(LISTENER, "").strip():
            first = from_properties(LogManagerConfig, of_log, warn=quiet).log_dirs[0]
            legacy07 = Legacy07Config.from_properties(
                {**properties, LOG_DIR: properties.get(LOG_DIR, "").strip() or beside(first)}
            )
        for key in LEGACY07_KEYS & own.keys() - _OWN_KEYS:
            del own[key]
            if not legacy07.listener:
                report(f"config key={key} has no effect without {LISTENER}")
        also_known = LOG_KEYS | LEGACY07_KEYS | SASL_KEYS
        config = from_properties(cls, own, warn=report, also_known=also_known)
        config = replace(
            config,
            log=from_properties(LogConfig, of_log, warn=quiet),
            log_manager=from_properties(LogManagerConfig, of_log, warn=quiet),
            legacy07=legacy07,
            security=BrokerSecurity.of(
                properties, config.endpoints, config.inter_broker, warn=report
            ),
            admin_tls=admin_tls(properties, report),
            given=dict(properties),
        )
        if not config.authorizer_class:
            for key in AUTHORIZER_KEYS & own.keys():
                report(f"config key={key} has no effect without authorizer.class.name")
        listener_rates(properties, [endpoint.name for endpoint in config.endpoints])
        if config.inter_broker_protocol == LEVELS[0] and config.log.pinned_magic != 0:
            raise ConfigError(
                f"inter.broker.protocol.version={LEVELS[0]} needs log.message.format.version="
                f"{LEVELS[0]}: followers of that level copy messages of magic 0 alone"
            )
        return config


def refuse_unknown(properties: Iterable[str]) -> None:
    """Check that a broker knows the settings given by a program, which no warning reaches.

    Raises:
        ConfigError: some are unknown; each is named with the nearest known one.
    """
    known = _OWN_KEYS | LOG_KEYS | LEGACY07_KEYS | TLS_KEYS | SASL_KEYS
    known |= set(BrokerConfig.IGNORED)
    passed = (*IGNORED_PREFIXES, PREFIX, ADMIN_PREFIX, *TlsSettings.IGNORED)
    unknown = [key for key in properties if key not in known and not key.startswith(passed)]
    if unknown:
        raise ConfigError(
            "; ".join(f"{key} is no setting of a broker{nearest(key, known)}" for key in unknown)
        )


_OF_SECURITY = ("ssl.", PREFIX, ADMIN_PREFIX)
_OWN_KEYS = keys(BrokerConfig)
