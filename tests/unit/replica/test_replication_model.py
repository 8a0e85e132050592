"""Seeded schedules of a whole cluster; see `tests/support/simulated_cluster.py`.

Each mutation in `MUTATIONS` disables one rule of safe replication, and the schedules must find the
broken result.
"""

import gc
import multiprocessing
import os
import random
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import soak
from tests.support.logged_errors import logged_errors
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
from zkbroker.replica.log_opening import LogOpening
from zkbroker.replica.partition import Partition
from zkbroker.replica.remote import RemoteReplica
from zkbroker.replica.role import NO_EPOCH
from zkbroker.replica.truncation import TruncationPoint, cut_by_answer
from zkbroker.zookeeper import SessionState

DEFAULT_SCHEDULES = 40
AIMED_SCHEDULES = 2
FULL_SCHEDULES = 100_000
PARTS = 10
"""The parts of the soak test, which takes some hours of a processor in all."""
FIXED_BUGS = {
    8_531: "a replica joined an ISR with records that its leader had replaced and then deleted",
    9_006: "the simulation took a broker for healed that had not yet restarted",
    9_418: "a late request through an abandoned connection created a deleted topic again",
    9_577: "a deposed controller sent its successor's state with an outdated replica list",
    11_321: "a follower's running fetch was aborted when it had to follow one more partition",
    11_380: "as 11_321",
    12_307: "as 11_321",
    13_375: "as 11_321",
    16_147: "the response to an earlier deletion counted for a later one",
    26_088: "unflushed records of a killed broker counted as flushed at its next fetch",
    29_592: "a replica joined an ISR after its directory had failed",
    34_416: "a broker with a new disk left an ISR, and the leader was not notified",
    42_077: "after a power cut of all brokers the last replica in sync had a broken disk",
    79_343: "a broker's exit from an ISR hid from the new controller that the leader had restarted",
}
MUTATION_SCHEDULES = 300
REAL_SCHEDULES = 4
REAL_EVERY = 100
"""One of so many schedules runs on real logs."""
FAST = "/dev/shm" if os.path.isdir("/dev/shm") else None


# Replicas also log expected errors, such as failed directories, without an exception.
logged_exceptions = partial(logged_errors, "zkbroker", exceptions_only=True)


def run_seeds(seeds: range) -> tuple[list[str], float, int]:
    """Return the problems, the longest time to settle (s), and the number of acknowledgements."""
    problems: list[str] = []
    longest_s, acks = 0.0, 0
    with logged_exceptions() as errors:
        for seed in seeds:
            with tempfile.TemporaryDirectory(dir=FAST, prefix="model-") as directory:
                real = seed % REAL_EVERY == REAL_EVERY - 1
                cluster = SimCluster(seed, directory=Path(directory) if real else None)
                found = cluster.run()
            problems += [f"seed {seed} {cluster.aim}: {each}" for each in (*found, *errors)]
            errors.clear()
            longest_s, acks = max(longest_s, cluster.settle_s), acks + cluster.acks
    return problems, longest_s, acks


def collect_garbage_rarely() -> None:
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def test_schedules_keep_acknowledged_records_and_settle() -> None:
    problems, _, acks = run_seeds(range(DEFAULT_SCHEDULES))
    assert problems == []
    assert acks > 10 * DEFAULT_SCHEDULES


@pytest.mark.parametrize("aim", sorted(AIMS))
def test_schedules_of_rare_situations_keep_acknowledged_records(aim: str) -> None:
    with logged_exceptions() as errors:
        for seed in range(AIMED_SCHEDULES):
            assert SimCluster(seed, aim=aim).run() == [], f"seed {seed}"
    assert errors == []


def test_schedules_on_real_logs_keep_acknowledged_records(tmp_path: Path) -> None:
    with logged_exceptions() as errors:
        for seed in range(REAL_SCHEDULES):
            cluster = SimCluster(seed, directory=tmp_path / f"{seed}")
            assert cluster.run() == [], f"seed {seed} {cluster.aim}"
    assert errors == []


def test_schedules_that_found_bugs_pass() -> None:
    problems = [each for seed in FIXED_BUGS for each in run_seeds(range(seed, seed + 1))[0]]
    assert problems == []


@pytest.mark.soak
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("part", range(PARTS))
def test_hundred_thousand_schedules_settle(part: int) -> None:
    step, size = 100, FULL_SCHEDULES // PARTS
    wanted = soak.seeds(part * size, size)
    seeds = [wanted[start : start + step] for start in range(0, len(wanted), step)]
    problems: list[str] = []
    longest_s, acks, done = 0.0, 0, 0
    # A schedule leaves few reference cycles: rare collections save a seventh of the time.
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), collect_garbage_rarely) as pool:
        for found, seconds, acknowledged in pool.imap_unordered(run_seeds, seeds):
            problems += found
            longest_s, acks, done = max(longest_s, seconds), acks + acknowledged, done + step
            print(
                f"{done} schedules, {acks} acknowledged, {len(problems)} problems; settled within "
                f"{longest_s:.1f} s after the last fault {found}",
                flush=True,
            )
    assert problems == []


