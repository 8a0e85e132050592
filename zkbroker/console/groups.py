"""Groups of both kinds: those that coordinators keep, and those in ZooKeeper.

Invariant: one reading describes at most `AT_ONCE` groups, those described longest ago; groups are
    listed now and then. A broker that lists a group is its coordinator.
"""

import heapq
from collections import defaultdict
from collections.abc import Mapping

from zkbroker.admin import zk_groups
from zkbroker.client import Cluster
from zkbroker.console.cluster_state import (
    ClusterState,
    GroupKey,
    GroupOffset,
    GroupStorage,
    SeenGroup,
    SeenMember,
)
from zkbroker.console.pace import QuestionPace
from zkbroker.errors import UnsupportedVersion, ZkbrokerError, protocol_error
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.consumer_protocol import decode_assignment, flatten
from zkbroker.protocol.messages import (
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
)
from zkbroker.protocol.messages.groups import DescribedGroup
from zkbroker.protocol.messages.offsets import OffsetFetchRequestTopic
from zkbroker.registry import groups as registry
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import ZkSession

AT_ONCE = 25
_LIST_EVERY_S = 10
_ALL_OFFSETS_SINCE = 2
"""The first version of OffsetFetch in which a group's topics need not be named."""


class Groups:
    """Reads the groups of the brokers in `seen`, and fills it."""

    def __init__(self, seen: ClusterState, runtime: Runtime, every_s: float) -> None:
        self._seen = seen
        self._runtime = runtime
        self._pace = QuestionPace(max(every_s, _LIST_EVERY_S))

    def hurry(self) -> None:
        """List the groups at the next reading."""
        self._pace.hurry()

    def look(self, cluster: Cluster, session: ZkSession | None, now_ms: int) -> None:
        """List the groups if that is due, and describe some."""
        if self._pace.due(now_ms):
            begun_ms = self._runtime.clock_ms()
            self._list(cluster, session)
            self._pace.done(now_ms, self._runtime.clock_ms() - begun_ms)
        known = (
            group
            for group in self._seen.groups.values()
            if session is not None or group.coordinator is not None
        )
        due = heapq.nsmallest(AT_ONCE, known, key=lambda group: group.described_ms)
        of_brokers: defaultdict[int, list[SeenGroup]] = defaultdict(list)
        for group in due:
            if group.kind is GroupStorage.COORDINATOR and group.coordinator is not None:
                of_brokers[group.coordinator].append(group)
            elif session is not None:
                with group.described(now_ms):
                    of_zookeeper(session, group)
        for broker, groups in of_brokers.items():
            try:
                connection = cluster.connection(broker)
                described = describe(connection, [group.name for group in groups])
            except ZkbrokerError as error:
                for group in groups:
                    group.error, group.described_ms = str(error), now_ms
                continue
            for group in groups:
                found = described.get(group.name)
                if found is not None:
                    with group.described(now_ms):
                        of_coordinator(connection, group, found)

    def look_at(
        self, cluster: Cluster, session: ZkSession | None, key: GroupKey
    ) -> SeenGroup | None:
        """Describe one group now; None if it is not known."""
        group = self._seen.groups.get(key)
        if group is None:
            return None
        if group.kind is GroupStorage.ZOOKEEPER and session is not None:
            of_zookeeper(session, group)
        elif group.coordinator is not None:
            connection = cluster.connection(group.coordinator)
            of_coordinator(connection, group, describe(connection, [group.name])[group.name])
        return group

    def _list(self, cluster: Cluster, session: ZkSession | None) -> None:
        seen = self._seen
        found: dict[GroupKey, int | None] = {}
        silent: list[str] = []
        for broker in sorted(cluster.brokers()):
            try:
                answer = cluster.connection(broker).request(ListGroupsRequest())
                if answer.error_code:
                    raise protocol_error(answer.error_code, f"groups of broker {broker}")
            except UnsupportedVersion:
                continue  # older than 0.9: its groups are in ZooKeeper
            except ZkbrokerError as error:
                silent.append(str(error))
                # Groups of a broker that did not answer are kept.
                found |= {
                    key: group.coordinator
                    for key, group in seen.groups.items()
                    if group.coordinator == broker
                }
                continue
            found |= {(GroupStorage.COORDINATOR, each.group_id): broker for each in answer.groups}
        if session is not None:
            found |= {
                (GroupStorage.ZOOKEEPER, name): None for name in registry.list_groups(session)
            }
        else:
            # Groups seen before ZooKeeper went away.
            found |= {key: None for key in seen.groups if key[0] is GroupStorage.ZOOKEEPER}
        seen.note_trouble("groups", silent, "groups cannot be listed")
        groups: dict[GroupKey, SeenGroup] = {}
        for key, coordinator in sorted(
            found.items(), key=lambda each: (each[0][1], each[0][0].value)
        ):
            group = seen.groups.get(key) or SeenGroup(*key)
            group.coordinator = coordinator
            groups[key] = group
        seen.groups = groups


