"""Operators' changes to topics, offsets, leaders and replicas; each is first a plan as text.

    plan     everything is checked as far as possible, nothing is written
    confirm  a person types the name of the topic or group
    run      through the functions of `zkbroker.admin`: by the brokers if they are new enough,
             otherwise in ZooKeeper if the console has it

Invariant: an action runs exactly the plan of the same request; brokers check once more.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zkbroker.admin import broker_queries, reassignment
from zkbroker.admin.reassignment_plan import moved_replicas, plan_reassignment
from zkbroker.admin.topic_ways import ByZooKeeper, TopicWay
from zkbroker.admin.topics import TopicDescription
from zkbroker.admin.wire_topics import ByBrokers
from zkbroker.config.log import LogConfig
from zkbroker.console.access import CLIENT_ID, ClusterAccess
from zkbroker.console.collector import Collector
from zkbroker.console.requests import Refused, bad, missing, text_in, topic_of, whole
from zkbroker.errors import ClientError, UnsupportedVersion
from zkbroker.registry.operator_requests import read_requests
from zkbroker.registry.topic_rules import MAX_PARTITIONS, check_new_name
from zkbroker.registry.topics import assignments
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import ZkSession

_MOST_SETTINGS = 100
_MOST_TEXT = 4000
SHOWN = 20
"""Most steps, warnings and names of each kind in a plan."""
_MAX_BROKER = 2**31 - 1
_MAX_RATE = 2**63 - 1

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """The steps of an action, the word that a person types to confirm it, and what does it."""

    steps: Sequence[str]
    confirm: str
    run: Callable[[], object]
    warnings: Sequence[str] = field(default=())


def create(collector: Collector, given: Given) -> ActionPlan:
    """Plan a new topic."""
    name = text_in(given, "name", 1000)
    check_new_name(name, list(collector.seen.topics))
    partitions = whole("partitions", given.get("partitions"), 1, MAX_PARTITIONS)
    replicas = whole("replication", given.get("replication"), 1, 1000)
    live = len(collector.seen.alive)
    if replicas > live:
        raise bad(
            f"replication {replicas} is more than the {live} running brokers: give at most {live}"
        )
    settings = _settings(given.get("settings"))
    wanted = {key: value for key, value in settings.items() if value is not None}
    LogConfig().with_topic_overrides(wanted)

    def run(way: TopicWay) -> None:
        way.create(name, partitions, replicas, None, wanted, rack_aware=True)

    steps = [f"create topic {name}: {_count(partitions, 'partition')}, {replicas} replicas each"]
    steps += [f"set {key} = {value}" for key, value in sorted(wanted.items())]
    warnings = [] if replicas > 1 else ["with one replica, the loss of a broker loses messages"]
    return ActionPlan(steps, name, _by_either_way(collector.access, run), warnings)


def alter(collector: Collector, topic: str, given: Given) -> ActionPlan:
    """Plan more partitions, and changes to the settings of a topic."""
    found = topic_of(collector.seen, topic)
    present = len(found.partitions)
    settings = _settings(given.get("settings"))
    add = {key: value for key, value in settings.items() if value is not None}
    delete = [key for key, value in settings.items() if value is None]
    steps, warnings = [], []
    changes: list[Callable[[TopicWay], object]] = []
    if given.get("partitions") is not None:
        total = whole("partitions", given["partitions"], 1, MAX_PARTITIONS)
        if total <= present:
            raise bad(f"{topic} has {present} partitions: their number can only grow")
        changes.append(lambda way: way.grow(topic, total, None, rack_aware=True))
        steps.append(f"add {_count(total - present, 'partition')} to {topic}: {total} then")
        warnings.append("messages with a key may go to other partitions than before")
    if settings:
        LogConfig().with_topic_overrides(add)
        changes.append(lambda way: way.alter_config(topic, add, delete))
        steps += [f"set {key} = {value}" for key, value in sorted(add.items())]
        steps += [f"set {key} back to the brokers' default" for key in sorted(delete)]
    if not changes:
        raise bad("there is nothing to change: give partitions, or settings")
    run = _by_either_way(collector.access, *changes)
    return ActionPlan(steps, topic, run, [*warnings, *_internal(collector, topic)])


def delete(collector: Collector, topic: str, given: Given) -> ActionPlan:
    """Plan the deletion of a topic."""
    found = topic_of(collector.seen, topic)
    readers = sorted(
        group.name
        for group in collector.seen.groups.values()
        if any(key[0] == topic for key in (*group.offsets, *group.owners))
    )
    warnings = ["its messages cannot be restored"]
    if readers:
        warnings.append(f"groups read it: {_listed(readers)}")
    steps = [f"delete topic {topic} with {_count(len(found.partitions), 'partition')}"]
    run = _by_either_way(collector.access, lambda way: way.delete(topic))
    return ActionPlan(steps, topic, run, [*warnings, *_internal(collector, topic)])


def elect(collector: Collector, topic: str, given: Given) -> ActionPlan:
    """Plan an election of preferred replicas."""
    found = topic_of(collector.seen, topic)
    numbers = _partitions(found, given.get("partitions"))
    keys = [(topic, number) for number in numbers]
    cluster, session = collector.access.cluster, collector.access.session
    moves = [
        each
        for each in found.partitions
        if each.partition in numbers and each.replicas and each.leader != each.replicas[0]
    ]

    def run() -> None:
        try:
            answers = broker_queries.elect_preferred(cluster, keys)
        except UnsupportedVersion:
            reassignment.elect_preferred(_through(session), keys)
            return
        failed = [(key, error) for key, error in sorted(answers.items()) if error is not None]
        if failed:
            (name, number), error = failed[0]
            kept = _count(len(failed), "partition")
            raise ClientError(f"{kept} kept the leader, as {name}-{number}: {error}")

    steps = first_steps(
        f"{topic}-{each.partition}: broker {each.replicas[0]} leads in place of {each.leader}"
        for each in moves
    )
    warnings = [
        f"broker {each.replicas[0]} is not in sync for partition {each.partition}"
        for each in moves
        if each.replicas[0] not in each.isr
    ]
    return ActionPlan(steps or ["preferred replicas lead already"], topic, run, warnings[:SHOWN])


def reassign(collector: Collector, topic: str, given: Given) -> ActionPlan:
    """Plan new replicas for a topic's partitions, copied within `throttle`.

    The limit is that of `zkbroker reassign execute --throttle`; `remove_throttle` ends it.
    """
    found = topic_of(collector.seen, topic)
    throttle = given.get("throttle")
    if throttle is not None:
        throttle = whole("throttle", throttle, 1, _MAX_RATE)
    session = _through(collector.access.session)
    current: dict[PartitionKey, tuple[int, ...]] = {
        (topic, each.partition): each.replicas for each in found.partitions
    }
    live = collector.seen.alive
    racks = {each: collector.seen.brokers[each].rack for each in sorted(live)}
    if given.get("assignment") is not None:
        wanted = _assignment(topic, given["assignment"])
        unknown = sorted(wanted.keys() - current.keys())
        if unknown:
            raise missing(f"{topic} has no partition {unknown[0][1]}")
    else:
        chosen = _brokers(given.get("brokers"))
        away = [each for each in chosen if each not in live]
        if away:
            raise bad(
                f"broker {away[0]} is not running; running are {_listed(map(str, sorted(live)))}"
            )
        wanted = plan_reassignment(current, {each: racks[each] for each in chosen})
    target = {key: replicas for key, replicas in wanted.items() if current[key] != replicas}
    if not target:
        raise Refused(409, "nothing_to_do", "the replicas are in place already")
    copied = moved_replicas(current, target)
    if throttle is not None and not copied:
        raise bad("no replica is copied: leave the limit out")
    size = sum(
        (collector.seen.sizes.get(key) or 0) * len(set(replicas) - set(current[key]))
        for key, replicas in target.items()
    )
    steps = first_steps(
        f"{name}-{number}: {_ids(current[name, number])} -> {_ids(replicas)}"
        for (name, number), replicas in sorted(target.items())
    )
    steps.append(f"{_count(copied, 'replica')} copied, about {size:,} bytes")
    warnings = []
    if any(len(replicas) < len(current[key]) for key, replicas in target.items()):
        warnings.append("some partitions get fewer replicas than they have")
    if throttle is not None:
        steps.append(f"each broker copies {throttle:,} bytes a second at most")
        warnings.append(
            "the limit stays until it is removed here or by zkbroker reassign verify; too low a "
            "limit never catches up with what is written"
        )
    return ActionPlan(
        steps, topic, lambda: reassignment.execute(session, target, throttle=throttle), warnings
    )


def remove_throttle(collector: Collector, topic: str, given: Given) -> ActionPlan:
    """Plan the removal of the last reassignment's limit."""
    topic_of(collector.seen, topic)
    session = _through(collector.access.session)
    if not reassignment.is_throttled(session, topic):
        raise Refused(409, "nothing_to_do", f"copies of {topic} are not limited")
    warnings = []
    if read_requests(session).reassignment:
        warnings.append("replicas are still moving: the rest is copied without a limit")
    return ActionPlan(
        [f"the limits of {topic} and of all brokers are removed"],
        topic,
        lambda: reassignment.remove_throttles(session, {(topic, 0): ()}),
        warnings,
    )


