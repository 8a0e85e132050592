"""The Java options that give genuine brokers and tools their logins and TLS for ZooKeeper.

    KAFKA_OPTS="-Djava.security.auth.login.config=/etc/kafka/jaas.conf -Dzookeeper.sasl.client=true"

Scripts that start brokers set this variable; a broker or a tool that replaces the genuine one
finds its login there, too.

Invariant: an option counts only where the property files do not set the same thing.
"""

import os
import shlex
from collections.abc import Mapping

from zkbroker.errors import ConfigError

VARIABLE = "KAFKA_OPTS"

_STORE = "zookeeper.ssl.keystore."
_TRUST = "zookeeper.ssl.truststore."
PROPERTIES: Mapping[str, str] = {
    "java.security.auth.login.config": "java.security.auth.login.config",
    "zookeeper.sasl.client": "zookeeper.sasl.client",
    "zookeeper.sasl.clientconfig": "zookeeper.sasl.clientconfig",
    "zookeeper.client.secure": "zookeeper.ssl.client.enable",
    "zookeeper.ssl.keyStore.location": f"{_STORE}location",
    "zookeeper.ssl.keyStore.password": f"{_STORE}password",
    "zookeeper.ssl.keyStore.type": f"{_STORE}type",
    "zookeeper.ssl.trustStore.location": f"{_TRUST}location",
    "zookeeper.ssl.trustStore.password": f"{_TRUST}password",
    "zookeeper.ssl.trustStore.type": f"{_TRUST}type",
}
"""Java option → property."""


def java_properties(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what `KAFKA_OPTS` sets, as properties; other options of Java are left out.

    Raises:
        ConfigError: a quote in it is not closed.
    """
    try:
        words = shlex.split(environment.get(VARIABLE, ""))
    except ValueError as error:
        raise ConfigError(f"{VARIABLE} cannot be read: {error}") from None
    found: dict[str, str] = {}
    for word in words:
        name, separator, value = word.removeprefix("-D").partition("=")
        if word.startswith("-D") and separator and name in PROPERTIES:
            found[PROPERTIES[name]] = value.removeprefix("=")
    return found
