"""Views of a collector's state, as JSON: rows and pages.

Invariant: pure functions; an unknown number is None, and a sum with an unknown part is None too,
    unless it has a count of its parts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zkbroker.admin.health import Problem, find_problems, offline_directories
from zkbroker.admin.topics import PartitionDescription, TopicDescription
from zkbroker.console.access import ClusterAccess
from zkbroker.console.cluster_state import BrokerFacts, ClusterState, SeenGroup
from zkbroker.console.sampling import Look
from zkbroker.types import PartitionKey

Row = dict[str, Any]

RANKED = 200
"""Number of topics and groups with series: the busiest, and those with the largest lag."""
_WARNINGS = frozenset({"under_replicated_partitions"})
_NAMED = 3


def row_key(row: Mapping[str, Any]) -> Any:
    """Return the key of a row of topics or groups."""
    return (row["kind"], row["name"]) if "kind" in row else row["name"]


def partition_state(partition: PartitionDescription) -> str:
    """Return `ok`, `under` (replicated) or `offline`."""
    if partition.leader is None or not partition.available:
        return "offline"
    return "under" if partition.under_replicated else "ok"


def topics(seen: ClusterState) -> list[Row]:
    """Return a row for each topic, by name."""
    return [topic_row(seen, topic) for topic in seen.topics.values()]


def topic_row(seen: ClusterState, topic: TopicDescription) -> Row:
    """Return the row of one topic."""
    name = topic.topic
    keys = [(name, each.partition) for each in topic.partitions]
    looks = [seen.looks.get(key) or Look() for key in keys]
    states = [partition_state(each) for each in topic.partitions]
    settings = None if seen.settings is None else seen.settings.get(name)
    counted = seen.generation is None  # otherwise offsets are bytes
    return {
        "name": name,
        "partitions": len(keys),
        "replication": max((len(each.replicas) for each in topic.partitions), default=0),
        "under_replicated": states.count("under"),
        "offline": states.count("offline"),
        "messages": _sum(_held(look) for look in looks) if counted else None,
        "bytes": _sum(seen.sizes.get(key) for key in keys),
        "messages_in_s": _rounded(_known_sum(look.rate for look in looks)) if counted else None,
        "bytes_s": _rounded(seen.growth.get(name)),
        "internal": name in seen.internal,
        "settings_changed": None if settings is None else len(settings),
        "deleting": topic.marked_for_deletion,
    }


def partition_rows(seen: ClusterState, topic: TopicDescription) -> list[Row]:
    """Return a row for each partition of a topic."""
    rows = []
    for each in topic.partitions:
        key = (topic.topic, each.partition)
        look = seen.looks.get(key) or Look()
        epoch = seen.epochs.get(key, -1)
        rows.append(
            {
                "id": each.partition,
                "leader": each.leader if each.available else None,
                "leader_epoch": epoch if epoch >= 0 else None,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "start": look.start,
                "end": look.end,
                "messages_in_s": _rounded(look.rate) if seen.generation is None else None,
                "bytes": seen.sizes.get(key),
                "state": partition_state(each),
            }
        )
    return rows


def groups_of_topic(seen: ClusterState, topic: str) -> list[Row]:
    """Return the groups that read a topic, with their lag in it."""
    found = []
    for group in seen.groups.values():
        if topic in _topics_of(group):
            lag = _known_sum(lag_of(seen, group, key) for key in group.offsets if key[0] == topic)
            found.append({"kind": group.kind.value, "name": group.name, "lag": lag})
    return found


def groups(seen: ClusterState) -> list[Row]:
    """Return a row for each group, by name."""
    return [group_row(seen, group) for group in seen.groups.values()]


def group_row(seen: ClusterState, group: SeenGroup) -> Row:
    """Return the row of one group."""
    described = bool(group.described_ms)
    return {
        "kind": group.kind.value,
        "name": group.name,
        "state": group.state,
        "members": len(group.members) if described else None,
        "topics": _topics_of(group),
        "lag": _known_sum(lag_of(seen, group, key) for key in group.offsets),
        "coordinator": group.coordinator,
        "error": group.error,
    }


def group_page(seen: ClusterState, group: SeenGroup) -> Row:
    """Return one group with its members and offsets."""
    keys = sorted({*group.offsets, *group.owners})
    offsets = []
    for key in keys:
        found = group.offsets.get(key)
        offsets.append(
            {
                "topic": key[0],
                "partition": key[1],
                "offset": None if found is None else found.offset,
                "end": seen.end_of(key),
                "lag": lag_of(seen, group, key),
                "owner": group.owners.get(key),
                "metadata": None if found is None else found.metadata,
            }
        )
    members = [
        {
            "id": each.id,
            "client_id": each.client_id,
            "host": each.host,
            "owns": [{"topic": topic, "partition": number} for topic, number in each.owns],
        }
        for each in group.members
    ]
    # "members" is a count in rows and the members themselves here.
    return {**group_row(seen, group), "members": members, "offsets": offsets}


def lag_of(seen: ClusterState, group: SeenGroup, key: PartitionKey) -> int | None:
    """Return the messages after a commit; None if the commit or the end is unknown."""
    found = group.offsets.get(key)
    return None if found is None else seen.lag(key, found.offset)


def overview(
    seen: ClusterState,
    access: ClusterAccess,
    topic_rows: Sequence[Row],
    time_ms: int,
    *,
    looked: bool = True,
) -> Row:
    """Return the page of the whole cluster; before the first reading it has no problems."""
    settings = access.settings
    known = looked and (seen.alive or not seen.troubles)
    problems = _problems(seen) if known else []
    counts = {each.problem: len(each.partitions) for each in problems}
    zookeeper = None
    if settings.zookeeper is not None:
        servers, slash, chroot = settings.zookeeper.partition("/")
        zookeeper = {
            "servers": servers.split(","),
            "session": seen.zookeeper or "lost",
            "chroot": slash + chroot,
        }
    messages_in = _known_sum(row["messages_in_s"] for row in topic_rows)
    if looked and not topic_rows:
        messages_in = 0.0
    return {
        "time_ms": time_ms,
        "cluster_id": seen.cluster_id,
        "controller": seen.controller,
        "zookeeper": zookeeper,
        "brokers": _brokers(seen),
        "topics": len(topic_rows),
        "partitions": sum(row["partitions"] for row in topic_rows),
        "under_replicated": sum(row["under_replicated"] for row in topic_rows),
        "offline": sum(row["offline"] for row in topic_rows),
        "below_min_isr": (
            counts.get("under_min_isr_partitions", 0) if seen.min_isr or not topic_rows else None
        ),
        "messages_in_s": _rounded(messages_in),
        "bytes_in_s": _rounded(_bytes_in(seen)),
        "bytes_on_disk": (
            _sum(_disk(seen, broker) for broker in seen.alive)
            if seen.generation is None
            else sum(seen.sizes.values())
        ),
        "problems": [*_shown_troubles(seen), *map(_shown_problem, problems)],
    }


def series(
    view: Mapping[str, Any],
    topic_rows: Sequence[Mapping[str, Any]],
    group_rows: Sequence[Mapping[str, Any]],
) -> dict[str, float | None]:
    """Return the numbers of one sample, the most important first."""
    found: dict[str, float | None] = {
        "cluster.messages_in_s": view["messages_in_s"],
        "cluster.bytes_in_s": view["bytes_in_s"],
        "cluster.under_replicated": view["under_replicated"],
        "cluster.offline": view["offline"],
    }
    for broker in view["brokers"]:
        found[f"broker.{broker['id']}.bytes_in_s"] = broker["bytes_in_s"]
        found[f"broker.{broker['id']}.bytes_out_s"] = broker["bytes_out_s"]
    busiest = sorted(topic_rows, key=lambda row: (row["messages_in_s"] or 0, row["messages"] or 0))
    for row in reversed(busiest[-RANKED:]):
        found[f"topic.{row['name']}.messages_in_s"] = row["messages_in_s"]
        found[f"topic.{row['name']}.bytes"] = row["bytes"]
    behind = sorted(group_rows, key=lambda row: row["lag"] or 0)
    for row in reversed(behind[-RANKED:]):
        found[f"group.{row['kind']}.{row['name']}.lag"] = row["lag"]
    return found


def _brokers(seen: ClusterState) -> list[Row]:
    leaders: defaultdict[int, int] = defaultdict(int)
    replicas: defaultdict[int, int] = defaultdict(int)
    behind: defaultdict[int, int] = defaultdict(int)
    rates: defaultdict[int, float] = defaultdict(float)
    for name, topic in seen.topics.items():
        for each in topic.partitions:
            for broker in each.replicas:
                replicas[broker] += 1
                behind[broker] += broker not in each.isr
            if each.leader is not None and each.available:
                leaders[each.leader] += 1
                look = seen.looks.get((name, each.partition))
                rates[each.leader] += (look.rate if look else None) or 0
    rows = []
    for broker in sorted({*seen.brokers, *replicas}):
        known = seen.brokers.get(broker)
        facts = seen.facts.get(broker, BrokerFacts())
        alive = broker in seen.alive
        messages_in = rates[broker] if alive and seen.generation is None else None
        rows.append(
            {
                "id": broker,
                "host": None if known is None else known.host,
                "port": None if known is None else known.port,
                "rack": None if known is None else known.rack,
                "alive": alive,
                "controller": broker == seen.controller,
                "listeners": [
                    each._asdict() for each in (() if known is None else known.listeners)
                ],
                "leaders": leaders[broker],
                "replicas": replicas[broker],
                "under_replicated": behind[broker],
                "disk_bytes": _disk(seen, broker) if alive else None,
                "bytes_in_s": _rounded(facts.bytes_in_s),
                "bytes_out_s": _rounded(facts.bytes_out_s),
                "messages_in_s": _rounded(
                    messages_in if facts.messages_in_s is None else facts.messages_in_s
                ),
                "cpu": None if facts.cpu is None else round(facts.cpu, 4),
                "resident_bytes": facts.resident_bytes,
                "connections": facts.connections,
                "version": facts.version,
                "since_ms": known.since_ms if known is not None and alive else None,
                "directories": _directories(seen, broker) if alive else [],
            }
        )
    return rows


def _directories(seen: ClusterState, broker: int) -> list[Row]:
    return [
        {
            "path": each.path,
            "error": each.error,
            "bytes": None if each.error else sum(replica.size for replica in each.replicas),
        }
        for each in seen.directories.get(broker, ())
    ]


def _disk(seen: ClusterState, broker: int) -> int | None:
    directories = seen.directories.get(broker)
    if directories is None:
        return None
    return sum(replica.size for each in directories for replica in each.replicas)


def _bytes_in(seen: ClusterState) -> float | None:
    """Return the brokers' own rates if all of them give one, otherwise the growth of topics."""
    rates = [seen.facts[each].bytes_in_s for each in seen.alive if each in seen.facts]
    if rates and len(rates) == len(seen.alive) and None not in rates:
        return sum(each for each in rates if each is not None)
    return sum(seen.growth.values()) if seen.growth else None


