"""Every key that a broker shows to DescribeConfigs, with its default and the keys beside it.

Invariant: what genuine brokers of 2.1 to 2.3 show is shown here, under the same names: settings
that are acted on with this broker's defaults, the others (`UNUSED`) with those of genuine brokers.
A setting that can be given in several units has its default under one of them, and none under the
others.

Source: the configuration definition and the synonyms of brokers of 2.1, and what 2.2 and 2.3 added.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any

from zkbroker.config.broker import BrokerConfig
from zkbroker.config.broker_security import PREFIX, ServerTlsOptions
from zkbroker.config.legacy07 import Legacy07Config
from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.config.sasl_options import LoginOptions, MechanismOptions
from zkbroker.config.schema import Option, OptionKind, options
from zkbroker.config.secret import Secret, SecretText
from zkbroker.config.tls import TlsSettings

UNUSED: Mapping[str, str | None] = {
    "alter.config.policy.class.name": None,
    "alter.log.dirs.replication.quota.window.num": "11",
    "alter.log.dirs.replication.quota.window.size.seconds": "1",
    "background.threads": "10",
    "client.quota.callback.class": None,
    "connections.max.reauth.ms": "0",
    "control.plane.listener.name": None,
    "create.topic.policy.class.name": None,
    "delegation.token.expiry.check.interval.ms": "3600000",
    "delegation.token.expiry.time.ms": "86400000",
    "delegation.token.master.key": None,
    "delegation.token.max.lifetime.ms": "604800000",
    "delete.records.purgatory.purge.interval.requests": "1",
    "fetch.purgatory.purge.interval.requests": "1000",
    "log.cleaner.max.compaction.lag.ms": "9223372036854775807",
    "log.flush.start.offset.checkpoint.interval.ms": "60000",
    "metric.reporters": "",
    "metrics.num.samples": "2",
    "metrics.recording.level": "INFO",
    "metrics.sample.window.ms": "30000",
    "num.io.threads": "8",
    "num.network.threads": "3",
    "num.recovery.threads.per.data.dir": "1",
    "num.replica.alter.log.dirs.threads": None,
    "offsets.commit.required.acks": "-1",
    "offsets.load.buffer.size": "5242880",
    "password.encoder.cipher.algorithm": "AES/CBC/PKCS5Padding",
    "password.encoder.iterations": "4096",
    "password.encoder.key.length": "128",
    "password.encoder.keyfactory.algorithm": None,
    "password.encoder.old.secret": None,
    "password.encoder.secret": None,
    "principal.builder.class": None,
    "producer.purgatory.purge.interval.requests": "1000",
    "request.timeout.ms": "30000",
    "sasl.client.callback.handler.class": None,
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.jaas.config": None,
    "sasl.kerberos.kinit.cmd": "/usr/bin/kinit",
    "sasl.kerberos.min.time.before.relogin": "60000",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "sasl.kerberos.service.name": None,
    "sasl.kerberos.ticket.renew.jitter": "0.05",
    "sasl.kerberos.ticket.renew.window.factor": "0.8",
    "sasl.login.callback.handler.class": None,
    "sasl.login.class": None,
    "sasl.login.refresh.buffer.seconds": "300",
    "sasl.login.refresh.min.period.seconds": "60",
    "sasl.login.refresh.window.factor": "0.8",
    "sasl.login.refresh.window.jitter": "0.05",
    "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    "sasl.server.callback.handler.class": None,
    "ssl.cipher.suites": "",
    "ssl.client.auth": "none",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.key.password": None,
    "ssl.keymanager.algorithm": "SunX509",
    "ssl.keystore.location": None,
    "ssl.keystore.password": None,
    "ssl.keystore.type": "JKS",
    "ssl.principal.mapping.rules": "DEFAULT",
    "ssl.protocol": "TLS",
    "ssl.provider": None,
    "ssl.secure.random.implementation": None,
    "ssl.trustmanager.algorithm": "PKIX",
    "ssl.truststore.location": None,
    "ssl.truststore.password": None,
    "ssl.truststore.type": "JKS",
    "transaction.state.log.load.buffer.size": "5242880",
    "zookeeper.max.in.flight.requests": "10",
    "zookeeper.sync.time.ms": "2000",
}
"""Keys without effect on this broker, with the defaults of genuine ones."""

PASSWORDS = frozenset(
    {
        "delegation.token.master.key",
        "password.encoder.old.secret",
        "password.encoder.secret",
        "sasl.jaas.config",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
    }
)
"""Keys whose value is not shown."""


def is_secret(key: str) -> bool:
    """Whether the value of a broker's key is not shown.

    Of a listener's settings (`listener.name.`) only those known to be no secrets are shown: an
    unknown key may be the misspelt name of a password.
    """
    if key.startswith(PREFIX):
        parts = key.split(".")
        return not any(".".join(parts[at:]) in _OF_LISTENERS for at in range(3, len(parts)))
    return key in PASSWORDS or (key.startswith(("ssl.", "sasl.")) and key.endswith(_SECRET_ENDS))


_SECRET_ENDS = (".password", ".jaas.config", ".keystore.key", ".secret")

_OF_LISTENERS = frozenset(
    key
    for group in (TlsSettings, ServerTlsOptions, LoginOptions, MechanismOptions)
    for _, each in options(group)
    for key, _ in each.keys
    if not isinstance(each.kind, SecretText)
) | {"max.connection.creation.rate", *TlsSettings.IGNORED}
"""Settings of a listener that are not secret."""

_GROUPS: tuple[tuple[str, ...], ...] = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)
"""Keys of one setting, the one that wins first; the last one has the default."""

_SYNONYMS: Mapping[str, tuple[str, ...]] = {key: group for group in _GROUPS for key in group} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}

_OWN_DEFAULTS: Mapping[str, str | None] = {
    **{key: None for group in _GROUPS for key in group[:-1]},
    "advertised.host.name": None,
    "advertised.listeners": None,
    "advertised.port": None,
    "broker.rack": None,
    "inter.broker.listener.name": None,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,"
    "SASL_SSL:SASL_SSL",
    "listeners": None,
    "log.dirs": None,
    "log.flush.interval.ms": None,
    "security.inter.broker.protocol": "PLAINTEXT",
    "zookeeper.connect": None,
    "zookeeper.connection.timeout.ms": None,
}
"""Shown defaults that differ from the option's: none, or the default is shown by another key."""

