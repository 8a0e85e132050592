"""Several brokers on one host: how many, on which disks, and in which rack.

    per-core    one for each core of this process: a broker is one event loop
    per-disk    one for each given directory N           that many; they take turns on the given
    directories

Invariant: brokers of one host have the same rack, that host, so that the replicas of a partition
    are on different hosts. If other brokers of the cluster have no rack, these have none either,
    because racks count only if every broker has one.
"""

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from zkbroker.errors import ConfigError
from zkbroker.registry.brokers import BrokerInfo

PER_CORE = "per-core"
PER_DISK = "per-disk"
MAX_BROKERS = 100
RACK = "broker.rack"


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def broker_count(asked: str, disks: Sequence[Path], available: int | None = None) -> int:
    """Return the number of brokers.

    Args:
        asked: a number, `per-core` or `per-disk`.
        disks: the directories that were given, one of each disk.
        available: cores; those of this process by default.

    Raises:
        ConfigError: it is none of these, or not from 1 to 100.
    """
    if asked == PER_CORE:
        return min(MAX_BROKERS, cores() if available is None else available)
    if asked == PER_DISK:
        if not disks:
            raise ConfigError("--brokers per-disk needs --disk DIRECTORY, once for each disk")
        return broker_count(str(len(disks)), disks)
    if not asked.isdecimal() or not 1 <= int(asked) <= MAX_BROKERS:
        raise ConfigError(
            f"--brokers {asked}: give a number from 1 to {MAX_BROKERS}, {PER_CORE} or {PER_DISK}"
        )
    return int(asked)


def log_directory(index: int, broker_id: int, disks: Sequence[Path]) -> dict[str, str]:
    """Return the property that puts a broker on its disk; empty if no disks were given.

    Args:
        index: 0 for the first broker of this host.
        broker_id: its id.
        disks: one directory of each disk.
    """
    if not disks:
        return {}
    return {"log.dirs": str((disks[index % len(disks)] / f"broker-{broker_id}").absolute())}


def rack_of_host(
    properties: Mapping[str, str],
    others: Collection[BrokerInfo],
    *,
    several: bool,
    host: str | None = None,
) -> str | None:
    """Return the rack of this host's brokers; None for no rack of their own.

    Args:
        properties: given for them; a rack in them wins.
        others: the brokers that are registered in the cluster.
        several: whether there are several brokers on one host.
        host: this one's name.
    """
    if RACK in properties or any(each.rack is None for each in others):
        return None
    if not several and not others:
        return None
    return socket.gethostname() if host is None else host
