"""Moves a group between generations: byte positions in views become offsets, and back.

    0.7     /consumers/[group]/offsets/[topic]/[N]-[i]   position in the view i of broker N
    newer   /consumers/[group]/offsets/[topic]/[p]       offset, or with the group's coordinator

Invariant: everything is looked up before anything is written, and the group has no members on
either side. No message is skipped: a position inside a wrapper becomes that of its first message.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from zkbroker.errors import ClientError, StorageError, ZkbrokerError
from zkbroker.log.legacy07.lookup import ViewMap
from zkbroker.log.legacy07.offset_map import map_files
from zkbroker.registry import group_offsets, groups
from zkbroker.registry.legacy07_groups import committed_positions
from zkbroker.types import Partition07, PartitionKey
from zkbroker.zookeeper import ZkSession

_SHOWN = 5


class ConvertedOffset(NamedTuple):
    """A position of a group, in both generations.

    Args:
        topic: name of the topic.
        name: of the partition in 0.7, as text `broker-number`.
        partition: its number for newer clients.
        position: in bytes, in the view.
        offset: of the message there.
    """

    topic: str
    name: Partition07
    partition: int
    position: int
    offset: int


def to_newer(
    session: ZkSession, group: str, directories: Mapping[int, Path]
) -> list[ConvertedOffset]:
    """Look up the offsets for the positions that a group of 0.7 committed.

    Args:
        session: in the registry of 0.7.
        group: its name there.
        directories: `legacy07.log.dir` of each broker, by its id for 0.7.

    Raises:
        ClientError: the group committed nothing, or has members now, or a position cannot be
            converted; each is named.
    """
    check_idle07(session, group)
    committed = committed_positions(session, group)
    if not committed:
        raise ClientError(f"group {group} committed nothing in this 0.7 registry")
    found: list[ConvertedOffset] = []
    problems: list[str] = []
    for (topic, number), position in sorted(committed.items()):
        name = Partition07.from_number(number)
        try:
            view = ViewMap(_view_directory(directories, topic, name))
            found.append(
                ConvertedOffset(topic, name, view.partition, position, view.offset_at(position))
            )
        except (ZkbrokerError, OSError) as error:
            problems.append(f"{topic} {name}: {error}")
    _refuse(problems)
    return found


def to_07(
    committed: Mapping[PartitionKey, int], directories: Mapping[int, Path]
) -> list[ConvertedOffset]:
    """Look up the positions for the offsets that a newer group committed.

    Args:
        committed: offset by topic and partition.
        directories: `legacy07.log.dir` of each broker, by its id for 0.7.

    Raises:
        ClientError: nothing was committed, or a partition has no view in the directories, or its
            offset cannot be converted; each is named.
    """
    if not committed:
        raise ClientError("the group committed nothing")
    views = {
        (topic, view.partition): (name, view)
        for topic, name, view in _all_views(directories, {topic for topic, _ in committed})
    }
    found: list[ConvertedOffset] = []
    problems: list[str] = []
    for (topic, partition), offset in sorted(committed.items()):
        known = views.get((topic, partition))
        if known is None:
            problems.append(
                f"{topic}-{partition}: no view of it is in these directories: name "
                "legacy07.log.dir of the broker that shows it"
            )
            continue
        name, view = known
        try:
            found.append(ConvertedOffset(topic, name, partition, view.position_of(offset), offset))
        except (ZkbrokerError, OSError) as error:
            problems.append(f"{topic}-{partition}: {error}")
    _refuse(problems)
    return found


def write_07(session: ZkSession, group: str, converted: list[ConvertedOffset]) -> None:
    """Commit positions for a group of 0.7.

    Raises:
        ClientError: it has members now.
        RegistryError: ZooKeeper does not answer.
    """
    check_idle07(session, group)
    for each in converted:
        group_offsets.commit_offset(session, group, each.topic, each.name, each.position)


def check_idle07(session: ZkSession, group: str) -> None:
    """Check that a group of 0.7 has no members.

    Raises:
        ClientError: it has some.
    """
    found = groups.members(session, group)
    if found:
        raise ClientError(
            f"group {group} has members in the 0.7 registry, such as {found[0]}: stop them first"
        )


def _view_directory(directories: Mapping[int, Path], topic: str, name: Partition07) -> Path:
    directory = directories.get(name.broker)
    if directory is None:
        raise StorageError(
            f"no directory of broker {name.broker} was given: add --log-dir {name.broker}=DIR, "
            "its legacy07.log.dir"
        )
    path = directory / f"{topic}-{name.number}"
    if not path.is_dir():
        raise StorageError(f"there is no {path}")
    return path


def _all_views(
    directories: Mapping[int, Path], topics: set[str]
) -> Iterator[tuple[str, Partition07, ViewMap]]:
    for broker, directory in directories.items():
        try:
            paths = sorted(directory.iterdir())
        except OSError as error:
            raise ClientError(f"{directory} cannot be read: {error}") from error
        for path in paths:
            topic, _, number = path.name.rpartition("-")
            if topic in topics and number.isdecimal() and map_files(path):
                yield topic, Partition07(broker, int(number)), ViewMap(path)


def _refuse(problems: list[str]) -> None:
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise ClientError("nothing was converted: " + "; ".join(problems[:_SHOWN]) + more)