_FURTHER_SPELLINGS = frozenset({"log.dir", *(key for group in _GROUPS for key in group[1:])})
"""Keys that are shown besides the first spelling of their option."""


@dataclass(frozen=True, slots=True)
class BrokerKey:
    """A key that DescribeConfigs shows.

    Args:
        name: the key.
        default: as text, None where nothing is set.
        names: all keys of the setting, itself included, the one that wins first.
        kind: what values it takes; None for keys without effect.
    """

    name: str
    default: str | None
    names: tuple[str, ...]
    kind: OptionKind[Any] | None = None

    @property
    def sensitive(self) -> bool:
        """Whether its value is not shown."""
        return is_secret(self.name) or isinstance(self.kind, SecretText)

    def shown(self, text: str) -> str:
        """Return a given value in the form in which it is shown."""
        return text.strip() if self.kind is None else value_text(self.kind.parse(text))


def value_text(value: Any) -> str:
    """Return the value of an option as DescribeConfigs shows it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).replace("e+", "E")
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{number}" for name, number in value.items())
    return str(value)


def _option_default(default: Any, factory: Any, factor: int) -> str | None:
    value = factory() if default is MISSING and factory is not MISSING else default
    if value is MISSING or isinstance(value, Secret):
        return None
    return value_text(value // factor if factor != 1 else value)


def _shown_keys() -> dict[str, BrokerKey]:
    found = {name: BrokerKey(name, default, (name,)) for name, default in UNUSED.items()}
    for config in (
        Legacy07Config,
        LogManagerConfig,
        LogConfig,
        BrokerConfig,
        TlsSettings,
        ServerTlsOptions,
    ):
        for declared, option in options(config):
            for number, (name, factor) in enumerate(option.keys):
                if config is TlsSettings and name not in UNUSED:
                    continue
                if number and name not in _FURTHER_SPELLINGS:
                    continue
                if config is Legacy07Config and not name.startswith("legacy07."):
                    continue
                default = _option_default(declared.default, declared.default_factory, factor)
                if config in (TlsSettings, ServerTlsOptions) and name != "ssl.enabled.protocols":
                    default = UNUSED.get(name, default)
                found[name] = BrokerKey(
                    name,
                    _OWN_DEFAULTS.get(name, default),
                    _SYNONYMS.get(name, (name,)),
                    option.kind,
                )
    return dict(sorted(found.items()))


SHOWN: Mapping[str, BrokerKey] = _shown_keys()
"""Every shown key, sorted by name."""

DEFAULTS: Mapping[str, str] = {
    name: key.default for name, key in SHOWN.items() if key.default is not None
}

_OLD_SPELLINGS: Mapping[str, Option] = {
    key: option
    for config in (LogManagerConfig, LogConfig, BrokerConfig)
    for _, option in options(config)
    for key, _ in option.keys
    if key not in SHOWN
}


def shown_as_given(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the given settings under the names and in the form in which they are shown.

    Args:
        properties: of the broker, of any generation; spellings of older ones become today's. A key
            that no broker knows keeps its name and value.
    """
    found: dict[str, str] = {}
    for key, text in properties.items():
        old = _OLD_SPELLINGS.get(key)
        if old is None:
            found[key] = SHOWN[key].shown(text) if key in SHOWN else text
        elif old.keys[0][0] not in properties:
            name, factor = old.keys[0]
            value = old.kind.parse(text)
            given = dict(old.keys)[key]
            if given != factor and value >= 0:
                value = value * given // factor
            found.setdefault(name, value_text(value))
    return found


BROKER_NAMES: Mapping[str, str] = {
    name: option.keys[0][0]
    for name, attribute in LogConfig.TOPIC_FIELDS.items()
    for declared, option in options(LogConfig)
    if declared.name == attribute
}
"""Topic-level name → the broker's key for the same setting."""
