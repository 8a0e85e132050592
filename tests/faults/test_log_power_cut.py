"""A power cut loses no more than the flush policy allows, and damages nothing."""

import random

import pytest

from tests.support import soak
from tests.support.clocks import Clock
from tests.support.logs import TP, EagerRuntime, make_manager, message_set, read_all
from tests.support.powercut import PowerCutFileSystem
from tests.support.seeded_runs import run_and_check, work_of_seed
from zkbroker.errors import StorageError
from zkbroker.records import iter_records

FLUSH_MS = 1000
INLINE = EagerRuntime()


class Run:
    """The operations until the power cut, and the messages that must survive it."""

    def __init__(self, work, seed, *, flush_messages, flush_ms, runtime):
        self.runtime = runtime
        self.chosen = random.Random(seed)
        self.clock = Clock()
        self.flush_messages = flush_messages
        self.flush_ms = flush_ms
        self.fs = PowerCutFileSystem(work / "data", work / "after", seed)
        (work / "data").mkdir()
        self.written = []
        self.untruncated = self.written
        self.written_at = []
        self.epoch = 0
        self.epochs = []
        """Leader epoch and magic of each message."""
        self.acknowledged = 0
        self.start = 0
        """Below this offset the log may have lost messages, or only their epochs."""
        self.started_ms = self.clock.now

    def manager(self, directory, fs=None):
        # The background tasks stay idle; `step` calls their work.
        return make_manager(
            directory,
            fs=fs,
            clock=self.clock,
            runtime=self.runtime,
            segment_bytes=self.chosen.choice([800, 3000]),
            index_interval_bytes=200,
            index_max_bytes=2400,
            flush_messages=self.flush_messages,
            flush_ms=self.flush_ms,
            file_delete_delay_ms=100,
            retention_bytes=4000,
            retention_ms=-1,
        )

    def run(self):
        """Make steps until the power cut."""
        manager = self.manager(self.fs.root, self.fs)
        manager.start()
        log = manager.get_or_create(TP)
        self.fs.cut_at = self.fs.changes + self.chosen.randint(1, 260)
        try:
            while True:
                manager, log = self.step(manager, log)
        except StorageError:
            assert self.fs.dead
        finally:
            manager.abandon()

    def step(self, manager, log):
        action = self.chosen.random()
        self.start = log.log_start_offset
        if action < 0.70:
            self.append(log)
        elif action < 0.80:
            self.clock.advance(self.chosen.randint(1, 400))
            manager.upkeep.flush_due()
        elif action < 0.86:
            manager.upkeep.checkpoint()
        elif action < 0.90:
            self.start = log.log_end_offset
            manager.upkeep.run_retention()
        elif action < 0.93:
            self.clock.advance(60)
            manager.upkeep.run_deletions()
        elif action < 0.96:
            self.start = self.chosen.randint(log.log_start_offset, log.log_end_offset)
            log.advance_start_to(self.start)
        elif action < 0.975:
            self.truncate(log)
        else:
            manager.close()
            if self.fs.dead:
                raise StorageError
            manager = self.manager(self.fs.root, self.fs)
            manager.start()
            found = manager.get(TP)
            if found is None:
                raise StorageError
            log = found
        if log.offline:
            raise StorageError
        return manager, log

    def truncate(self, log):
        wanted = self.chosen.randint(log.log_start_offset, log.log_end_offset)
        self.epoch += 1
        # An entry that holds the offset in its middle is removed as a whole: at most 4 messages.
        self.acknowledged = min(self.acknowledged, max(wanted - 3, 0))
        # Until the call returns all messages may survive; afterwards none of them reappears.
        self.untruncated, at = list(self.written), list(self.written_at)
        self.written_at = self.written_at[: max(wanted - 3, 0)]
        log.truncate_to(wanted)
        end = log.log_end_offset
        del self.written[end:], self.epochs[end:]
        self.written_at = at[:end]
        self.untruncated = self.written

    def append(self, log):
        magic = self.chosen.randint(0, 2)
        self.epoch += self.chosen.random() < 0.2
        data = message_set(
            self.chosen.randint(1, 4),
            magic=magic,
            prefix=f"{len(self.written)}-",
        )
        base = log.log_end_offset
        records = [
            record._replace(offset=base + at) for at, record in enumerate(iter_records(data))
        ]
        # An append that fails may still have reached the disk; it is not acknowledged.
        self.written += records
        self.written_at += [self.clock.now] * len(records)
        self.epochs += [(self.epoch, magic)] * len(records)
        result = log.append_as_leader(data, leader_epoch=self.epoch)
        log.wait_durable(result.last_offset, timeout_s=20)
        self.acknowledged = result.last_offset + 1

    def check(self):
        """Recover the log and check it."""
        manager = self.manager(self.fs.target)
        manager.start()
        log = manager.get(TP)
        records = [] if log is None else read_all(log)
        end = 0 if log is None else log.log_end_offset
        start = 0 if log is None else log.log_start_offset
        # The served messages are the written ones, without a gap.
        assert records in (self.written[start:end], self.untruncated[start:end])
        assert end >= self.acknowledged - (self.flush_messages - 1)
        due = self.clock.now - self.flush_ms
        assert end >= sum(at < due for at in self.written_at)
        if log is not None:
            self.check_epochs(log)
            appended = log.append_as_leader(message_set(1), leader_epoch=self.epoch)
            assert appended.base_offset == end
        manager.close()

    def check_epochs(self, log):
        """Batches keep their epochs; older entries have at most the epoch of their append."""
        known = log.epochs.all()
        flushed = self.acknowledged - (self.flush_messages - 1)
        for offset in range(max(self.start, log.log_start_offset), log.log_end_offset):
            found = max((epoch for epoch, start in known if start <= offset), default=-1)
            epoch, magic = self.epochs[offset]
            assert found <= epoch
            if magic == 2 or offset < flushed:
                assert found == epoch


def run_seeds(tmp_path, seeds, *, flush_messages, flush_ms, runtime=INLINE):
    for seed in seeds:
        with work_of_seed(tmp_path, seed) as work:
            run = Run(work, seed, flush_messages=flush_messages, flush_ms=flush_ms, runtime=runtime)
            run_and_check(run)


POLICIES = {
    "every message": {"flush_messages": 1, "flush_ms": 2**60},
    "every 10 messages": {"flush_messages": 10, "flush_ms": 2**60},
    "every second": {"flush_messages": 2**60, "flush_ms": FLUSH_MS},
    "no policy": {"flush_messages": 2**60, "flush_ms": 2**60},
}


@pytest.mark.parametrize("policy", POLICIES)
def test_power_cut_loses_no_more_than_the_flush_policy_allows(tmp_path, policy):
    run_seeds(tmp_path, range(25), **POLICIES[policy])


@pytest.mark.soak
@pytest.mark.parametrize("policy", POLICIES)
def test_1000_power_cuts_lose_no_more_than_allowed(tmp_path, policy):
    run_seeds(tmp_path, soak.seeds(0, 1000), **POLICIES[policy])


@pytest.mark.parametrize("policy", POLICIES)
def test_power_cut_during_concurrent_flushes_loses_no_more_than_allowed(tmp_path, policy):
    run_seeds(tmp_path, range(10), runtime="threads", **POLICIES[policy])
