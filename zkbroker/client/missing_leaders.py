"""Partitions without a leader: the reason, and one warning for each that stays without.

    no leader ──for `WARN_AFTER_S`──▶ warned ──leader──▶ forgotten

Invariant: there is one warning for a partition until it has a leader again, and none for an
election that takes its usual time.
"""

import logging
from collections.abc import Iterable, Mapping

from zkbroker.client.view import BrokerAddress, PartitionInfo, View
from zkbroker.errors import ProtocolError
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

WARN_AFTER_S = 1.5
"""How long a partition has no leader before the warning."""
_NAMED = 3


def explain(info: PartitionInfo, brokers: Mapping[int, BrokerAddress]) -> str:
    """Return the text for a partition without a leader: missing brokers, and which one to start.

    Args:
        info: the partition; its in-sync replicas may be unknown.
        brokers: those that are registered.
    """
    found = f"{info.topic}-{info.partition} has no leader"
    if not info.replicas:
        return found
    found += f": its replicas are on {_brokers(info.replicas)}"
    if info.isr:
        found += f", in sync {_ids(info.isr)}"
    away = [each for each in info.replicas if each not in brokers]
    if not away:
        return f"{found}; all of these are registered, and the controller has not chosen one yet"
    found += f"; not registered: {_ids(away)}"
    wanted = [each for each in away if each in info.isr]
    if wanted and len(wanted) == len(info.isr):
        return f"{found}. Start {'one of ' if len(wanted) > 1 else ''}{_brokers(wanted)}"
    if info.isr:
        return f"{found}; the controller has not chosen another one yet"
    return f"{found}. Start what is missing"


def _brokers(ids: Iterable[int]) -> str:
    listed = sorted(ids)
    return f"broker{'s' if len(listed) > 1 else ''} {_ids(listed)}"


def _ids(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))


class MissingLeaders:
    """Watches views for partitions without a leader; one task uses it."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock_ms = runtime.clock_ms
        self._since: dict[PartitionKey, float] = {}
        self._warned: set[PartitionKey] = set()

    def complete(self, view: View, before: View) -> View:
        """Return a view with the in-sync replicas that were known before their leader failed.

        Brokers leave the ISR out of their answers while there is no leader.
        """
        known: dict[str, tuple[PartitionInfo, ...]] = {}
        for topic, partitions in view.topics.items():
            older = before.topics.get(topic, ())
            if isinstance(partitions, ProtocolError) or isinstance(older, ProtocolError):
                continue
            if any(each.leader is None and not each.isr for each in partitions):
                isr = {each.partition: each.isr for each in older}
                known[topic] = tuple(
                    each
                    if each.leader is not None or each.isr
                    else each._replace(isr=isr.get(each.partition, ()))
                    for each in partitions
                )
        return View(view.brokers, {**view.topics, **known}) if known else view

    def note(self, view: View) -> None:
        """Warn of partitions that have had no leader for long."""
        now = self._clock_ms() / 1000
        away = {
            (topic, each.partition): each
            for topic, partitions in view.topics.items()
            if not isinstance(partitions, ProtocolError)
            for each in partitions
            if each.leader is None
        }
        self._since = {key: self._since.get(key, now) for key in away}
        self._warned &= away.keys()
        due = [
            key
            for key, since in self._since.items()
            if key not in self._warned and now - since >= WARN_AFTER_S
        ]
        if due:
            self._warned.update(due)
            more = f"; and {len(due) - _NAMED} more partitions" if len(due) > _NAMED else ""
            texts = "; ".join(explain(away[key], view.brokers) for key in sorted(due)[:_NAMED])
            logger.warning("%s%s", texts, more)
