"""Seeded schedules of a whole cluster; see `tests/support/simulated_cluster.py`.

Each rule that keeps replication safe is switched off once, and the schedules must find what comes
of it; `MUTATIONS` lists in which schedules, and how many of them it took.
"""

import gc
import logging
import multiprocessing
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import soak
from tests.support.simulated_aims import AIMS
from tests.support.simulated_cluster import SimCluster
from tests.support.simulated_logs import SimLogs
from tests.support.simulated_session import SimSession
from tests.support.simulated_time import Clock, Process, SimEvent
from tests.support.simulated_zookeeper import SimZooKeeper
from zkbroker.controller import leader_rules
from zkbroker.controller.deletion import TopicDeletion
from zkbroker.controller.partitions import Partitions
from zkbroker.errors import StorageError
from zkbroker.registry import controller_writes, partition_states
from zkbroker.registry.partition_states import IsrUpdate, LostLogs, PartitionStates
from zkbroker.replica import log_reconciler
from zkbroker.replica.fencing import ControllerFence
from zkbroker.replica.followed_partitions import FollowedPartitions
from zkbroker.replica.following import Following
from zkbroker.replica.isr import InSyncReplicas
from zkbroker.replica.leadership import Leadership
from zkbroker.replica.manager import ReplicaManager
from zkbroker.replica.partition import Partition
from zkbroker.replica.remote import RemoteReplica
from zkbroker.replica.role import NO_EPOCH
from zkbroker.replica.truncation import TruncationPoint, cut_by_answer
from zkbroker.zookeeper import SessionState

DEFAULT_SCHEDULES = 60
AIMED_SCHEDULES = 3
FULL_SCHEDULES = 100_000
PARTS = 10
"""In which they may be run one by one: all take some hours of a processor."""
FAILED_ONCE = (
    8_531,
    9_006,
    9_418,
    9_577,
    11_321,
    11_380,
    12_307,
    13_375,
    16_147,
    26_088,
    29_592,
    34_416,
    42_077,
    79_343,
)
MOST_SCHEDULES = 300
REAL_SCHEDULES = 6
REAL_EVERY = 100
"""Of how many schedules one is over real logs."""
FAST = "/dev/shm" if os.path.isdir("/dev/shm") else None


