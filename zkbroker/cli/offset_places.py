"""The storages of groups' offsets, and the times and partitions in a command line."""

from typing import TYPE_CHECKING

from zkbroker.cli.output import say
from zkbroker.config.durations import parse_instant_ms
from zkbroker.errors import ConfigError

if TYPE_CHECKING:
    from zkbroker.client import Cluster
    from zkbroker.zookeeper.session import ZkSession

_NAMED_TIMES = {"latest": -1, "earliest": -2}


def keepers_of(cluster: "Cluster", session: "ZkSession | None", group: str) -> tuple[str, ...]:
    """Return the storages of a group's offsets; for a new group, the one to use."""
    from zkbroker.admin import coordinator_groups
    from zkbroker.registry.groups import list_groups

    keepers: list[str] = []
    if session is not None and group in list_groups(session):
        keepers.append("zookeeper")
    if group in coordinator_groups.list_groups(cluster):
        keepers.append("coordinator")
    if not keepers:
        keepers.append("coordinator" if session is None else "zookeeper")
        say(f"group {group} is new: its offsets are kept by {keepers[0]}", err=True)
    return tuple(keepers)


def parse_time(text: str) -> int:
    """Turn `latest`, `earliest`, -1, -2, milliseconds or a date into the time in a request.

    Raises:
        ConfigError: it is none of these.
    """
    if text in _NAMED_TIMES:
        return _NAMED_TIMES[text]
    if text in map(str, _NAMED_TIMES.values()):
        return int(text)
    try:
        return parse_instant_ms(text)
    except ConfigError as error:
        raise ConfigError(f"{error}, or latest or earliest") from None


def chosen_partitions(cluster: "Cluster", topic: str, text: str | None) -> list[int]:
    """Return the partitions named in a list; all of the topic without a list.

    Raises:
        ConfigError: one of them does not exist.
    """
    known = [info.partition for info in cluster.partitions(topic)]
    if not text:
        return known
    try:
        wanted = [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"partitions {text!r} are not allowed: give numbers, as in 0,1") from None
    for partition in wanted:
        if partition not in known:
            raise ConfigError(
                f"topic {topic} has no partition {partition}; it has 0 to {known[-1]}"
            )
    return wanted