def test_watch_that_fires_without_connection_is_not_lost() -> None:
    """A genuine client, too, fires all of its watches when it loses the connection."""
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


# -- mutations: each disables one rule


def truncate_to_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """KIP-101: a follower's late high watermark removes replicated records or keeps others."""

    def cut(
        epoch: int, end: int, *, high_watermark: int, log_end_offset: int, own_end_of: object
    ) -> TruncationPoint:
        return TruncationPoint(min(high_watermark, log_end_offset), complete=True)

    patch.setattr(log_reconciler, "cut_by_answer", cut)


def truncate_after_one_question(patch: pytest.MonkeyPatch) -> None:
    """KIP-279: after two quick changes of the leader one OffsetForLeaderEpoch is not enough."""

    def cut(*args: Any, **more: Any) -> TruncationPoint:
        return cut_by_answer(*args, **more)._replace(complete=True)

    patch.setattr(log_reconciler, "cut_by_answer", cut)


def truncate_by_end_offset_alone(patch: pytest.MonkeyPatch) -> None:
    """KIP-279: an epoch's end offset at the leader means nothing for a log without that epoch."""

    def cut(epoch: int, end: int, *, log_end_offset: int, **more: Any) -> TruncationPoint:
        return TruncationPoint(
            min(end, log_end_offset) if end >= 0 else log_end_offset, complete=True
        )

    patch.setattr(log_reconciler, "cut_by_answer", cut)


def fetch_before_flush(patch: pytest.MonkeyPatch) -> None:
    """A follower reports an end offset that it has not flushed."""
    patch.setattr(Following, "wait_flushed", lambda self: None)


def ignore_unnoticed_restarts(patch: pytest.MonkeyPatch) -> None:
    """A new controller ignores that a broker has restarted and lost records."""
    patch.setattr(Partitions, "demote_unseen_restarts", lambda self, keys: {})


def forget_decision_zxid(patch: pytest.MonkeyPatch) -> None:
    """A new controller misses a restart that happened before another broker left the ISR."""
    to_json = partition_states.LeaderAndIsr.to_json
    patch.setattr(
        partition_states.LeaderAndIsr, "to_json", lambda self, amended=False: to_json(self)
    )