class ErrorsSeen(logging.Handler):
    """Collects faults that a loop logged before it went on."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.texts.append(f"{record.getMessage()} {record.exc_info[1]!r}")


@contextmanager
def errors_seen() -> Iterator[ErrorsSeen]:
    seen = ErrorsSeen()
    logger = logging.getLogger("zkbroker")
    before = logger.handlers, logger.level, logger.propagate
    logger.handlers, logger.propagate = [seen], False
    logger.setLevel(logging.ERROR)
    try:
        yield seen
    finally:
        logger.handlers, _, logger.propagate = before
        logger.setLevel(before[1])


def run_seeds(seeds: range) -> tuple[list[str], float, int]:
    problems: list[str] = []
    longest_s, acks = 0.0, 0
    with errors_seen() as seen:
        for seed in seeds:
            with tempfile.TemporaryDirectory(dir=FAST, prefix="model-") as directory:
                real = seed % REAL_EVERY == REAL_EVERY - 1
                cluster = SimCluster(seed, directory=Path(directory) if real else None)
                found = cluster.run()
            problems += [f"seed {seed} {cluster.aim}: {each}" for each in (*found, *seen.texts)]
            seen.texts.clear()
            longest_s, acks = max(longest_s, cluster.settle_s), acks + cluster.acks
    return problems, longest_s, acks


def seldom_collect() -> None:
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def test_every_schedule_keeps_what_was_acknowledged_and_settles() -> None:
    problems, _, acks = run_seeds(range(DEFAULT_SCHEDULES))
    assert problems == []
    assert acks > 10 * DEFAULT_SCHEDULES


@pytest.mark.parametrize("aim", sorted(AIMS))
def test_what_chance_seldom_puts_together_is_survived_too(aim: str) -> None:
    with errors_seen() as seen:
        for seed in range(AIMED_SCHEDULES):
            assert SimCluster(seed, aim=aim).run() == [], f"seed {seed}"
    assert seen.texts == []


def test_the_real_logs_keep_what_was_acknowledged_too(tmp_path: Path) -> None:
    with errors_seen() as seen:
        for seed in range(REAL_SCHEDULES):
            cluster = SimCluster(seed, directory=tmp_path / f"{seed}")
            assert cluster.run() == [], f"seed {seed} {cluster.aim}"
    assert seen.texts == []


def test_schedules_that_failed_once_settle() -> None:
    # In this order: a replica entered an ISR with records that the leader had replaced and deleted,
    # which its epochs did not show any more; a broker was still away when all was said to be
    # healed; a request that came late, through a connection that was left, made a deleted topic
    # anew; a deposed controller sent the next one's decision with the replicas of before; a
    # follower's fetch was cut off when it was to follow another partition, too (four); an answer to
    # an earlier deletion was taken for one to the next; what a killed broker had not flushed
    # counted as flushed at its next fetch; a replica entered an ISR when its directory had failed;
    # one with a new disk left an ISR, and the leader did not hear of it; the last one in sync,
    # after all power went, was one whose disk was broken.
    problems = [each for seed in FAILED_ONCE for each in run_seeds(range(seed, seed + 1))[0]]
    assert problems == []


@pytest.mark.soak
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_hundred_thousand_schedules_settle(part: int) -> None:
    step, size = 100, FULL_SCHEDULES // PARTS
    wanted = soak.seeds(part * size, size)
    seeds = [wanted[start : start + step] for start in range(0, len(wanted), step)]
    problems: list[str] = []
    longest_s, acks, done = 0.0, 0, 0
    # A schedule leaves few cycles, and what is imported leaves none: a seventh of the time.
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), seldom_collect) as pool:
        for found, seconds, acknowledged in pool.imap_unordered(run_seeds, seeds):
            problems += found
            longest_s, acks, done = max(longest_s, seconds), acks + acknowledged, done + step
            print(
                f"{done} schedules, {acks} acknowledged, {len(problems)} problems; settled within "
                f"{longest_s:.1f} s after the last fault {found}",
                flush=True,
            )
    assert problems == []


def test_what_fires_while_the_connection_is_away_is_not_lost() -> None:
    """As with a genuine client, which sets all of its watches when it loses the connection."""
    clock, process = Clock(), Process("watching")
    server = SimZooKeeper(clock, random.Random(1), 3.0)
    session = SimSession(server, process)
    watch = SimEvent(clock, process)
    clock.spawn(process, session.exists, "/a", watch)
    clock.run(0.5)
    session.break_link(2.5)
    server.create("/a")
    clock.run(5.0)
    assert session.state is SessionState.CONNECTED
    assert watch.is_set()
    clock.close()


# -- what is found when a rule is switched off


def cut_at_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """KIP-101: a follower's high watermark is late, so it cuts what others have, or keeps what
    they have not."""

    def cut(
        epoch: int, end: int, *, high_watermark: int, log_end_offset: int, own_end_of: object
    ) -> TruncationPoint:
        return TruncationPoint(min(high_watermark, log_end_offset), complete=True)

    patch.setattr(log_reconciler, "cut_by_answer", cut)


def never_ask_twice(patch: pytest.MonkeyPatch) -> None:
    """KIP-279: after two changes of the leader in short order one answer is not enough."""

    def cut(*args: Any, **more: Any) -> TruncationPoint:
        return cut_by_answer(*args, **more)._replace(complete=True)

    patch.setattr(log_reconciler, "cut_by_answer", cut)


def ignore_the_answers_epoch(patch: pytest.MonkeyPatch) -> None:
    """KIP-279: where an epoch ends at the leader says nothing about a log without that epoch."""

    def cut(epoch: int, end: int, *, log_end_offset: int, **more: Any) -> TruncationPoint:
        return TruncationPoint(
            min(end, log_end_offset) if end >= 0 else log_end_offset, complete=True
        )

    patch.setattr(log_reconciler, "cut_by_answer", cut)


def fetch_on_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    """A follower says that it has what its disk has not."""
    patch.setattr(Following, "wait_flushed", lambda self: None)


def take_everybody_for_steady(patch: pytest.MonkeyPatch) -> None:
    """A new controller does not see that a broker went, lost messages, and came back."""
    patch.setattr(Partitions, "demote_unseen_restarts", lambda self, keys: {})


def take_amendments_for_decisions(patch: pytest.MonkeyPatch) -> None:
    """A new controller does not see that a broker went and came back before another one left the
    ISR."""
    to_json = partition_states.LeaderAndIsr.to_json
    patch.setattr(
        partition_states.LeaderAndIsr, "to_json", lambda self, amended=False: to_json(self)
    )


def cut_nothing(patch: pytest.MonkeyPatch) -> None:
    """What the leader does not have stays."""

    def cut(*args: Any, log_end_offset: int, **more: Any) -> TruncationPoint:
        return TruncationPoint(log_end_offset, complete=True)

    patch.setattr(log_reconciler, "cut_by_answer", cut)


def obey_every_controller(patch: pytest.MonkeyPatch) -> None:
    """A deposed controller's requests are carried out, and what it decides is stored."""
    transactions = controller_writes.controller_transactions

    def unchecked(session: Any, operations: Any, epoch_version: int) -> Any:
        return transactions(session, operations, -1)

    def read_again(self: Partitions, keys: Any) -> None:
        self.context.states |= self.states.read(list(keys))

    patch.setattr(partition_states, "controller_transactions", unchecked)
    patch.setattr(Partitions, "read_again", read_again)
    patch.setattr(ControllerFence, "check", lambda *args: None)


