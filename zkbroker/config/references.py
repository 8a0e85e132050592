"""References in property files to values in another file or in the environment.

    ssl.key.password=${file:/etc/zkbroker/secrets.properties:key}
    sasl.jaas.config=... username="a" password="${env:BROKER_PASSWORD}";

The first is the form of Kafka's `FileConfigProvider`; it needs no `config.providers`. A reference
may be a part of a value; its replacement is not searched for references.

Invariant: a reference that leads nowhere is refused, never taken as plain text. No message shows
the value of a reference.
"""

import logging
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from zkbroker.errors import ConfigError

logger = logging.getLogger(__name__)

_REFERENCE = re.compile(r"\$\{(file|env):([^}]*)\}")


def resolve(
    properties: Mapping[str, str],
    where: str,
    read: Callable[[str], Mapping[str, str]],
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return properties with their references replaced.

    Args:
        properties: key → text.
        where: the file that they come from, for messages.
        read: reads a property file as it is.
        environment: the variables.

    Raises:
        ConfigError: a file cannot be read, or it or the environment lacks the name.
    """
    files: dict[str, Mapping[str, str]] = {}

    def looked_up(key: str, kind: str, name: str) -> str:
        text = f"{key}=${{{kind}:{name}}} of {where}"
        if kind == "env":
            if name not in environment:
                raise ConfigError(f"{text}: the environment has no variable {name}: set it")
            return environment[name]
        path, colon, entry = name.rpartition(":")
        if not (path and colon and entry):
            raise ConfigError(f"{text} is not ${{file:PATH:KEY}}")
        if path not in files:
            _check_rights(path, text)
            files[path] = read(path)
        if entry not in files[path]:
            raise ConfigError(f"{text}: {path} has no key {entry}: add it there")
        return files[path][entry]

    def replaced(key: str, value: str) -> str:
        return _REFERENCE.sub(lambda found: looked_up(key, found[1], found[2]), value)

    return {key: replaced(key, value) for key, value in properties.items()}


def _check_rights(path: str, text: str) -> None:
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        raise ConfigError(f"{text}: {error.strerror or error}") from None
    if mode & stat.S_IROTH:
        logger.warning("secrets can be read by every user path=%s: chmod 0600 %s", path, path)