def moving(session: ZkSession | None) -> list[dict[str, Any]]:
    """Return the partitions that a reassignment is moving.

    Raises:
        Refused: the console has no ZooKeeper.
    """
    known = _through(session)
    asked = read_requests(known).reassignment or {}
    current = assignments(known, sorted({topic for topic, _ in asked}))
    return [
        {
            "topic": topic,
            "partition": number,
            "from": list(current.get(topic, {}).get(number, ())),
            "to": list(replicas),
        }
        for (topic, number), replicas in sorted(asked.items())
    ]


def _by_either_way(
    access: ClusterAccess, *changes: Callable[[TopicWay], object]
) -> Callable[[], None]:
    """Return a function that changes a topic by brokers, or in ZooKeeper for old brokers."""
    cluster, session, security = access.cluster, access.session, access.settings.security

    def run() -> None:
        for change in changes:
            try:
                change(ByBrokers(cluster))
            except UnsupportedVersion:
                change(ByZooKeeper(_through(session), security, CLIENT_ID))

    return run


def _through(session: ZkSession | None) -> ZkSession:
    if session is None:
        raise Refused(
            501,
            "needs_zookeeper",
            "brokers of this version need ZooKeeper for this: start the console with -z",
        )
    return session


def _internal(collector: Collector, topic: str) -> list[str]:
    if topic not in collector.seen.internal:
        return []
    return [f"{topic} is the brokers' own: groups or transactions depend on it"]


