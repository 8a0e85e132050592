"""Consumer groups kept in ZooKeeper, as the genuine tools of 0.8 see them.

Export and import use the form of ExportZkOffsets and ImportZkOffsets, one line an offset:

    /consumers/counters/offsets/visits/0:286894308

Invariant: an import of an exported file restores its offsets, all or none: every line is parsed
    before the first one is written.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zkbroker.admin.group_lag import GroupPosition
from zkbroker.errors import ClientError, ConfigError
from zkbroker.registry import group_offsets, groups, paths, topics
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.errors import NoNode, NotEmpty

_LINE = re.compile(r"^/consumers/([^/]+)/offsets/([^/]+)/(\d+):(\d+)$")


class Filter(Protocol):
    """Which topics a member takes."""

    def matches(self, topic: str) -> bool:
        """Whether it takes a topic."""


MakeFilter = Callable[[str, str], Filter]


@dataclass(frozen=True, slots=True)
class Ownership:
    """The findings of VerifyConsumerRebalance in a group.

    Args:
        group: its name.
        members: consumer ids registered now.
        unowned: partitions of subscribed topics without an owner.
        gone: partition → owner, if the owner is not registered.
    """

    group: str
    members: tuple[str, ...]
    unowned: tuple[PartitionKey, ...] = ()
    gone: Mapping[PartitionKey, str] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether every partition is owned by a live member."""
        return not self.unowned and not self.gone


def export_offsets(session: ZkSession, names: Sequence[str] = ()) -> Iterator[str]:
    """Yield the committed offsets of groups, or of all of them, one line each.

    Raises:
        ClientError: there is no group of such a name.
    """
    known = groups.list_groups(session)
    for group in names:
        if group not in known:
            raise ClientError(f"there is no group {group} in ZooKeeper")
    for group in names or known:
        for (topic, partition), offset in committed(session, group).items():
            yield f"{paths.offset(group, topic, partition)}:{offset}"


def import_offsets(session: ZkSession, lines: Iterable[str]) -> int:
    """Write offsets that were exported.

    Returns:
        How many.

    Raises:
        ConfigError: a line has another form; nothing was written.
        ClientError: a group has members now, whose own commits would overwrite them.
    """
    offsets: dict[str, dict[PartitionKey, int]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        found = _LINE.match(line.strip())
        if found is None:
            raise ConfigError(
                f"line {number} {line.strip()!r} is not an offset: give "
                "/consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET"
            )
        group, topic, partition, offset = found.groups()
        offsets.setdefault(group, {})[topic, int(partition)] = int(offset)
    for group in offsets:
        check_idle(session, group)
    for group, of_group in offsets.items():
        write(session, group, of_group)
    return sum(map(len, offsets.values()))


def set_offsets(session: ZkSession, group: str, offsets: Mapping[PartitionKey, int]) -> None:
    """Set the offsets of a group that has no members now.

    Raises:
        ClientError: it has some.
    """
    check_idle(session, group)
    write(session, group, offsets)


def write(session: ZkSession, group: str, offsets: Mapping[PartitionKey, int]) -> None:
    """Write offsets unconditionally, as the genuine tools do."""
    for (topic, partition), offset in offsets.items():
        group_offsets.commit_offset(session, group, topic, partition, offset)


def committed(session: ZkSession, group: str) -> dict[PartitionKey, int]:
    """Return the committed offsets of a group, by topic and partition in order."""
    keys = [
        (topic, partition)
        for topic in group_offsets.committed_topics(session, group)
        for partition in group_offsets.committed_partitions(session, group, topic)
    ]
    return {
        key: offset for key, (offset, _) in group_offsets.read_offsets(session, group, keys).items()
    }


def owners(session: ZkSession, group: str) -> dict[PartitionKey, str]:
    """Return the owner (`consumer id-thread`) of each owned partition of a group."""
    return {
        (topic, partition): owner
        for topic in groups.owned_topics(session, group)
        for partition, owner in groups.owners(session, group, topic).items()
    }


def verify(session: ZkSession, group: str, make_filter: MakeFilter) -> Ownership:
    """Find partitions without an owner, and owners that are gone.

    It checks the topics of live members, and every existing owner node. A topic to which no member
    subscribes any more needs no owner.

    Args:
        session: a started session.
        group: its name.
        make_filter: makes a filter of topics from the pattern and the expression that a member has
            registered.

    Raises:
        ClientError: there is no such group.
    """
    if group not in groups.list_groups(session):
        raise ClientError(f"there is no group {group} in ZooKeeper")
    members = groups.subscriptions(session, group)
    owned = owners(session, group)
    taken = taken_topics(session, members, make_filter)
    unowned = [
        (topic, partition)
        for topic, assignment in topics.assignments(session, sorted(taken)).items()
        for partition in sorted(assignment)
        if (topic, partition) not in owned
    ]
    gone = {key: owner for key, owner in owned.items() if owner.rpartition("-")[0] not in members}
    return Ownership(group, tuple(members), tuple(unowned), gone)


def taken_topics(
    session: ZkSession,
    members: Mapping[str, groups.StreamSubscription | None],
    make_filter: MakeFilter,
) -> set[str]:
    """Return the topics of live members; see `verify` for the arguments."""
    taken: set[str] = set()
    for subscription in members.values():
        if subscription is None:
            continue
        if subscription.pattern == groups.STATIC:
            taken |= subscription.streams.keys()
        else:
            for expression in subscription.streams:
                chosen = make_filter(subscription.pattern, expression)
                taken |= {name for name in topics.list_topics(session) if chosen.matches(name)}
    return taken


def delete(session: ZkSession, group: str) -> None:
    """Delete a group: its members' nodes, its owners' and its offsets.

    Raises:
        ClientError: it has members, or gets one meanwhile.
    """
    check_memberless(session, group)
    path = f"{paths.CONSUMERS}/{group}"
    try:
        # ZooKeeper refuses if a member came after the check.
        session.delete(paths.consumer_ids(group), missing_ok=True)
        for name in session.children(path):
            if name != "ids":
                session.delete(f"{path}/{name}", recursive=True)
        session.delete(path)
    except NoNode:
        return
    except NotEmpty:
        check_memberless(session, group)
        raise ClientError(f"members keep joining group {group}: stop them first") from None


def check_memberless(session: ZkSession, group: str) -> None:
    """Check that a group may be deleted.

    Raises:
        ClientError: it has members.
    """
    present = groups.members(session, group)
    if present:
        raise ClientError(f"group {group} has members: stop {present[0]} first")


def checker_lines(group: str, positions: Mapping[PartitionKey, GroupPosition]) -> Iterator[str]:
    """Yield the table of ConsumerOffsetChecker; a partition without a log end has no broker."""
    form = "%-15s %-30s %-3s %-15s %-15s %-15s %s"
    yield form % ("Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner")
    for (topic, partition), each in sorted(positions.items()):
        if each.end is None:
            yield f"No broker for partition {topic} - {partition}"
            continue
        known = -1 if each.offset is None else each.offset
        lag = "unknown" if each.lag is None else each.lag
        yield form % (group, topic, partition, known, each.end, lag, each.owner or "none")


def check_idle(session: ZkSession, group: str) -> None:
    """Check that a group has no members.

    Raises:
        ClientError: it has some.
    """
    members = groups.members(session, group)
    if members:
        raise ClientError(
            f"group {group} has {len(members)} members now, which would overwrite it: stop "
            f"{members[0]}{' and the others' if len(members) > 1 else ''} first"
        )
