"""`zkbroker groups`: list, describe, verify and delete consumer groups of both kinds."""

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import cluster_options, open_cluster, open_session, zookeeper_option
from zkbroker.cli.output import json_option, print_json, print_table, say
from zkbroker.errors import ClientError, ProtocolError
from zkbroker.types import PartitionKey

if TYPE_CHECKING:
    from zkbroker.admin.group_lag import GroupPosition
    from zkbroker.client import Cluster


@click.group(
    "groups",
    epilog="\b\nExamples:\n"
    "  zkbroker groups list -z 127.0.0.1:2181\n"
    "  zkbroker groups describe counters -z 127.0.0.1:2181\n"
    "  zkbroker groups verify counters -z 127.0.0.1:2181",
)
def command() -> None:
    """List, describe, verify and delete consumer groups.

    Groups of the high-level consumer are kept in ZooKeeper: give -z. Those of Kafka 0.9 and later
    are kept by brokers: give -b or -z. With -z both kinds are shown.
    """


@command.command("list", epilog="\b\nExample:\n  zkbroker groups list -z 127.0.0.1:2181")
@cluster_options
@click.option("--names-of", type=click.Choice(["zookeeper", "coordinator"]), hidden=True)
@json_option
def list_command(
    bootstrap: str | None, zookeeper: str | None, names_of: str | None, as_json: bool
) -> None:
    """List groups and where they are kept."""
    from zkbroker.admin import coordinator_groups
    from zkbroker.registry.groups import list_groups, members

    found: list[tuple[str, str, int | None]] = []
    if zookeeper is not None:
        with open_session(zookeeper) as session:
            found += [
                (group, "zookeeper", len(members(session, group))) for group in list_groups(session)
            ]
    with open_cluster(bootstrap, zookeeper) as cluster:
        found += [(group, "coordinator", None) for group in coordinator_groups.list_groups(cluster)]
    if names_of is not None:
        for name, kept, _ in found:
            if kept == names_of:
                say(name)
    elif as_json:
        print_json([{"group": g, "kept": kept, "members": count} for g, kept, count in found])
    else:
        print_table(["group", "kept by", "members"], found, numbers=[2])


@command.command(
    "describe",
    epilog="\b\nExamples:\n"
    "  zkbroker groups describe counters -z 127.0.0.1:2181\n"
    "  zkbroker groups describe counters -b 127.0.0.1:9092 --members",
)
@click.argument("group")
@cluster_options
@click.option("-t", "--topic", "topics", multiple=True, help="Only this topic; repeatable.")
@click.option("--broker-info", is_flag=True, help="List the brokers that lead its partitions.")
@click.option("--table-only", is_flag=True, hidden=True)
@click.option("--members", is_flag=True, help="Its members: clients, hosts, assigned partitions.")
@click.option("--state", is_flag=True, help="Its state, strategy and coordinator.")
@click.option("--genuine-text", is_flag=True, hidden=True)
@json_option
def describe_command(
    group: str,
    bootstrap: str | None,
    zookeeper: str | None,
    topics: tuple[str, ...],
    broker_info: bool,
    table_only: bool,
    members: bool,
    state: bool,
    genuine_text: bool,
    as_json: bool,
) -> None:
    """Show a group's offsets, lag and owners, or its members.

    The table is that of the genuine ConsumerOffsetChecker, with a line for the sum. Partitions
    without a commit, whose start depends on auto.offset.reset, are counted apart. --members and
    --state are for groups that a coordinator keeps.
    """
    if members or state or genuine_text:
        from zkbroker.cli.group_tables import show

        with open_cluster(bootstrap, zookeeper) as cluster:
            show(cluster, group, members=members, state=state, genuine=genuine_text, json=as_json)
        return
    from zkbroker.admin.group_lag import sum_lag
    from zkbroker.admin.zk_groups import checker_lines

    with open_cluster(bootstrap, zookeeper) as cluster:
        old = None if zookeeper is None else _in_zookeeper(zookeeper, cluster, group)
        new = _in_coordinator(cluster, group)
        positions = dict(old or {})
        for key, place in (new or {}).items():
            # If both keep a group, the coordinator's commit is the later one.
            if key not in positions or place.offset is not None:
                positions[key] = place
        brokers = cluster.brokers()
        leaders = {key: cluster.leader(*key) for key in positions}
    if old is None and new is None:
        raise ClientError(
            f"there is no group {group}, or this client may not describe it; zkbroker groups list "
            "shows all groups"
        )
    if topics:
        unread = sorted(set(topics) - {topic for topic, _ in positions})
        if unread:
            raise ClientError(f"group {group} neither reads nor has read {', '.join(unread)}")
        positions = {key: value for key, value in positions.items() if key[0] in topics}
    if as_json:
        print_json(
            [
                {
                    "topic": topic,
                    "partition": partition,
                    "offset": each.offset,
                    "log_end_offset": each.end,
                    "lag": each.lag,
                    "uncommitted": each.uncommitted,
                    "owner": each.owner,
                }
                for (topic, partition), each in sorted(positions.items())
            ]
        )
        return
    for line in checker_lines(group, positions):
        say(line)
    if not table_only:
        total = sum_lag(positions.values())
        say(
            f"group {group}: lag {total.lag:,} in {total.partitions} "
            f"partition{'' if total.partitions == 1 else 's'}"
            + (f"; not counted: {total.not_counted}" if total.not_counted else "")
        )
    if broker_info:
        say("BROKER INFO")
        asked = {leaders[key] for key in positions}
        for number in sorted(number for number in brokers if number in asked):
            say(f"{number} -> {brokers[number].host}:{brokers[number].port}")