def never_truncate(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps records that the leader does not have."""

    def cut(*args: Any, log_end_offset: int, **more: Any) -> TruncationPoint:
        return TruncationPoint(log_end_offset, complete=True)

    patch.setattr(log_reconciler, "cut_by_answer", cut)


def accept_deposed_controllers(patch: pytest.MonkeyPatch) -> None:
    """A deposed controller's requests are carried out, and its decisions are stored."""
    transactions = controller_writes.controller_transactions

    def unchecked(session: Any, operations: Any, epoch_version: int) -> Any:
        return transactions(session, operations, -1)

    def read_again(self: Partitions, keys: Any) -> None:
        self.context.states |= self.states.read(list(keys))

    patch.setattr(partition_states, "controller_transactions", unchecked)
    patch.setattr(Partitions, "read_again", read_again)
    patch.setattr(ControllerFence, "check", lambda *args: None)


def accept_abandoned_connections(patch: pytest.MonkeyPatch) -> None:
    """A repeated request is carried out again when the first copy arrives late.

    It may create a topic that was deleted since.
    """
    check = ControllerFence.check

    def unchecked(self: ControllerFence, *epochs: int, **ignored: int) -> None:
        check(self, *epochs[:3])

    patch.setattr(ControllerFence, "check", unchecked)


def accept_responses_to_earlier_deletions(patch: pytest.MonkeyPatch) -> None:
    """A topic that was created again is taken for deleted while a broker still has it."""
    answered = TopicDeletion._answered

    def any_answer(self: TopicDeletion, beginnings: int, broker: int, response: Any) -> None:
        answered(self, sys.maxsize, broker, response)

    patch.setattr(TopicDeletion, "_answered", any_answer)


def accept_fetches_of_any_epoch(patch: pytest.MonkeyPatch) -> None:
    """A follower of an earlier epoch keeps fetching, and counts for the high watermark."""
    of_partition = Partition.leadership
    record = Leadership.record_follower_fetch

    def leadership(self: Partition, current_leader_epoch: int = NO_EPOCH) -> Any:
        return of_partition(self)

    def record_follower_fetch(self: Leadership, *fetch: int) -> bool:
        return record(self, *fetch[:4])

    patch.setattr(Partition, "leadership", leadership)
    patch.setattr(Leadership, "record_follower_fetch", record_follower_fetch)


def use_isr_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    """A replaced leader, which cannot store an ISR any more, acknowledges alone."""

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


def keep_positions_over_missed_epoch(patch: pytest.MonkeyPatch) -> None:
    """A leader that missed another leader's epoch keeps its followers' old fetch positions."""
    begin_epoch = Leadership.begin_epoch

    def begin(self: Leadership, state: Any) -> None:
        self.leader_epoch = state.leader_epoch - 1
        begin_epoch(self, state)

    patch.setattr(Leadership, "begin_epoch", begin)


def wait_for_stored_members_alone(patch: pytest.MonkeyPatch) -> None:
    """A proposed member may be stored and elected before its leader gets the answer."""
    patch.setattr(InSyncReplicas, "electable", property(lambda self: frozenset(self.members)))
    patch.setattr(RemoteReplica, "keeps_up", lambda *args: False)


def acknowledge_without_replicas(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is the leader's log end."""

    def advance(self: Leadership, now_ms: int | None = None) -> bool:
        end = self.log.log_end_offset
        advanced, self.high_watermark = end > self.high_watermark, max(end, self.high_watermark)
        return advanced

    patch.setattr(Leadership, "_advance", advance)


def append_records_of_earlier_epoch(patch: pytest.MonkeyPatch) -> None:
    """A follower appends records that it fetched under an earlier epoch."""

    def log_of_any_role(self: Following, name: str) -> Any:
        if name != "log":
            raise AttributeError(name)
        return self.replica.log

    patch.setattr(Following, "__getattr__", log_of_any_role)
    patch.setattr(FollowedPartitions, "current", lambda self, followed: True)


def store_isr_without_version(patch: pytest.MonkeyPatch) -> None:
    """An ISR overwrites the controller's newer decision."""
    update = partition_states.PartitionStates.update_isr

    def update_isr(self: Any, changes: Any) -> Any:
        unconditional = {
            key: partition_states.replace(state, zk_version=-1) for key, state in changes.items()
        }
        return update(self, unconditional)

    patch.setattr(partition_states.PartitionStates, "update_isr", update_isr)


def join_isr_before_epoch_start(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-7128: a replica joins the ISR without records of an earlier leader.

    They were acknowledged, but the new leader's high watermark is still below them.
    """
    patch.setattr(RemoteReplica, "may_join", lambda self, mark, *_: self.log_end_offset >= mark)


def acknowledge_when_superseded(patch: pytest.MonkeyPatch) -> None:
    """A leader keeps acknowledging after a refused ISR change has shown a newer decision."""
    resolve = InSyncReplicas.resolve

    def resolved(self: InSyncReplicas, update: IsrUpdate) -> None:
        resolve(self, update)
        self.superseded = False

    patch.setattr(InSyncReplicas, "resolve", resolved)


def delete_topics_without_dead_brokers(patch: pytest.MonkeyPatch) -> None:
    """A topic is deleted while a dead broker has a log of it, and created again."""
    patch.setattr(TopicDeletion, "_ready", lambda self, topic: True)


def lead_with_empty_log(patch: pytest.MonkeyPatch) -> None:
    """A broker leads the partitions of a lost directory, with empty logs."""
    patch.setattr(LogOpening, "refuse_to_lead", lambda self, *keys: None)


def leader_stays_in_isr_without_log(patch: pytest.MonkeyPatch) -> None:
    """A broker stays in the ISRs that it leads although it has lost their logs.

    If it restarts before the others, it becomes the only replica in sync, and the partition has no
    leader any more.
    """
    leave_isrs = PartitionStates.leave_isrs

    def left(self: PartitionStates, broker_id: int, keys: Any) -> LostLogs:
        led = {key for key, state in self.read(keys).items() if state.leader == broker_id}
        found = leave_isrs(self, broker_id, [key for key in keys if key not in led])
        return LostLogs(found.others, found.last | led)

    patch.setattr(PartitionStates, "leave_isrs", left)


def ignore_failed_deletions(patch: pytest.MonkeyPatch) -> None:
    """A replica in an unreadable directory is reported as deleted."""
    delete = SimLogs.delete

    def deleted(self: SimLogs, key: Any) -> None:
        try:
            delete(self, key)
        except StorageError:
            return

    patch.setattr(SimLogs, "delete", deleted)


def elect_without_isr(patch: pytest.MonkeyPatch) -> None:
    """A replica that is not in sync is elected although unclean election is off."""

    def offline(
        replicas: Any, isr: Any, live: Any, *, unclean: bool
    ) -> leader_rules.Election | None:
        leader = next((broker for broker in replicas if broker in live), None)
        return None if leader is None else leader_rules.Election(leader, (leader,))

    patch.setattr(leader_rules, "offline_partition", offline)


@dataclass(frozen=True)
class Mutation:
    """A disabled rule.

    Args:
        patch: disables the rule.
        seed: of the schedule that last found the mutation; the search begins there.
        aim: the situation of the schedules, see `SimCluster`; None lets each seed choose.
        unclean: whether replicas that are not in sync are elected.
        loss: whether acknowledged records may be lost, see `SimCluster`.
    """

    patch: Callable[[pytest.MonkeyPatch], None]
    seed: int
    aim: str | None = None
    unclean: bool = False
    loss: bool = False

    def cluster(self, seed: int) -> SimCluster:
        return SimCluster(seed, unclean=self.unclean, loss=self.loss, aim=self.aim)


MUTATIONS = {
    "truncate to the high watermark": Mutation(
        truncate_to_high_watermark, 1, aim="late high watermark"
    ),
    "truncate by the end offset alone": Mutation(
        truncate_by_end_offset_alone, 0, aim="double failover"
    ),
    "one question": Mutation(truncate_after_one_question, 0, aim="double failover"),
    "one question, unclean": Mutation(truncate_after_one_question, 19, unclean=True, loss=True),
    "no truncation": Mutation(never_truncate, 2),
    "no epoch start at ISR growth": Mutation(
        join_isr_before_epoch_start, 0, aim="lagging replica joins"
    ),
    "no controller fence": Mutation(accept_deposed_controllers, 13, aim="zombie controller"),
    "no connection fence": Mutation(accept_abandoned_connections, 0, aim="late controller request"),
    "response to an earlier deletion": Mutation(
        accept_responses_to_earlier_deletions, 1, aim="repeated deletion"
    ),
    "no leader epoch fence": Mutation(accept_fetches_of_any_epoch, 0, aim="follower misses epochs"),
    "positions kept over a missed epoch": Mutation(
        keep_positions_over_missed_epoch, 13, aim="leader misses epoch"
    ),
    "no leader epoch at a follower": Mutation(append_records_of_earlier_epoch, 0),
    "ISR before it is stored": Mutation(use_isr_before_it_is_stored, 2),
    "ISR without version": Mutation(store_isr_without_version, 1),
    "superseded leader acknowledges": Mutation(
        acknowledge_when_superseded, 2, aim="superseded leader"
    ),
    "proposed members not waited for": Mutation(
        wait_for_stored_members_alone, 0, aim="unconfirmed ISR growth"
    ),
    "high watermark without ISR": Mutation(acknowledge_without_replicas, 0),
    "no flush before the next fetch": Mutation(fetch_before_flush, 0, aim="power cut after ack"),
    "restart ignored": Mutation(ignore_unnoticed_restarts, 0, aim="unnoticed restart"),
    "restart before an ISR exit ignored": Mutation(
        forget_decision_zxid, 65, aim="unnoticed restart, new disk"
    ),
    "unclean election": Mutation(lambda patch: None, 1, unclean=True),
    "leader not in sync": Mutation(elect_without_isr, 1),
    "topic deleted without dead brokers": Mutation(delete_topics_without_dead_brokers, 1),
    "empty log leads": Mutation(lead_with_empty_log, 0, aim="last replica loses disk"),
    "leader without log stays in ISR": Mutation(
        leader_stays_in_isr_without_log, 0, aim="leader loses disk"
    ),
    "unreadable directory taken for empty": Mutation(
        ignore_failed_deletions, 0, aim="unreadable directory"
    ),
}


def seed_that_finds(mutation: Mutation) -> tuple[int, list[str]]:
    """Return the seed of the first schedule that finds a mutation, and the problems found."""
    with pytest.MonkeyPatch.context() as patch, logged_exceptions():
        mutation.patch(patch)
        for seed in range(mutation.seed, mutation.seed + MUTATION_SCHEDULES):
            problems = mutation.cluster(seed).run()
            if problems:
                return seed, problems
    raise AssertionError(f"the schedule of seed {mutation.seed} has found it before")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", MUTATIONS)
def test_schedules_find_each_mutation(name: str) -> None:
    mutation = MUTATIONS[name]
    seed, problems = seed_that_finds(mutation)
    print(name, seed, problems[:1])
    # Where no acknowledged record may be lost, an unclean election is itself the defect.
    mended = replace(mutation, unclean=mutation.unclean and mutation.loss)
    with logged_exceptions() as errors:
        assert mended.cluster(seed).run() == [], "with the rule, the same schedule keeps all"
    assert errors == []


def test_replicas_agree_after_unclean_elections() -> None:
    """Acknowledged records may be lost then, but replicas must not differ for ever."""
    with logged_exceptions() as errors:
        for seed in range(DEFAULT_SCHEDULES // 2):
            assert SimCluster(seed, unclean=True, loss=True).run() == [], f"seed {seed}"
    assert errors == []