def _problems(seen: ClusterState) -> list[Problem]:
    if seen.generation is not None:
        return []  # the broker itself is a trouble already
    return [
        *offline_directories(seen.directories),
        *find_problems(list(seen.topics.values()), seen.alive, seen.controller, seen.min_isr),
    ]


def _shown_problem(problem: Problem) -> Row:
    text, link = problem.text, None
    if problem.partitions:
        named = ", ".join(f"{topic}-{number}" for topic, number in problem.partitions[:_NAMED])
        more = len(problem.partitions) - _NAMED
        text += f": {named}{f' and {more} more' if more > 0 else ''}"
        first = {topic for topic, _ in problem.partitions}
        link = f"topics/{problem.partitions[0][0]}" if len(first) == 1 else "topics"
    severity = "warning" if problem.problem in _WARNINGS else "error"
    return {"severity": severity, "text": text, "link": link}


def _shown_troubles(seen: ClusterState) -> Iterable[Row]:
    for what, text in seen.troubles.items():
        severity = "error" if what in ("cluster", "zookeeper") else "warning"
        yield {"severity": severity, "text": text, "link": None}


def _topics_of(group: SeenGroup) -> list[str]:
    return sorted({*group.topics, *(topic for topic, _ in (*group.offsets, *group.owners))})


def _held(look: Look) -> int | None:
    if look.end is None or look.start is None:
        return None
    return max(0, look.end - look.start)


def _sum(numbers: Iterable[int | None]) -> int | None:
    total = 0
    for each in numbers:
        if each is None:
            return None
        total += each
    return total


def _known_sum(numbers: Iterable[float | None]) -> float | None:
    """Return the sum of the known numbers; None if none is known."""
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