def describe(connection: BrokerConnection, names: list[str]) -> Mapping[str, DescribedGroup]:
    """Ask a coordinator to describe groups."""
    answer = connection.request(DescribeGroupsRequest(groups=names))
    return {each.group_id: each for each in answer.groups}


def of_coordinator(connection: BrokerConnection, group: SeenGroup, found: DescribedGroup) -> None:
    """Fill in a group from its coordinator.

    Raises:
        ProtocolError: it does not answer, or refuses.
    """
    if found.error_code:
        raise protocol_error(found.error_code, f"group {group.name}")
    consumers = found.protocol_type == "consumer"
    members = tuple(
        SeenMember(
            each.member_id,
            each.client_id,
            each.client_host.removeprefix("/"),  # as Java writes addresses
            _assigned(each.assignment) if consumers and each.assignment else (),
        )
        for each in found.members
    )
    owners = {key: member.id for member in members for key in member.owns}
    version = connection.best_version(ApiKey.OFFSET_FETCH)
    topics: list[OffsetFetchRequestTopic] | None = None
    if version < _ALL_OFFSETS_SINCE:
        known: defaultdict[str, list[int]] = defaultdict(list)
        for topic, number in sorted({*owners, *group.offsets}):
            known[topic].append(number)
        topics = [OffsetFetchRequestTopic(name, numbers) for name, numbers in known.items()]
    fetched = connection.request(OffsetFetchRequest(group_id=group.name, topics=topics), version)
    if fetched.error_code:
        raise protocol_error(fetched.error_code, f"offsets of group {group.name}")
    group.state, group.members, group.owners = found.state, members, owners
    group.offsets = {
        (topic.topic, each.partition): GroupOffset(each.offset, each.metadata or None)
        for topic in fetched.topics
        for each in topic.partitions
        if each.offset >= 0 and not each.error_code
    }


def of_zookeeper(session: ZkSession, group: SeenGroup) -> None:
    """Fill in a group from ZooKeeper.

    Raises:
        RegistryError: it does not answer.
    """
    subscriptions = registry.subscriptions(session, group.name)
    owned = zk_groups.owners(session, group.name)
    of_member: defaultdict[str, list[PartitionKey]] = defaultdict(list)
    for key, owner in owned.items():
        # The owner is a thread of a member: its id, and a number.
        of_member[owner.rpartition("-")[0]].append(key)
    offsets = zk_groups.committed(session, group.name)
    topics = {
        name
        for each in subscriptions.values()
        if each is not None and each.pattern == registry.STATIC
        for name in each.streams
    }
    group.members = tuple(
        SeenMember(name, None, _host(group.name, name), tuple(sorted(of_member.get(name, ()))))
        for name in subscriptions
    )
    group.state = "Stable" if subscriptions else "Empty"
    group.owners = {key: owner.rpartition("-")[0] for key, owner in owned.items()}
    group.offsets = {key: GroupOffset(offset) for key, offset in offsets.items()}
    group.topics = tuple(sorted(topics))


def _host(group: str, member: str) -> str | None:
    """Return the host in a member's id, `group_host-time-random`; None for other forms."""
    host = member.removeprefix(f"{group}_").rsplit("-", 2)[0]
    return host if host != member else None


def _assigned(assignment: bytes) -> tuple[PartitionKey, ...]:
    try:
        return tuple(sorted(flatten(decode_assignment(assignment).assigned)))
    except ZkbrokerError:
        return ()  # another client's own form
