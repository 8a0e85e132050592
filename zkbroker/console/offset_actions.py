"""Resets of a group's offsets by an operator: planned, confirmed, and committed for idle groups.

Invariant: no offset outside a log is committed; a group with members is refused, since they would
    overwrite it.
"""

from typing import Any

from zkbroker.admin import coordinator_groups, zk_groups
from zkbroker.admin.reset_offsets import ResetTarget, Way, plan_reset
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.console.actions import SHOWN, ActionPlan, Given, first_steps
from zkbroker.console.cluster_state import GroupStorage
from zkbroker.console.collector import Collector
from zkbroker.console.requests import Refused, bad, missing, text_in, topic_of, whole
from zkbroker.console.start_positions import Begin, Start, parse_start
from zkbroker.types import PartitionKey

_MAX_PARTITION = 2**31 - 1


def reset(collector: Collector, kind: GroupStorage, group: str, given: Given) -> ActionPlan:
    """Plan a group's new offsets.

    Raises:
        Refused: the request is invalid.
        ZkbrokerError: the group has members, or the cluster does not answer.
    """
    cluster, session = collector.access.cluster, collector.access.session
    found = collector.describe_group((kind, group))
    if found is None:
        raise missing(f"there is no group {group[:249]} of this kind")
    target = _target(parse_start(text_in(given, "to", 100)))
    committed = {key: each.offset for key, each in found.offsets.items()}
    keys = _keys(collector, given, committed)
    if kind is GroupStorage.ZOOKEEPER:
        if session is None:
            raise Refused(501, "needs_zookeeper", "start the console with -z for this group")
        zk_groups.check_idle(session, group)
    else:
        coordinator_groups.check_idle(cluster, group)
    plan = plan_reset(cluster, target, keys, committed)

    def run() -> None:
        if session is not None and kind is GroupStorage.ZOOKEEPER:
            zk_groups.set_offsets(session, group, plan.offsets)
        else:
            coordinator_groups.set_offsets(cluster, group, plan.offsets)

    changed = sorted(key for key in plan.offsets if plan.offsets[key] != committed.get(key))
    steps = first_steps(
        f"{topic}-{number}: {_shown(committed.get((topic, number)))} -> "
        f"{plan.offsets[topic, number]}"
        for topic, number in changed
    )
    warnings = [
        f"{topic}-{number}: offset {wanted} lies outside the log, "
        f"{plan.offsets[topic, number]} is taken"
        for (topic, number), wanted in sorted(plan.moved.items())[:SHOWN]
    ]
    forward = sum(max(0, plan.offsets[key] - committed[key]) for key in changed if key in committed)
    if forward:
        warnings.append(f"the group will not read {forward:,} messages that it has not read yet")
    return ActionPlan(steps or ["the group is there already"], group, run, warnings)


def _keys(
    collector: Collector, given: Given, committed: dict[PartitionKey, int]
) -> list[PartitionKey]:
    topic: Any = given.get("topic")
    if topic is None:
        if not committed:
            raise bad("the group has committed nothing: name a topic")
        return sorted(key for key in committed if key in collector.seen.looks)
    topic = text_in(given, "topic")
    numbers = [each.partition for each in topic_of(collector.seen, topic).partitions]
    if given.get("partition") is not None:
        number = whole("partition", given["partition"], 0, _MAX_PARTITION)
        if number not in numbers:
            raise missing(f"{topic} has no partition {number}")
        numbers = [number]
    return [(topic, number) for number in numbers]


def _target(start: Start) -> ResetTarget:
    if start.begin is Begin.EARLIEST:
        return ResetTarget(Way.TIME, EARLIEST_TIME)
    if start.begin is Begin.LATEST:
        return ResetTarget(Way.TIME, LATEST_TIME)
    if start.begin is Begin.TIME:
        return ResetTarget(Way.TIME, start.value)
    if start.begin is Begin.OFFSET:
        return ResetTarget(Way.OFFSET, start.value)
    return ResetTarget(Way.SHIFT, start.value if start.begin is Begin.ON else -start.value)


def _shown(offset: int | None) -> str:
    return "none" if offset is None else str(offset)