def obey_every_connection(patch: pytest.MonkeyPatch) -> None:
    """What a controller sent again is carried out once more when it comes late, such as that a
    topic be there which was deleted since."""
    check = ControllerFence.check

    def unchecked(self: ControllerFence, *epochs: int, **ignored: int) -> None:
        check(self, *epochs[:3])

    patch.setattr(ControllerFence, "check", unchecked)


def take_answers_to_earlier_deletions(patch: pytest.MonkeyPatch) -> None:
    """A topic that was made again is called deleted while a broker still has it."""
    answered = TopicDeletion._answered

    def any_answer(self: TopicDeletion, beginnings: int, broker: int, response: Any) -> None:
        answered(self, sys.maxsize, broker, response)

    patch.setattr(TopicDeletion, "_answered", any_answer)


def serve_every_epoch(patch: pytest.MonkeyPatch) -> None:
    """A follower that was left behind under an earlier epoch fetches on, and counts."""
    of_partition = Partition.leadership
    record = Leadership.record_follower_fetch

    def leadership(self: Partition, current_leader_epoch: int = NO_EPOCH) -> Any:
        return of_partition(self)

    def record_follower_fetch(self: Leadership, *fetch: int) -> bool:
        return record(self, *fetch[:4])

    patch.setattr(Partition, "leadership", leadership)
    patch.setattr(Leadership, "record_follower_fetch", record_follower_fetch)


def trust_an_isr_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    """A leader that was replaced, and cannot store anything, goes on alone."""

    def propose(self: InSyncReplicas, members: Any) -> bool:
        if self.proposed is not None or set(members) == set(self.members):
            return False
        self.proposed = tuple(sorted(members))
        self.members = self.proposed
        return True

    def resolve(self: InSyncReplicas, update: IsrUpdate) -> None:
        self.proposed = None
        if update.state is not None and update.still_leader:
            self.zk_version = update.state.zk_version

    patch.setattr(InSyncReplicas, "propose", propose)
    patch.setattr(InSyncReplicas, "resolve", resolve)


def trust_positions_of_before(patch: pytest.MonkeyPatch) -> None:
    """A leader that did not hear of another one's epoch believes what followers had before it."""
    begin_epoch = Leadership.begin_epoch

    def begin(self: Leadership, state: Any) -> None:
        self.leader_epoch = state.leader_epoch - 1
        begin_epoch(self, state)

    patch.setattr(Leadership, "begin_epoch", begin)


