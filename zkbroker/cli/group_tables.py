"""Tables of a group that a coordinator keeps: its partitions, members and state.

Invariant: with `genuine` the output is that of kafka-consumer-groups 2.1, with its columns and its
    notes on standard error.
"""

from collections.abc import Sequence

import click

from zkbroker.admin.coordinator_groups import (
    ConsumerGroupDescription,
    MemberDescription,
    describe,
)
from zkbroker.admin.group_lag import locate
from zkbroker.cli.output import print_json, print_table, say
from zkbroker.client import Cluster
from zkbroker.errors import ClientError
from zkbroker.types import PartitionKey

_DEAD, _EMPTY = "Dead", "Empty"
_STABLE = "Stable"
_NONE = "-"


def show(
    cluster: Cluster, group: str, *, members: bool, state: bool, genuine: bool, json: bool
) -> None:
    """Print one of the three tables: partitions, or members, or the state.

    Raises:
        ClientError: there is no such group.
    """
    if members and state:
        raise click.UsageError("give --members or --state, not both")
    described = describe(cluster, group)
    if described.state == _DEAD:
        text = f"there is no group {group}; zkbroker groups list shows all groups"
        raise ClientError(f"Consumer group '{group}' does not exist." if genuine else text)
    if genuine and described.state == _EMPTY:
        say(f"Consumer group '{group}' has no active members.", err=True)
    elif genuine and described.state != _STABLE:
        say(f"Warning: Consumer group '{group}' is rebalancing.", err=True)
    if state:
        _show_state(cluster, described, genuine, json)
    elif members:
        _show_members(described, genuine, json)
    else:
        _show_partitions(cluster, described)


def _show_state(
    cluster: Cluster, described: ConsumerGroupDescription, genuine: bool, json: bool
) -> None:
    address = cluster.brokers().get(described.coordinator)
    where = _NONE if address is None else f"{address.host}:{address.port}"
    count = len(described.members)
    if json:
        print_json(
            {
                "group": described.group,
                "state": described.state,
                "strategy": described.strategy,
                "coordinator": described.coordinator,
                "members": count,
            }
        )
    elif genuine:
        place = f"{where} ({described.coordinator})"
        width = max(25, len(place))
        say()
        say(f"{'COORDINATOR (ID)':<{width}} {'ASSIGNMENT-STRATEGY':<25} {'STATE':<20} #MEMBERS")
        say(f"{place:<{width}} {described.strategy:<25} {described.state:<20} {count}")
    else:
        print_table(
            ["group", "state", "strategy", "coordinator", "address", "members"],
            [
                [
                    described.group,
                    described.state,
                    described.strategy or None,
                    described.coordinator,
                    where,
                    count,
                ]
            ],
            numbers=[3, 5],
        )


def _show_members(described: ConsumerGroupDescription, genuine: bool, json: bool) -> None:
    members = sorted(described.members, key=lambda each: -len(each.partitions))
    if json:
        print_json(
            [
                {
                    "member": each.member_id,
                    "client_id": each.client_id,
                    "host": _host(each),
                    "partitions": [list(key) for key in each.partitions],
                }
                for each in members
            ]
        )
    elif genuine:
        if members:
            rows = [(m.member_id, m.host, m.client_id, str(len(m.partitions))) for m in members]
            _print_aligned(("CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"), rows, (15, 15, 15))
    else:
        print_table(
            ["member", "client id", "host", "partitions", "reads"],
            [
                [
                    each.member_id,
                    each.client_id,
                    _host(each),
                    len(each.partitions),
                    ", ".join(_by_topic(each.partitions)) or None,
                ]
                for each in members
            ],
            numbers=[3],
        )


def _show_partitions(cluster: Cluster, described: ConsumerGroupDescription) -> None:
    positions = locate(cluster, described.offsets, described.owners, ())
    owners = {key: each for each in described.members for key in each.partitions}
    rows: list[tuple[object, ...]] = []
    for key, each in sorted(positions.items(), key=lambda item: (item[0] not in owners, item[0])):
        owner = owners.get(key)
        who = (None,) * 3 if owner is None else (owner.member_id, owner.host, owner.client_id)
        rows.append((*key, each.offset, each.end, each.lag, *who))
    rows += [
        (*(None,) * 5, each.member_id, each.host, each.client_id)
        for each in described.members
        if not each.partitions
    ]
    titles = (
        "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST",
        "CLIENT-ID",
    )  # fmt: skip
    cells = [[_NONE if cell is None else str(cell) for cell in row] for row in rows]
    _print_aligned(titles, cells, (15, 10, 15, 15, 15, 15, 15))


def _print_aligned(
    titles: Sequence[str], rows: Sequence[Sequence[str]], least: Sequence[int]
) -> None:
    """Print an empty line, then columns as wide as their longest cell, except the last."""
    widths = [max([width, *(len(row[at]) for row in rows)]) for at, width in enumerate(least)]
    say()
    for row in (titles, *rows):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        say(" ".join((*cells, *row[len(widths) :])))


def _host(member: MemberDescription) -> str:
    return member.host.removeprefix("/")


def _by_topic(partitions: Sequence[PartitionKey]) -> list[str]:
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        numbers.setdefault(topic, []).append(number)
    return [f"{topic}:{','.join(map(str, each))}" for topic, each in numbers.items()]
