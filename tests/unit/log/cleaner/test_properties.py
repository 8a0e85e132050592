"""Random logs, compacted at random moments and cut at random file operations, against a model."""

import random
import shutil
from collections import defaultdict

import pytest

from tests.support import soak
from tests.support.clocks import Clock
from tests.support.logs import EagerRuntime, make_manager
from tests.support.powercut import PowerCutFileSystem
from zkbroker.errors import StorageError
from zkbroker.log import TopicPartition
from zkbroker.log.cleaner.cleaning import PassSettings
from zkbroker.records import (
    ABORT,
    Codec,
    committed_only,
    control_batch,
    encode_message_set,
    iter_entries,
    iter_records,
    offset_after,
)

TP = TopicPartition("state", 0)
INLINE = EagerRuntime()
CODECS = {0: (0, 1, 2, 3), 1: (0, 1, 2, 3), 2: (0, 0, 1, 2, 3, 4)}


class RandomLog:
    """Appends to a follower's log and compacts it at random, until a power cut."""

    def __init__(self, work, seed):
        self.chosen = random.Random(seed)
        self.clock = Clock()
        (work / "data").mkdir()
        self.fs = PowerCutFileSystem(work / "data", work / "after", seed)
        self.records = {}  # offset -> (key, value), of all that was ever written
        self.open = defaultdict(list)  # producer -> offsets
        self.aborted = set()  # offsets of aborted data
        self.lists = []  # (producer, first, last) of aborted transactions
        self.data_of = {}  # aborted transaction -> offsets
        self.sequences = {}  # producer -> (last sequence, offset of it)
        self.plain_sequences = defaultdict(int)
        self.flushed = 0
        self.passes = 0
        self.keep_ms = self.chosen.choice([0, 86_400_000])
        self.overrides = {
            TP.topic: {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0",
                "delete.retention.ms": str(self.keep_ms),
            }
        }

    def start(self, directory, fs=None):
        self.manager = make_manager(
            directory,
            fs=fs,
            clock=self.clock,
            runtime=INLINE,
            overrides=self.overrides,
            segment_bytes=self.chosen.choice([700, 1500, 4000]),
            index_interval_bytes=100,
            index_max_bytes=2400,
            flush_ms=2**60,
            file_delete_delay_ms=self.chosen.choice([0, 1000]),
        )
        # A map of a few keys is full in the middle of a batch.
        self.manager.cleaner._settings = PassSettings(
            24 * self.chosen.choice([5, 9, 1000]), 0.9, self.chosen.choice([64, 300, 5000])
        )
        self.manager.start()
        return self.manager.get_or_create(TP)

    # -- writes

    def batch(self, end):
        magic = self.chosen.choice([0, 1, 2, 2, 2])
        codec = Codec(self.chosen.choice(CODECS[magic]))
        count = self.chosen.choice([1, 1, 2, 5, 9])
        who, transactional = None, False
        if magic == 2 and self.chosen.random() < 0.6:
            who = self.chosen.randint(1, 3)
            transactional = self.chosen.random() < 0.6 or bool(self.open[who])
        records = []
        for number in range(count):
            key = b"k%d" % self.chosen.randrange(12)
            value = None if self.chosen.random() < 0.15 else b"v%d" % (end + number)
            if self.chosen.random() < 0.05:
                key = None
            elif self.chosen.random() < 0.05:
                value = b""
            records.append((key, value, self.clock() if magic else -1, ()))
            self.records[end + number] = (key, value)
        identity = {}
        if who is not None:
            # An id of its own for each kind, so that a producer keeps to one of them.
            producer = who + (10 if transactional else 0)
            sequence = self.plain_sequences[producer]
            self.plain_sequences[producer] += count
            self.sequences[producer] = (sequence + count - 1, end + count - 1)
            identity = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            if transactional:
                identity["is_transactional"] = True
                self.open[who] += range(end, end + count)
        return encode_message_set(
            records, magic=magic, codec=codec, base_offset=end, **identity
        ), count

    def marker(self, end):
        who = self.chosen.choice([each for each in self.open if self.open[each]])
        abort = self.chosen.random() < 0.5
        offsets = self.open.pop(who)
        if abort:
            self.aborted.update(offsets)
            self.lists.append((who + 10, offsets[0], end))
            self.data_of[self.lists[-1]] = offsets
        return control_batch(
            ABORT if abort else 1,
            producer_id=who + 10,
            producer_epoch=0,
            timestamp_ms=self.clock(),
            base_offset=end,
        )

    def step(self, log):
        self.flushed = max(self.flushed, log.recovery_point)
        action = self.chosen.random()
        self.clock.advance(self.chosen.randrange(500))
        end = log.log_end_offset + self.chosen.choice([0, 0, 0, 0, 3])
        if action < 0.62:
            data, _ = self.batch(end)
            log.append_as_follower(data)
        elif action < 0.8 and any(self.open.values()):
            log.append_as_follower(self.marker(end))
        elif action < 0.86:
            log.flush()
        elif action < 0.9:
            log.roll()
        elif action < 0.92:
            self.manager.upkeep.run_deletions(self.clock() + 10_000)
        else:
            before = self.walk(log, log.log_start_offset)[:8]
            self.passes += self.manager.cleaner.clean_one() is not None
            assert not self.manager.cleaner.uncleanable()
            self.check(log)
            # A reader in the middle of the log misses no latest value.
            if before:
                self.check_reader(log, before)

    def run(self):
        log = self.start(self.fs.root, self.fs)
        self.fs.cut_at = self.fs.changes + self.chosen.randint(20, 700)
        try:
            for _ in range(self.chosen.randint(30, 150)):
                if log.offline:
                    break
                self.step(log)
            else:
                if not self.fs.dead:
                    self.fs.cut()
        except StorageError:
            assert self.fs.dead
        finally:
            self.flushed = max(self.flushed, log.recovery_point)
            self.manager.abandon()

    def recover(self):
        log = self.start(self.fs.target)
        assert log.log_end_offset >= self.flushed
        self.forget_lost(log)
        self.check(log)
        while self.manager.cleaner.clean_one():
            pass
        assert not self.manager.cleaner.uncleanable()
        self.check(log, whole=True)
        self.manager.close()

    def forget_lost(self, log):
        """Remove lost records from the model: those from some unflushed offset on."""
        end = log.log_end_offset
        found = self.walk(log, log.log_start_offset)
        there = {record.offset for _, _, records in found for record in records}
        if TP in log.directory.recovery_points:
            holes = [o for o in self.records if self.flushed <= o < end and o not in there]
            assert not holes, "offsets are missing where nothing was ever compacted"
        for offset in [o for o in self.records if o >= self.flushed and o not in there]:
            del self.records[offset]
        for producer, (_, offset) in list(self.sequences.items()):
            if offset >= self.flushed:
                del self.sequences[producer]
        markers = {entry.base_offset for entry, _, _ in found if entry.is_control}
        lost = {each[2] for each in self.lists if each[2] >= self.flushed} - markers
        end = min(lost, default=end)
        kept = [each for each in self.lists if each[2] < end]
        self.lists = kept
        whole = {offset for each in kept for offset in self.data_of[each]}
        # A transaction whose marker was lost is open again, except for records that a compaction
        # removed because of its abort.
        for offset in self.aborted - whole:
            if offset not in there:
                self.records.pop(offset, None)
        self.aborted &= whole

    # -- invariants

    def walk(self, log, offset):
        """Read as a consumer does; returns batches as (entry, records)."""
        found = []
        while data := log.read_bytes(offset, 900, end=log.log_end_offset):
            for entry in iter_entries(data, verify_crc=True):
                raw = data[entry.position : entry.position + entry.size]
                if entry.last_offset >= offset:
                    records = [] if entry.is_control else list(iter_records(raw))
                    found.append((entry, raw, records))
            following = offset_after(data)
            assert following is not None
            assert following > offset, "a reader makes no progress"
            offset = following
        assert offset <= log.log_end_offset
        return found

    def check(self, log, *, whole=False):
        found = self.walk(log, log.log_start_offset)
        last = -1
        there = {}
        for entry, _, records in found:
            assert entry.last_offset > last
            last = entry.last_offset
            for record in records:
                assert self.records[record.offset] == (record.key, record.value)
                there[record.offset] = record
        assert list(there) == sorted(there)
        end = log.log_end_offset
        committed = {
            offset: each
            for offset, each in self.records.items()
            if offset not in self.aborted and offset < end
        }
        latest = {}
        for offset in sorted(committed):
            latest[committed[offset][0]] = offset
        unstable = log.first_unstable_offset
        limit = end if unstable is None else unstable
        for key, offset in latest.items():
            if key is not None and offset < limit and committed[offset][1] is not None:
                assert offset in there, f"the latest value of {key} at {offset} is gone"
        # A reader of committed messages gets the latest values of the model.
        view = self.committed_view(log, found, limit)
        model = {}
        for offset in sorted(committed):
            key, value = committed[offset]
            if offset < limit and key is not None:
                model[key] = value
        assert {k: v for k, v in view.items() if v is not None} == {
            k: v for k, v in model.items() if v is not None
        }
        known = log.producers.last_records()
        for entry, _, _ in found:
            if entry.producer_id >= 0 and not entry.is_control:
                assert entry.producer_id in known
        self.check_sequences(log, found)

    def committed_view(self, log, found, limit):
        data = b"".join(raw for entry, raw, _ in found if entry.last_offset < limit)
        aborted = [
            (each.producer_id, each.first_offset) for s in log.segments for each in s.aborted
        ]
        view = {}
        for record in iter_records(committed_only(data, aborted)):
            if record.key is not None:
                view[record.key] = record.value
        return view

    def check_sequences(self, log, found):
        last = {}
        for entry, _, _ in found:
            if entry.producer_id >= 0 and entry.base_sequence >= 0:
                span = entry.last_offset - entry.base_offset
                last[entry.producer_id] = (entry.base_sequence + span, entry.last_offset)
        for producer, (sequence, offset) in self.sequences.items():
            if offset < log.log_end_offset:
                assert last[producer] == (sequence, offset)

    def check_reader(self, log, before):
        """Check that offsets of each key only grow for a reader that continues."""
        position = before[-1][0].last_offset + 1
        seen = {r.key: r.offset for _, _, records in before for r in records}
        for _, _, records in self.walk(log, position):
            for record in records:
                assert record.offset > seen.get(record.key, -1)
                seen[record.key] = record.offset


def play(tmp_path, seeds):
    passes = 0
    for seed in seeds:
        work = tmp_path / str(seed)
        work.mkdir()
        log = RandomLog(work, seed)
        try:
            log.run()
            log.recover()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        finally:
            log.fs.close_all()
        passes += log.passes
        shutil.rmtree(work)
    assert passes > len(seeds)


def test_random_logs_with_power_cuts_match_the_model(tmp_path):
    play(tmp_path, range(20))


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_many_random_logs_match_the_model(tmp_path):
    play(tmp_path, soak.seeds(1000, 2000))