def count_only_stored_members(patch: pytest.MonkeyPatch) -> None:
    """A proposed member may be stored, and elected, before its leader knows."""
    patch.setattr(InSyncReplicas, "electable", property(lambda self: frozenset(self.members)))
    patch.setattr(RemoteReplica, "keeps_up", lambda *args: False)


def acknowledge_without_replicas(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is the leader's log end."""

    def advance(self: Leadership, now_ms: int | None = None) -> bool:
        end = self.log.log_end_offset
        advanced, self.high_watermark = end > self.high_watermark, max(end, self.high_watermark)
        return advanced

    patch.setattr(Leadership, "_advance", advance)


def append_under_any_epoch(patch: pytest.MonkeyPatch) -> None:
    """What was fetched under an earlier epoch is appended."""

    def log_of_anybody(self: Following, name: str) -> Any:
        if name != "log":
            raise AttributeError(name)
        return self.replica.log

    patch.setattr(Following, "__getattr__", log_of_anybody)
    patch.setattr(FollowedPartitions, "current", lambda self, followed: True)


def write_without_versions(patch: pytest.MonkeyPatch) -> None:
    """An ISR is stored over whatever was decided meanwhile."""
    update = partition_states.PartitionStates.update_isr

    def update_isr(self: Any, changes: Any) -> Any:
        anyhow = {
            key: partition_states.replace(state, zk_version=-1) for key, state in changes.items()
        }
        return update(self, anyhow)

    patch.setattr(partition_states.PartitionStates, "update_isr", update_isr)


def join_before_the_epoch_start(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-7128: a replica that misses what was acknowledged under an earlier leader, above the
    high watermark that this one has heard of, enters the ISR."""
    patch.setattr(RemoteReplica, "may_join", lambda self, mark, *_: self.log_end_offset >= mark)


def go_on_when_superseded(patch: pytest.MonkeyPatch) -> None:
    """A leader that learns, from a refused change, that the controller has decided something newer
    acknowledges on with the replicas that it knows."""
    resolve = InSyncReplicas.resolve

    def resolved(self: InSyncReplicas, update: IsrUpdate) -> None:
        resolve(self, update)
        self.superseded = False

    patch.setattr(InSyncReplicas, "resolve", resolved)


def delete_without_the_dead(patch: pytest.MonkeyPatch) -> None:
    """A topic goes while a broker that is away has it, and comes back under the same name."""
    patch.setattr(TopicDeletion, "_ready", lambda self, topic: True)


def lead_empty(patch: pytest.MonkeyPatch) -> None:
    """A broker whose directory was lost leads what it was in sync for."""
    patch.setattr(ReplicaManager, "refuse_to_lead", lambda self, *keys: None)


def stay_the_leader(patch: pytest.MonkeyPatch) -> None:
    """A broker whose directory was lost stays in sync where it is the stored leader. When it comes
    back before the others, it becomes the only one in sync, and nobody leads any more."""
    leave_isrs = PartitionStates.leave_isrs

    def left(self: PartitionStates, broker_id: int, keys: Any) -> LostLogs:
        led = {key for key, state in self.read(keys).items() if state.leader == broker_id}
        found = leave_isrs(self, broker_id, [key for key in keys if key not in led])
        return LostLogs(found.others, found.last | led)

    patch.setattr(PartitionStates, "leave_isrs", left)


def cut_any_answer(patch: pytest.MonkeyPatch) -> None:
    """What was deleted is taken for deleted where a directory could not be read."""
    delete = SimLogs.delete

    def deleted(self: SimLogs, key: Any) -> None:
        try:
            delete(self, key)
        except StorageError:
            return

    patch.setattr(SimLogs, "delete", deleted)


def elect_from_the_assignment(patch: pytest.MonkeyPatch) -> None:
    """A replica that is not in sync is elected although unclean election is off."""

    def offline(
        replicas: Any, isr: Any, live: Any, *, unclean: bool
    ) -> leader_rules.Election | None:
        leader = next((broker for broker in replicas if broker in live), None)
        return None if leader is None else leader_rules.Election(leader, (leader,))

    patch.setattr(leader_rules, "offline_partition", offline)


@dataclass(frozen=True)
class Mutation:
    """A rule switched off.

    Args:
        patch: does that.
        schedules: how many it took from seed 0 on until something went wrong.
        aim: what the schedules put together, see `SimCluster`; None: what each seed says.
        unclean: whether replicas that are not in sync are elected.
        loss: whether only what must hold then, too, is looked at.
    """

    patch: Callable[[pytest.MonkeyPatch], None]
    schedules: int
    aim: str | None = None
    unclean: bool = False
    loss: bool = False

    def cluster(self, seed: int) -> SimCluster:
        return SimCluster(seed, unclean=self.unclean, loss=self.loss, aim=self.aim)


MUTATIONS = {
    "truncate to the high watermark": Mutation(
        cut_at_the_high_watermark, 1, aim="late high watermark"
    ),
    "truncate by the end offset alone": Mutation(
        ignore_the_answers_epoch, 1, aim="double failover"
    ),
    "no second question": Mutation(never_ask_twice, 1, aim="double failover"),
    "no second question, unclean": Mutation(never_ask_twice, 23, unclean=True, loss=True),
    "no truncation": Mutation(cut_nothing, 1),
    "no epoch start at ISR growth": Mutation(join_before_the_epoch_start, 1, aim="joining behind"),
    "no controller fence": Mutation(obey_every_controller, 20, aim="zombie controller"),
    "a connection that was left": Mutation(obey_every_connection, 1, aim="late request"),
    "an answer to an earlier deletion": Mutation(
        take_answers_to_earlier_deletions, 2, aim="deleted again"
    ),
    "no leader epoch fence": Mutation(serve_every_epoch, 4, aim="unheard epochs"),
    "positions of before a missed epoch": Mutation(
        trust_positions_of_before, 10, aim="led between"
    ),
    "no leader epoch at a follower": Mutation(append_under_any_epoch, 5),
    "ISR before it is stored": Mutation(trust_an_isr_before_it_is_stored, 3),
    "ISR without version": Mutation(write_without_versions, 3),
    "on when decided anew": Mutation(go_on_when_superseded, 1, aim="decided anew"),
    "proposed members not waited for": Mutation(
        count_only_stored_members, 1, aim="growth unheard of"
    ),
    "high watermark without ISR": Mutation(acknowledge_without_replicas, 1),
    "no flush before the next fetch": Mutation(fetch_on_before_the_flush, 3, aim="torn"),
    "went and came back unseen": Mutation(take_everybody_for_steady, 1, aim="bounce"),
    "came back before an amendment": Mutation(
        take_amendments_for_decisions, 1, aim="beside a new disk"
    ),
    "unclean election": Mutation(lambda patch: None, 12, unclean=True),
    "leader not in sync": Mutation(elect_from_the_assignment, 6),
    "topic deleted without the dead": Mutation(delete_without_the_dead, 2),
    "empty log leads": Mutation(lead_empty, 1, aim="lost disk"),
    "lost log stays the leader": Mutation(stay_the_leader, 1, aim="leader's new disk"),
    "unread directory taken for empty": Mutation(cut_any_answer, 1, aim="unread directory"),
}


def schedules_until_found(mutation: Mutation, most: int) -> tuple[int, list[str]]:
    """Return how many schedules it took to find what a mutation breaks, and what that was."""
    with pytest.MonkeyPatch.context() as patch, errors_seen():
        mutation.patch(patch)
        for seed in range(most):
            problems = mutation.cluster(seed).run()
            if problems:
                return seed + 1, problems
    return most, []


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", MUTATIONS)
def test_the_schedules_find_what_a_rule_prevents(name: str) -> None:
    mutation = MUTATIONS[name]
    found, problems = schedules_until_found(mutation, MOST_SCHEDULES)
    print(name, found, problems[:1])
    assert problems, f"once it took {mutation.schedules} schedules"


def test_after_unclean_elections_replicas_agree_again() -> None:
    """What was acknowledged may be gone then; replicas that differ for ever may not be."""
    with errors_seen() as seen:
        for seed in range(DEFAULT_SCHEDULES // 2):
            assert SimCluster(seed, unclean=True, loss=True).run() == [], f"seed {seed}"
    assert seen.texts == []