@command.command("verify", epilog="\b\nExample:\n  zkbroker groups verify counters")
@click.argument("groups", nargs=-1)
@zookeeper_option
def verify_command(groups: tuple[str, ...], zookeeper: str | None) -> None:
    """Find partitions without a live owner.

    Checks the named ZooKeeper groups, or all.

    Exit status 1 when a group has not settled.
    """
    from zkbroker.admin.zk_groups import verify
    from zkbroker.consumer.streams.filters import make_filter
    from zkbroker.registry.groups import list_groups

    settled = True
    with open_session(zookeeper) as session:
        for group in groups or list_groups(session):
            found = verify(session, group, make_filter)
            settled = settled and found.settled
            for topic, partition in found.unowned:
                say(f"group {group}: no owner for partition {topic}-{partition}")
            for (topic, partition), owner in found.gone.items():
                say(f"group {group}: the owner {owner} of {topic}-{partition} is not a member")
            if not found.members:
                say(f"group {group}: it has no members")
            elif found.settled:
                say(f"group {group}: every partition is owned by a live member")
    if not settled:
        sys.exit(1)


@command.command(
    "delete", epilog="\b\nExample:\n  zkbroker groups delete counters -z 127.0.0.1:2181"
)
@click.argument("groups", nargs=-1, required=True)
@cluster_options
@click.option("--genuine-text", is_flag=True, hidden=True)
def delete_command(
    groups: tuple[str, ...], bootstrap: str | None, zookeeper: str | None, genuine_text: bool
) -> None:
    """Delete groups without members.

    Their offsets go too; a group that ZooKeeper and a coordinator keep is deleted from both.
    """
    from zkbroker.admin import zk_groups
    from zkbroker.registry.groups import list_groups

    with ExitStack() as stack:
        cluster = stack.enter_context(open_cluster(bootstrap, zookeeper))
        session = None if zookeeper is None else stack.enter_context(open_session(zookeeper))
        for group in groups:
            kept = session is not None and group in list_groups(session)
            if session is not None and kept:
                # Both are checked before either is changed.
                zk_groups.check_memberless(session, group)
            deleted = _delete_from_coordinator(cluster, group)
            if session is not None and kept:
                zk_groups.delete(session, group)
            elif not deleted:
                raise ClientError(f"there is no group {group}")
            if not genuine_text:
                say(f"deleted group {group}")
    if genuine_text:
        names = ", ".join(f"'{group}'" for group in groups)
        say(f"Deletion of requested consumer groups ({names}) was successful.")


def _delete_from_coordinator(cluster: "Cluster", group: str) -> bool:
    """Delete a group that its coordinator keeps; False where it keeps none of that name."""
    from zkbroker.admin import coordinator_groups
    from zkbroker.errors import ErrorCode

    try:
        coordinator_groups.delete(cluster, group)
    except ProtocolError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return False
    return True


def _in_zookeeper(
    zookeeper: str, cluster: "Cluster", group: str
) -> dict[PartitionKey, "GroupPosition"] | None:
    from zkbroker.admin.group_lag import locate
    from zkbroker.admin.zk_groups import committed, owners, taken_topics
    from zkbroker.consumer.streams.filters import make_filter
    from zkbroker.registry.groups import list_groups, subscriptions

    with open_session(zookeeper) as session:
        if group not in list_groups(session):
            return None
        offsets, owned = committed(session, group), owners(session, group)
        topics = taken_topics(session, subscriptions(session, group), make_filter)
    return locate(cluster, offsets, owned, topics)


def _in_coordinator(cluster: "Cluster", group: str) -> dict[PartitionKey, "GroupPosition"] | None:
    from zkbroker.admin.coordinator_groups import describe, list_groups
    from zkbroker.admin.group_lag import locate

    if group not in list_groups(cluster):
        return None
    described = describe(cluster, group)
    return locate(cluster, described.offsets, described.owners, ())