def _settings(value: object) -> dict[str, str | None]:
    """Return settings of a body: name → text, None to remove one."""
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > _MOST_SETTINGS:
        raise bad(f"settings has to be an object of at most {_MOST_SETTINGS} names")
    found: dict[str, str | None] = {}
    for name, text in value.items():
        shown: object = text
        if isinstance(text, bool):
            shown = str(text).lower()
        elif isinstance(text, int | float):
            shown = str(text)
        if not (shown is None or isinstance(shown, str)) or len(str(shown)) > _MOST_TEXT:
            raise bad(f"setting {str(name)[:100]} has to be a text, a number or null")
        found[str(name)] = shown
    return found


def _partitions(found: TopicDescription, value: object) -> set[int]:
    there = {each.partition for each in found.partitions}
    if value is None or value == []:
        return there
    if not isinstance(value, list):
        raise bad("partitions has to be a list of numbers")
    wanted = {whole("each partition", each, 0, MAX_PARTITIONS) for each in value}
    gone = sorted(wanted - there)
    if gone:
        raise missing(f"{found.topic} has no partition {gone[0]}")
    return wanted


def _assignment(topic: str, value: object) -> dict[PartitionKey, tuple[int, ...]]:
    if not isinstance(value, dict):
        raise bad('assignment has to be an object, as in {"0": [1, 2]}')
    found: dict[PartitionKey, tuple[int, ...]] = {}
    for number, brokers in value.items():
        key = (topic, whole("each partition", number, 0, MAX_PARTITIONS))
        found[key] = tuple(_brokers(brokers))
    return found


def _brokers(value: object) -> list[int]:
    if not isinstance(value, list) or not value:
        raise bad("brokers has to be a list of broker ids")
    found = [whole("each broker", each, 0, _MAX_BROKER) for each in value]
    if len(set(found)) != len(found):
        raise bad("a broker is named twice: each holds one replica of a partition")
    return found


def first_steps(steps: Iterable[str]) -> list[str]:
    """Return the first steps, and how many more there are."""
    known = list(steps)
    more = len(known) - SHOWN
    return [*known[:SHOWN], *([f"and {more} more"] if more > 0 else ())]


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _listed(names: Any) -> str:
    listed = list(names)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
