"""Who leads a partition, and with which replicas in sync: one pure function for each cause.

    cause                 leader                                     ISR
    new                   first live replica                         the live replicas
    offline               first replica that is live and in the ISR  the live part of the ISR
    offline, unclean on   first live replica                         only it
    reassignment          first new replica, live and in the ISR     the same
    preferred             first replica, if live and in the ISR      the same
    controlled shutdown   first replica in the ISR that stays        the ISR without those leaving
    a replica is lost     the same, none if it was the leader        without it; the last one stays
    broker restarted      the same, else first of the ISR that       without the restarted, unless
                          stayed                                     no other lives

Invariant: without `unclean`, a leader always comes from the ISR, so that it has every acknowledged
message. "First" is in the order of the assignment, the preferred replica first.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from zkbroker.registry.partition_states import NO_LEADER


@dataclass(frozen=True, slots=True)
class Election:
    """A decision that is not stored yet.

    Args:
        leader: broker id, -1 for none.
        isr: the replicas in sync.
        unclean: the leader was not in sync: acknowledged messages may be lost.
    """

    leader: int
    isr: tuple[int, ...]
    unclean: bool = False


def new_partition(replicas: Sequence[int], live: Collection[int]) -> Election | None:
    """A partition that has no log yet; None while none of its replicas lives."""
    isr = tuple(broker for broker in replicas if broker in live)
    return Election(isr[0], isr) if isr else None


def offline_partition(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int], *, unclean: bool
) -> Election | None:
    """A partition whose leader is gone; None when no replica may lead it."""
    in_sync = tuple(broker for broker in isr if broker in live)
    leader = next((broker for broker in replicas if broker in in_sync), None)
    if leader is not None:
        return Election(leader, in_sync)
    if unclean:
        leader = next((broker for broker in replicas if broker in live), None)
        if leader is not None:
            return Election(leader, (leader,), unclean=True)
    return None


def reassigned(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int]
) -> Election | None:
    """A partition whose leader is not among its new replicas; None when none of them may lead."""
    leader = next((b for b in replicas if b in live and b in isr), None)
    return None if leader is None else Election(leader, tuple(isr))


def preferred(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int]
) -> Election | None:
    """The first replica becomes leader again; None when it may not."""
    first = replicas[0] if replicas else NO_LEADER
    return Election(first, tuple(isr)) if first in live and first in isr else None


def controlled_shutdown(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int], leaving: Collection[int]
) -> Election | None:
    """The leader is about to stop; None when no other replica may lead."""
    staying = tuple(broker for broker in isr if broker not in leaving)
    leader = next((b for b in replicas if b in staying and b in live), None)
    return None if leader is None else Election(leader, staying)


def without_replicas(leader: int, isr: Sequence[int], lost: Collection[int]) -> Election | None:
    """Replicas are gone; None when that changes nothing.

    Members that are lost all at once stay: only they have every acknowledged message.
    """
    left = tuple(broker for broker in isr if broker not in lost) or tuple(isr)
    after = NO_LEADER if leader in lost else leader
    if (after, left) == (leader, tuple(isr)):
        return None
    return Election(after, left)


def without_restarted(
    restarted: Collection[int],
    replicas: Sequence[int],
    before: Election,
    live: Collection[int],
) -> Election | None:
    """Brokers restarted; None when no other replica stayed, and the leader is gone."""
    isr = tuple(broker for broker in before.isr if broker not in restarted)
    leader = before.leader
    if leader not in isr or leader not in live:
        leader = next(
            (broker for broker in replicas if broker in isr and broker in live), NO_LEADER
        )
    if leader != NO_LEADER:
        return Election(leader, isr)
    return before if before.leader in live else None
