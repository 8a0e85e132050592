"""A power cut at any moment, also during compaction, loses no acknowledged offset.

The offsets store runs over a real log on a file system that forgets unflushed changes. Afterwards
it must load the state after the last acknowledged operation, or after a later one.
"""

import random

import pytest

from tests.support import soak
from tests.support.clocks import Clock
from tests.support.logs import EagerRuntime, UnreplicatedLog, make_manager
from tests.support.powercut import PowerCutFileSystem
from tests.support.seeded_runs import run_and_check, work_of_seed
from zkbroker.coordinator.groups.offsets import OffsetsStore
from zkbroker.errors import StorageError
from zkbroker.log import TopicPartition
from zkbroker.protocol.offsets_topic import GroupMemberValue, GroupValue, OffsetValue

PARTITION = TopicPartition("__consumer_offsets", 0)
INLINE = EagerRuntime()
GROUPS = ("a", "b", "c")


class Run:
    """Commits, removals, group changes and compactions until the power cut."""

    def __init__(self, work, seed, flush_messages):
        self.chosen = random.Random(seed)
        self.clock = Clock()
        self.flush_messages = flush_messages
        (work / "data").mkdir()
        self.fs = PowerCutFileSystem(work / "data", work / "after", seed)
        self.states = [{}]  # after each operation, including the unfinished one
        self.certain = 0  # index of a state that cannot be lost any more
        self.compactions = 0

    def log(self, directory, fs=None):
        self.manager = make_manager(
            directory,
            fs=fs,
            clock=self.clock,
            runtime=INLINE,
            segment_bytes=1500,
            index_interval_bytes=200,
            index_max_bytes=2400,
            flush_messages=self.flush_messages,
            flush_ms=2**60,
            file_delete_delay_ms=0,
        )
        self.manager.start()
        overrides = {"cleanup.policy": "compact", "delete.retention.ms": "0"}
        return self.manager.get_or_create(PARTITION, overrides)

    def run(self):
        log = self.log(self.fs.root, self.fs)
        store = OffsetsStore(UnreplicatedLog(log))
        self.fs.cut_at = self.fs.changes + self.chosen.randint(1, 400)
        try:
            while not log.offline:
                self.step(store)
        except StorageError:
            assert self.fs.dead
        finally:
            self.manager.abandon()

    def step(self, store):
        state = dict(self.states[-1])
        group = self.chosen.choice(GROUPS)
        action = self.chosen.random()
        if action < 0.65:
            partitions = self.chosen.sample(range(4), self.chosen.randint(1, 3))
            commits = {
                ("t", number): OffsetValue(
                    self.chosen.randrange(2**40), metadata="m" * self.chosen.randint(0, 30)
                )
                for number in partitions
            }
            self.states.append(state | {(group, *key): each for key, each in commits.items()})
            store.wait_durable(store.commit(group, commits, self.clock()))
        elif action < 0.75:
            gone = [key[1:] for key in state if key[0] == group and len(key) > 1][:2]
            with_group = self.chosen.random() < 0.5
            for key in gone:
                del state[group, *key]
            if with_group:
                state.pop((group,), None)
            self.states.append(state)
            last = store.remove(group, gone, self.clock(), metadata=with_group)
            if last is not None:
                store.wait_durable(last)
        elif action < 0.85:
            member = GroupMemberValue("m", None, "c", "/h", 1, 2, b"s", self.chosen.randbytes(5))
            value = GroupValue("consumer", len(self.states), "range", "m", 1, [member])
            self.states.append(state | {(group,): value})
            store.wait_durable(store.store_group(group, value, self.clock()))
        else:
            self.compactions += self.manager.cleaner.clean_one() is not None
        if self.flush_messages == 1:
            self.certain = len(self.states) - 1

    def check(self):
        store = OffsetsStore(UnreplicatedLog(self.log(self.fs.target)))
        store.load()
        found = {}
        for group in store.group_ids():
            found.update({(group, *key): each for key, each in store.offsets(group).items()})
            value = store.group(group)
            if value is not None:
                found[group,] = value
        assert found in self.states[self.certain :]
        self.manager.close()


def run_seeds(tmp_path, seeds, flush_messages):
    compactions = 0
    for seed in seeds:
        with work_of_seed(tmp_path, seed) as work:
            run = Run(work, seed, flush_messages)
            run_and_check(run)
            compactions += run.compactions
    assert compactions > len(seeds) // 10


@pytest.mark.parametrize("flush_messages", [1, 2**60], ids=["every commit", "no policy"])
def test_power_cut_loses_no_acknowledged_offset(tmp_path, flush_messages):
    run_seeds(tmp_path, range(20), flush_messages)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("flush_messages", [1, 2**60], ids=["every commit", "no policy"])
def test_1000_power_cuts_lose_no_more_than_allowed(tmp_path, flush_messages):
    run_seeds(tmp_path, soak.seeds(0, 1000), flush_messages)
