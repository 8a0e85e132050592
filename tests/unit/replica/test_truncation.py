"""Where a follower cuts: the table of answers, and the stories that epochs are there for."""

import random

import pytest

from tests.support.replicas import EntryLog
from zkbroker.log import TopicPartition
from zkbroker.replica.truncation import (
    EpochQuestion,
    TruncationPoint,
    cut_by_answer,
    cut_without_epochs,
    epoch_request,
)


def log_of(*epochs: int, start: int = 0) -> EntryLog:
    """A log with one message for each epoch named."""
    log = EntryLog(log_start_offset=start)
    for number, epoch in enumerate(epochs):
        log.begin_epoch(epoch)
        log.entries.append((epoch, number))
    return log


def cut(log: EntryLog, answer: tuple[int, int], high_watermark: int = 0) -> TruncationPoint:
    return cut_by_answer(
        *answer,
        high_watermark=high_watermark,
        log_end_offset=log.log_end_offset,
        own_end_of=log.end_offset_for_epoch,
    )


def follow(follower: EntryLog, leader: EntryLog, high_watermark: int = 0) -> int:
    """Cut a follower as often as it takes; returns how often its leader was asked."""
    for asked in range(1, 20):
        latest = follower.epoch_starts[-1][0] if follower.epoch_starts else -1
        if latest < 0:
            follower.truncate_to(cut_without_epochs(high_watermark, follower.log_end_offset).offset)
            return asked - 1
        found = cut(follower, leader.end_offset_for_epoch(latest), high_watermark)
        follower.truncate_to(found.offset)
        if found.complete:
            return asked
    raise AssertionError("asked without end")


@pytest.mark.parametrize(
    ("own", "answer", "high_watermark", "expected"),
    [
        # The leader does not know: it lost its epochs, or is older.
        ((1, 1, 2), (-1, -1), 2, TruncationPoint(2, True)),
        ((1, 1, 2), (-1, -1), 9, TruncationPoint(3, True)),
        # An offset without its epoch (leaders before 2.0).
        ((1, 1, 2), (-1, 1), 0, TruncationPoint(1, True)),
        ((1, 1, 2), (-1, 8), 0, TruncationPoint(3, True)),
        # The same epoch: the smaller end of both.
        ((1, 1, 2, 2), (2, 3), 0, TruncationPoint(3, True)),
        ((1, 1, 2, 2), (2, 9), 0, TruncationPoint(4, True)),
        # The last epoch is unknown to the leader; the one before is known to both.
        ((1, 1, 2), (1, 4), 0, TruncationPoint(2, True)),
        ((1, 1, 2), (1, 1), 0, TruncationPoint(1, True)),
        # The answer lies between two epochs of this log: cut, and ask again.
        ((1, 1, 3, 5), (4, 9), 0, TruncationPoint(3, False)),
        # Older than everything in this log: its first epoch's start is where they part.
        ((3, 3), (2, 1), 0, TruncationPoint(0, True)),
    ],
)
def test_answers(own, answer, high_watermark, expected):
    assert cut(log_of(*own), answer, high_watermark) == expected


def test_an_answer_before_a_log_that_begins_late():
    log = log_of(3, 3, start=10)
    assert cut(log, (2, 7)) == TruncationPoint(7, True)
    assert cut(log, (2, 12)) == TruncationPoint(10, True)


def test_an_epoch_this_log_lost_is_taken_as_the_leader_says():
    log = log_of(1, 1)
    log.epoch_starts = []
    assert cut(log, (4, 1)) == TruncationPoint(1, True)


def test_without_epochs_it_is_the_high_watermark():
    assert cut_without_epochs(3, 5) == TruncationPoint(3, True)
    assert cut_without_epochs(7, 5) == TruncationPoint(5, True)


def test_kip_101_a_late_high_watermark_loses_nothing():
    # Both have message 1, acknowledged; the follower has not heard of the high watermark 2 yet.
    leader, follower = log_of(0, 0), log_of(0, 0)
    follow(follower, leader, high_watermark=1)
    assert follower.entries == leader.entries
    # By the high watermark alone it would be gone, and lost if the leader died now.
    assert cut_without_epochs(1, 2).offset == 1


def test_kip_101_logs_that_parted_do_not_stay_so():
    # A led, and its second message was lost with the page cache of B; B led under 1 and wrote.
    a, b = log_of(0, 0), log_of(0, 1)
    follow(a, b, high_watermark=2)
    assert a.entries == [(0, 0)]
    assert cut_without_epochs(2, 2).offset == 2  # what would have kept both versions of offset 1


def test_kip_279_two_changes_of_the_leader_in_short_order():
    # A wrote under 0, B under 1, A again under 2: B asks for 1, which A never had.
    leader, follower = log_of(0, 0, 0, 2, 2), log_of(0, 0, 1, 1, 1)
    assert follow(follower, leader) == 1
    assert follower.entries == leader.entries[:2]
    # The leader's answer is an epoch that the follower does not have: it is asked again.
    leader, follower = log_of(0, 0, 1, 1, 3), log_of(0, 0, 0, 2, 2)
    assert follow(follower, leader) == 2
    assert follower.entries == leader.entries[:2]


def test_any_two_histories_end_as_one_log():
    rng = random.Random(7)
    asked = set()
    for _ in range(3000):
        # Replicas of one partition: each epoch is written by one leader alone, from where it is.
        logs = [log_of(), log_of(), log_of()]
        for epoch in range(rng.randrange(1, 8)):
            leader = rng.choice(logs)
            for other in logs:
                if other is not leader and rng.random() < 0.5:
                    asked.add(follow(other, leader))
                    wanted = leader.entries[len(other.entries) :]
                    for entry in wanted[: rng.randrange(4)]:
                        other.begin_epoch(entry[0])
                        other.entries.append(entry)
            if rng.random() < 0.8:
                leader.begin_epoch(epoch)
                leader.entries += [(epoch, n) for n in range(rng.randrange(4))]
        leader = max(logs, key=lambda each: each.epoch_starts[-1:] or [(-1, 0)])
        for other in logs:
            if other is leader:
                continue
            before = list(other.entries)
            common = 0
            while (
                common < min(len(before), len(leader.entries))
                and before[common] == leader.entries[common]
            ):
                common += 1
            asked.add(follow(other, leader))
            # Nothing that the leader lacks is kept, and nothing that it has is cut off.
            assert other.entries == before[:common]
    assert max(asked) >= 2


def test_one_request_asks_for_many_partitions():
    request = epoch_request(
        3,
        [
            EpochQuestion(TopicPartition("a", 0), 5, 4),
            EpochQuestion(TopicPartition("b", 1), 6, 6),
            EpochQuestion(TopicPartition("a", 2), 7, 1),
        ],
    )
    assert request.replica_id == 3
    assert [
        (topic.topic, each.partition, each.current_leader_epoch, each.leader_epoch)
        for topic in request.topics
        for each in topic.partitions
    ] == [("a", 0, 5, 4), ("a", 2, 7, 1), ("b", 1, 6, 6)]
