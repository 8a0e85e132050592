"""Settings as rows with values and sources, never with a secret.

Invariant: the value of a setting that is sensitive, by a broker's mark or by its name, is never
    shown.
"""

import re
from collections.abc import Iterable
from typing import Any

from zkbroker.protocol.messages.configs import ConfigEntry, ConfigSource

_SECRET = re.compile(r"password|secret|jaas|credential|token|private|keystore\.key", re.IGNORECASE)
_LOCATION = re.compile(r"\.(location|file|path|type|url)$")

_SOURCES: dict[int, str] = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "broker, at run time",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "all brokers, at run time",
    ConfigSource.STATIC_BROKER: "broker's file",
    ConfigSource.DEFAULT: "default",
}


def is_secret(name: str, *, sensitive: bool = False) -> bool:
    """Whether the value of a setting is hidden. Args: sensitive as the broker says."""
    return sensitive or (bool(_SECRET.search(name)) and not _LOCATION.search(name))


def setting_rows(entries: Iterable[ConfigEntry]) -> list[dict[str, Any]]:
    """Return a row for each setting, by name."""
    rows = []
    for entry in sorted(entries, key=lambda entry: entry.name):
        hidden = is_secret(entry.name, sensitive=bool(entry.is_sensitive))
        if entry.source == ConfigSource.UNKNOWN:
            # Brokers before 1.1 give no source.
            text, default = ("default" if entry.is_default else "set"), bool(entry.is_default)
        else:
            text = _SOURCES.get(entry.source, f"source {entry.source}")
            default = entry.source == ConfigSource.DEFAULT
        rows.append(
            {
                "name": entry.name,
                "value": None if hidden else entry.value,
                "source": text,
                "default": default,
                "read_only": bool(entry.read_only),
                "sensitive": hidden,
            }
        )
    return rows
