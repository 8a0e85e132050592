"""How clients log in on listeners: mechanisms, and the JAAS lines with users and logins.

    listener.name.<listener>.<mechanism>.<key>    counts before
    listener.name.<listener>.<key>                counts before
    <key>                                         of every listener (but not sasl.jaas.config)

    listener.name.<listener>.<mechanism>.sasl.jaas.config = MODULE required name="value" ... ;
    a JAAS file: section <listener>.KafkaServer, or else KafkaServer; it is named by
    java.security.auth.login.config, as a setting here or as -D... in KAFKA_OPTS

Names of listeners and mechanisms stand in lower case in these keys, as in genuine Kafka.

Invariant: a listener with logins has a mechanism, and each of its mechanisms can accept a user;
otherwise the broker does not start, and the error names the line to write.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from zkbroker.config.jaas import JaasLine, load_jaas_file, parse_jaas_line
from zkbroker.config.java_options import java_properties
from zkbroker.config.sasl_options import (
    OAUTHBEARER,
    PLAIN,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    LoginOptions,
    MechanismOptions,
)
from zkbroker.config.schema import from_properties, options
from zkbroker.config.zookeeper_security import JAAS_FILE
from zkbroker.errors import ConfigError

logger = logging.getLogger(__name__)

ENABLED = "sasl.enabled.mechanisms"
JAAS = "sasl.jaas.config"
HANDLER = "sasl.server.callback.handler.class"
JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
INTER_BROKER = "sasl.mechanism.inter.broker.protocol"

GSSAPI = "GSSAPI"
_PACKAGE = "org.apache.kafka.common.security"
MODULES: Mapping[str, str] = {
    PLAIN: f"{_PACKAGE}.plain.PlainLoginModule",
    SCRAM_SHA_256: f"{_PACKAGE}.scram.ScramLoginModule",
    SCRAM_SHA_512: f"{_PACKAGE}.scram.ScramLoginModule",
    OAUTHBEARER: f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}
"""Mechanism → its login module."""

G = TypeVar("G", LoginOptions, MechanismOptions)

_USER = "user_"
_KERBEROS = (
    "GSSAPI is Kerberos, which is not supported: use SCRAM-SHA-512, or OAUTHBEARER with tokens "
    "of your identity provider"
)


@dataclass(frozen=True, slots=True)
class ListenerMechanism:
    """One mechanism of one listener."""

    name: str
    line: JaasLine
    options: MechanismOptions

    @property
    def users(self) -> dict[str, str]:
        """The users of PLAIN: name → password."""
        return {
            option.removeprefix(_USER): value
            for option, value in self.line.options.items()
            if option.startswith(_USER)
        }


@dataclass(frozen=True, slots=True)
class ListenerSasl:
    """The logins of one listener.

    Args:
        listener: its name.
        mechanisms: the enabled ones, in the order in which clients see them.
    """

    listener: str
    mechanisms: tuple[ListenerMechanism, ...]

    def mechanism(self, name: str) -> ListenerMechanism | None:
        """Return a mechanism by its name, None where it is not enabled."""
        return next((each for each in self.mechanisms if each.name == name), None)


def listener_sasl(
    listener: str,
    properties: Mapping[str, str],
    *,
    environment: Mapping[str, str] = os.environ,
    warn: Callable[[str], object] = logger.warning,
) -> ListenerSasl:
    """Read the logins of a listener whose protocol is SASL_PLAINTEXT or SASL_SSL.

    Raises:
        ConfigError: no client could log in, or the login is not what was meant; names the line to
        write.
    """
    login = login_options(listener, properties)
    names = _enabled(listener, login, properties, warn)
    sections = _sections(listener, login.jaas_file, environment)
    mechanisms = [_mechanism(listener, name, properties, sections) for name in names]
    return ListenerSasl(listener, tuple(mechanisms))


def login_options(listener: str, properties: Mapping[str, str]) -> LoginOptions:
    """Read the login settings of a listener.

    Raises:
        ConfigError: a value is not allowed.
    """
    return _nearest(LoginOptions, properties, ("", f"listener.name.{listener.lower()}."))


def inter_broker_mechanism(sasl: ListenerSasl, properties: Mapping[str, str]) -> ListenerMechanism:
    """Return the mechanism by which brokers log in to each other.

    Args:
        sasl: the logins of the listener that brokers use.
        properties: all properties of the broker.

    Raises:
        ConfigError: it is not enabled there, or its line holds no login.
    """
    name = login_options(sasl.listener, properties).inter_broker.upper()
    if name == GSSAPI:
        given = f"{INTER_BROKER}={GSSAPI}" + (
            "" if INTER_BROKER in properties else " (the default)"
        )
        raise ConfigError(f"{given}: {_KERBEROS}; set {INTER_BROKER}={sasl.mechanisms[0].name}")
    found = sasl.mechanism(name)
    if found is None:
        enabled = ",".join(each.name for each in sasl.mechanisms)
        raise ConfigError(
            f"{INTER_BROKER}={name} is not enabled on the listener {sasl.listener}, which brokers "
            f"use: set listener.name.{sasl.listener.lower()}.{ENABLED}={enabled},{name}, or "
            f"{INTER_BROKER}={sasl.mechanisms[0].name}"
        )
    missing = [
        option
        for option in ("username", "password")
        if name != OAUTHBEARER and not found.line.options.get(option)
    ]
    if missing:
        raise ConfigError(
            f"brokers log in by {name} among themselves: add {' and '.join(missing)} to "
            f"{_key(sasl.listener, name, JAAS)}, as in "
            f'{MODULES[name]} required username="broker" password="..." ...;'
        )
    return found


def _enabled(
    listener: str,
    login: LoginOptions,
    properties: Mapping[str, str],
    warn: Callable[[str], object],
) -> list[str]:
    own = f"listener.name.{listener.lower()}.{ENABLED}"
    key = own if own in properties else ENABLED
    given = [name.upper() for name in login.enabled]
    names = list(dict.fromkeys(name for name in given if name != GSSAPI))
    for name in names:
        if name not in MODULES:
            raise ConfigError(
                f"{key} names {name}, which is not a supported mechanism: give some of "
                f"{', '.join(MODULES)}"
            )
    if names and GSSAPI in given:
        warn(f"config key={key} names {GSSAPI}, which is refused to clients: {_KERBEROS}")
    if not names:
        shown = f"{key}={','.join(given)}" + ("" if key in properties else " (the default)")
        why = _KERBEROS if GSSAPI in given else "it names no mechanism"
        raise ConfigError(
            f"no client could log in on the listener {listener}: {shown}: {why}; set "
            f"{ENABLED}=SCRAM-SHA-512"
        )
    return names


def _sections(
    listener: str, path: str, environment: Mapping[str, str]
) -> tuple[str, Sequence[JaasLine]]:
    """Return the name of the JAAS file, and the lines of its section for a listener."""
    path = path or java_properties(environment).get(JAAS_FILE, "")
    if not path:
        return "", ()
    sections = load_jaas_file(path)
    for name in (f"{listener.lower()}.KafkaServer", "KafkaServer"):
        if name in sections:
            return path, sections[name]
    return path, ()


def _mechanism(
    listener: str,
    name: str,
    properties: Mapping[str, str],
    sections: tuple[str, Sequence[JaasLine]],
) -> ListenerMechanism:
    key = _key(listener, name, JAAS)
    module = MODULES[name]
    example = _example(name)
    path, lines = sections
    if key in properties:
        line = parse_jaas_line(properties[key], key)
        if line.kind != module.rpartition(".")[2]:
            raise ConfigError(
                f"{key} is for another mechanism: its module is {line.module}; write {example}"
            )
    else:
        fitting = [each for each in lines if each.kind == module.rpartition(".")[2]]
        if not fitting:
            where = f", and {path} has no such line for this listener" if path else ""
            raise ConfigError(
                f"the listener {listener} enables {name} without its JAAS line{where}: set "
                f"{key}={example}"
            )
        key, line = path, fitting[0]
    prefixes = ("", f"listener.name.{listener.lower()}.", _key(listener, name, ""))
    found = ListenerMechanism(name, line, _nearest(MechanismOptions, properties, prefixes))
    if name == PLAIN and not found.users and not found.options.handler:
        raise ConfigError(
            f"{key} names no user, so no client could log in by PLAIN: write {example}"
        )
    if name == OAUTHBEARER and not (
        found.options.handler or found.options.jwks_url or accepts_unsecured(line)
    ):
        raise ConfigError(
            f"nothing says which tokens the listener {listener} accepts: set {JWKS_URL} (https: or "
            f"file:), or {HANDLER}=package.module:function, or, for tests alone, add "
            f'unsecuredValidatorPrincipalClaimName="sub" to {key}'
        )
    return found


def accepts_unsecured(line: JaasLine) -> bool:
    """Whether a line allows unsigned tokens, by the options of genuine brokers."""
    return any(option.startswith("unsecured") for option in line.options)


def _nearest(group: type[G], properties: Mapping[str, str], prefixes: Sequence[str]) -> G:
    """Read a group of options; the last of the prefixes under which an option is given wins."""
    found: dict[str, str] = {}
    for _, each in options(group):
        for key, _ in each.keys:
            for prefix in prefixes:
                if prefix + key in properties:
                    found[key] = properties[prefix + key]
    return from_properties(group, found)


def _key(listener: str, mechanism: str, key: str) -> str:
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{key}"


def _example(mechanism: str) -> str:
    options = {
        PLAIN: ' username="broker" password="..." user_broker="..." user_alice="..."',
        OAUTHBEARER: "",
    }.get(mechanism, ' username="broker" password="..."')
    return f"{MODULES[mechanism]} required{options};"
