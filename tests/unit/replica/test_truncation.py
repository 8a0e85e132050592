"""The truncation point of a follower: the table of responses, KIP-101 and KIP-279."""

import random

import pytest

from tests.support.replicas import EntryLog
from zkbroker.replica.truncation import (
    TruncationPoint,
    cut_by_answer,
    cut_without_epochs,
)


def log_of(*epochs: int, start: int = 0) -> EntryLog:
    """Return a log with one record of each epoch."""
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
    """Truncate a follower completely; return the number of questions to its leader."""
    for questions in range(1, 20):
        latest = follower.epochs.latest
        if latest < 0:
            follower.truncate_to(cut_without_epochs(high_watermark, follower.log_end_offset).offset)
            return questions - 1
        found = cut(follower, leader.end_offset_for_epoch(latest), high_watermark)
        follower.truncate_to(found.offset)
        if found.complete:
            return questions
    raise AssertionError("no end of questions")


@pytest.mark.parametrize(
    ("own", "answer", "high_watermark", "expected"),
    [
        # The leader has no epochs, or is an old broker.
        ((1, 1, 2), (-1, -1), 2, TruncationPoint(2, True)),
        ((1, 1, 2), (-1, -1), 9, TruncationPoint(3, True)),
        # An offset without its epoch (leaders before 2.0).
        ((1, 1, 2), (-1, 1), 0, TruncationPoint(1, True)),
        ((1, 1, 2), (-1, 8), 0, TruncationPoint(3, True)),
        # The same epoch: the smaller end offset.
        ((1, 1, 2, 2), (2, 3), 0, TruncationPoint(3, True)),
        ((1, 1, 2, 2), (2, 9), 0, TruncationPoint(4, True)),
        # The leader lacks the last epoch; both have the previous one.
        ((1, 1, 2), (1, 4), 0, TruncationPoint(2, True)),
        ((1, 1, 2), (1, 1), 0, TruncationPoint(1, True)),
        # The response is between two epochs of this log: truncate, and ask again.
        ((1, 1, 3, 5), (4, 9), 0, TruncationPoint(3, False)),
        # Older than all epochs of this log: truncate to the start of its first epoch.
        ((3, 3), (2, 1), 0, TruncationPoint(0, True)),
    ],
)
def test_truncation_point_for_each_response(own, answer, high_watermark, expected):
    assert cut(log_of(*own), answer, high_watermark) == expected


def test_response_before_first_epoch_of_log():
    log = log_of(3, 3, start=10)
    assert cut(log, (2, 7)) == TruncationPoint(7, True)
    assert cut(log, (2, 12)) == TruncationPoint(10, True)


def test_end_offset_of_leader_is_used_for_lost_epoch():
    log = log_of(1, 1)
    log.epochs.clear()
    assert cut(log, (4, 1)) == TruncationPoint(1, True)


def test_log_without_epochs_is_truncated_to_high_watermark():
    assert cut_without_epochs(3, 5) == TruncationPoint(3, True)
    assert cut_without_epochs(7, 5) == TruncationPoint(5, True)


def test_kip_101_late_high_watermark_loses_no_record():
    # Both have the acknowledged record 1; the follower does not know the high watermark 2 yet.
    leader, follower = log_of(0, 0), log_of(0, 0)
    follow(follower, leader, high_watermark=1)
    assert follower.entries == leader.entries
    # Truncation to the high watermark would lose it if the leader died now.
    assert cut_without_epochs(1, 2).offset == 1


def test_kip_101_diverged_logs_become_equal():
    # A led; B lost the second record with its page cache, and appended in epoch 1 as the leader.
    a, b = log_of(0, 0), log_of(0, 1)
    follow(a, b, high_watermark=2)
    assert a.entries == [(0, 0)]
    assert cut_without_epochs(2, 2).offset == 2  # this would keep both versions of offset 1


def test_kip_279_two_quick_leader_changes():
    # A appended in epoch 0, B in 1, A in 2: B asks for epoch 1, which A never had.
    leader, follower = log_of(0, 0, 0, 2, 2), log_of(0, 0, 1, 1, 1)
    assert follow(follower, leader) == 1
    assert follower.entries == leader.entries[:2]
    # The response has an epoch that the follower lacks: the follower asks again.
    leader, follower = log_of(0, 0, 1, 1, 3), log_of(0, 0, 0, 2, 2)
    assert follow(follower, leader) == 2
    assert follower.entries == leader.entries[:2]


def test_random_histories_end_as_equal_logs():
    rng = random.Random(7)
    questions = set()
    for _ in range(3000):
        # Three replicas of a partition; one leader alone appends in each epoch.
        logs = [log_of(), log_of(), log_of()]
        for epoch in range(rng.randrange(1, 8)):
            leader = rng.choice(logs)
            for other in logs:
                if other is not leader and rng.random() < 0.5:
                    questions.add(follow(other, leader))
                    wanted = leader.entries[len(other.entries) :]
                    for entry in wanted[: rng.randrange(4)]:
                        other.begin_epoch(entry[0])
                        other.entries.append(entry)
            if rng.random() < 0.8:
                leader.begin_epoch(epoch)
                leader.entries += [(epoch, n) for n in range(rng.randrange(4))]
        leader = max(logs, key=lambda each: each.epochs.latest)
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
            questions.add(follow(other, leader))
            # Exactly the records that the leader lacks are removed.
            assert other.entries == before[:common]
    assert max(questions) >= 2
