"""A view and its master live through whatever may happen, and are checked against each other.

Two brokers have a replica; the first one is the home of the view and may lose its power at any
change of a file, in the master's log as in the view's. Every action is chosen by a seed.
"""

import os
import random
from pathlib import Path

from tests.support.clocks import Clock
from tests.support.logs import TP, EagerRuntime, InlineTask, make_manager, read_all
from tests.support.powercut import PowerCutFileSystem
from zkbroker.config.legacy07 import Legacy07Config
from zkbroker.errors import StorageError
from zkbroker.log import FileSystem
from zkbroker.log.cleaner import clean, cleanable_part
from zkbroker.log.cleaner.cleaning import PassSettings
from zkbroker.log.legacy07 import Legacy07Logs
from zkbroker.log.legacy07.directory import Claim
from zkbroker.log.legacy07.master import LogMaster
from zkbroker.log.legacy07.offset_map import CUT, MapReader, map_files
from zkbroker.log.legacy07.view_recovery import open_view, rebuilt_bytes
from zkbroker.log.segments.entries import first_offset
from zkbroker.records import Codec, encode_message_set
from zkbroker.records.generations import convert_set
from zkbroker.records.legacy07 import build_message, build_wrapper, messages
from zkbroker.replica.truncation import cut_by_answer

MODERN_CODECS = (Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
PASS = PassSettings(1 << 20, 0.9, 1 << 16)


class Inline(EagerRuntime):
    """Leaves the loops of the 0.7 logs out too: the story calls what they do."""

    def spawn(self, function, *args, name):
        if name.startswith("legacy07-"):
            return InlineTask()
        return super().spawn(function, *args, name=name)


class Story:
    """What was done, and what 0.7 readers saw.

    Args:
        work: an empty directory.
        seed: tells everything.
        lives: how often the home broker is started before the story ends.
        steps: actions in each life.
    """

    def __init__(self, work: Path, seed: int, *, lives: int = 3, steps: int = 80) -> None:
        self.work = work
        self.seed = seed
        self.chosen = random.Random(seed)
        self.clock = Clock()
        self.lives = lives
        self.steps = steps
        self.runtime = Inline()
        self.stream = bytearray()
        """What was ever visible, by position."""
        self.epoch = 0
        self.home_leads = True
        self.mark = 0
        self.other_mark = 0
        self.sequence = 0
        self.counter = 0
        self.fs: FileSystem
        self.powered: PowerCutFileSystem | None = None
        self.checks = 0
        self.cuts = 0
        self.settings = {
            "file_bytes": self.chosen.choice([300, 2000]),
            "retention_bytes": self.chosen.choice([-1, -1, 1500]),
            "retention_ms": -1,
            "flush_messages": self.chosen.choice([1, 4, 1000]),
            "flush_check_ms": 1,
            "pending_bytes": self.chosen.choice([200, 10**6]),
            "message_magic": self.chosen.choice([0, 1]),
        }
        self.format = self.chosen.choice([None, None, "0.9.0", "0.10.0", "0.11.0"])
        self.unclean = self.format in (None, "0.11.0") and self.chosen.random() < 0.3
        """Replicas that are not in sync are elected too; all messages bear their leader epoch."""

    # -- life and death

    def tell(self) -> None:
        """Live the story and check it at each death and at its end."""
        root = self.work / "life-0"
        root.mkdir()
        (self.work / "other").mkdir()
        self.other = self.start_other()
        try:
            for life in range(self.lives):
                root = self.live(root, life)
            self.start_home(root, FileSystem())
            try:
                self.check_all()
            finally:
                self.stop_home(clean=True)
        finally:
            self.other.abandon()

    def live(self, root: Path, life: int) -> Path:
        """Live once; returns the directory of the next life."""
        after = self.work / f"life-{life + 1}"
        fs: FileSystem
        powered = self.chosen.random() < 0.7
        if powered:
            fs = self.power_cut(root, after, life)
        else:
            fs = FileSystem()
        clean = False
        try:
            self.start_home(root, fs)
            if powered:
                fs.cut_at = fs.changes + self.chosen.randint(1, 400)
            for _ in range(self.steps):
                self.step()
                self.check_visible()
            clean = not powered and self.chosen.random() < 0.5
            if clean:
                self.check_all()
        except (StorageError, OSError):
            if not powered or not fs.dead:
                raise
        finally:
            self.stop_home(clean=clean)
        if not powered:
            return root
        if not fs.dead:
            fs.cut()
        fs.close_all()
        return after

    def power_cut(self, root: Path, after: Path, life: int) -> PowerCutFileSystem:
        fs = PowerCutFileSystem(root, after, self.seed * 10 + life)
        fs.adopt()
        return fs

    def start_other(self):
        manager = make_manager(
            self.work / "other", clock=self.clock, runtime=self.runtime, **self.log_settings()
        )
        manager.start()
        self.other_log = manager.get_or_create(TP)
        return manager

    def log_settings(self):
        more = {} if self.format is None else {"message_format_version": self.format}
        return {"segment_bytes": 2500, "index_interval_bytes": 200, **more}

    def start_home(self, root: Path, fs: FileSystem) -> None:
        fs.mkdir(root / "newer")
        self.manager = make_manager(
            root / "newer", fs=fs, clock=self.clock, runtime=self.runtime, **self.log_settings()
        )
        self.legacy = None
        self.manager.start()
        self.log = self.manager.get_or_create(TP)
        self.mark = min(self.mark, self.log.log_end_offset)
        self.mark = max(self.mark, self.log.log_start_offset)
        master = LogMaster(self.log, lambda: self.mark, lambda: self.epoch)
        config = Legacy07Config(log_dir=str(root / "legacy"), **self.settings)
        fs.mkdir(root / "legacy")
        fs.fsync_dir(root)
        self.legacy = Legacy07Logs(
            config,
            runtime=self.runtime,
            now_ms=self.clock,
            fs=fs,
            masters=lambda topic, partition: master,
        )
        self.legacy.start()
        self.view = self.legacy.views().get(("t", 0))
        if self.view is None:
            assert not self.stream
            self.legacy.make_views("t", [Claim(0, TP.partition, self.log.log_start_offset)])
            self.view = self.legacy.views()["t", 0]
        self.view.attach(master)
        self.master = master
        if self.home_leads:
            self.lead_home()
        else:
            self.follow(self.log, self.other_log)

    def stop_home(self, *, clean: bool) -> None:
        if clean:
            self.legacy.close()
            self.manager.close()
            return
        if self.legacy is not None:
            for log in self.legacy.all().values():
                fds = [log._active._fd]
                if hasattr(log, "_map"):
                    fds.append(log._map._fd)
                for fd in fds:
                    if fd >= 0 and not log._closed:
                        os.close(fd)
            if self.legacy._lock is not None:
                self.legacy._lock.release()
        self.manager.abandon()

    # -- replication

    @property
    def leader(self):
        return self.log if self.home_leads else self.other_log

    def lead_home(self) -> None:
        """As a broker does that did not stop cleanly: under an epoch of its own."""
        self.epoch += 1
        self.log.writer.begin_epoch(self.epoch)
        self.home_leads = True
        self.follow(self.other_log, self.log)

    def follow(self, log, leader) -> None:
        """Cut a follower to what it shares with its leader."""
        if not self.unclean:
            # Without epochs in all messages brokers may cut too little; that is not looked at.
            self.cut(log, shared_end(log, leader))
            return
        while True:
            epoch = log.epochs.latest
            found, end = leader.end_offset_for_epoch(epoch)
            cut = cut_by_answer(
                found,
                end,
                high_watermark=self.mark if log is self.log else self.other_mark,
                log_end_offset=log.log_end_offset,
                own_end_of=log.end_offset_for_epoch,
            )
            self.cut(log, cut.offset)
            if cut.complete:
                return

    def cut(self, log, offset) -> None:
        end = log.truncate_to(offset)
        if log is self.log:
            self.mark = min(self.mark, end)
        else:
            self.other_mark = min(self.other_mark, end)

    def replicate(self) -> None:
        leader = self.leader
        follower = self.other_log if self.home_leads else self.log
        at = follower.log_end_offset
        if at < leader.log_start_offset:
            follower.truncate_fully_and_start_at(leader.log_start_offset)
            at = follower.log_end_offset
        if at > leader.log_end_offset:
            # As a follower whose fetch is out of range.
            at = follower.truncate_to(leader.log_end_offset)
        data = leader.read_bytes(at, self.chosen.choice([300, 5000]), end=leader.log_end_offset)
        if data:
            first = first_offset(data)
            if first < at == follower.log_start_offset:
                # As a follower whose empty log is to begin inside of the leader's batch.
                follower.truncate_fully_and_start_at(first)
            follower.append_as_follower(data)
        mark = min(self.log.log_end_offset, self.other_log.log_end_offset)
        if self.home_leads:
            self.mark = max(self.mark, mark)
            self.other_mark = max(self.other_mark, mark)
        else:
            self.other_mark = max(self.other_mark, mark)
            self.mark = max(self.mark, min(mark, self.log.log_end_offset))

    def change_leader(self) -> None:
        to_other = self.home_leads
        new = self.other_log if to_other else self.log
        complete = new.log_end_offset >= max(self.mark, self.other_mark)
        if not complete and (not self.unclean or self.chosen.random() < 0.5):
            return
        self.cuts += not complete
        self.epoch += 1
        new.writer.begin_epoch(self.epoch)
        self.home_leads = not to_other
        self.follow(self.log if to_other else self.other_log, new)

    # -- actions

    def step(self) -> None:
        chosen = self.chosen
        action = chosen.random()
        self.clock.advance(1)
        if action < 0.22:
            self.produce_07()
        elif action < 0.44:
            self.produce_modern()
        elif action < 0.47 and self.format in (None, "0.11.0"):
            self.transaction()
        elif action < 0.66:
            self.replicate()
        elif action < 0.80:
            self.view.catch_up()
        elif action < 0.88:
            self.view.flush()
        elif action < 0.91:
            self.change_leader()
        elif action < 0.93:
            self.view.delete_expired()
        elif action < 0.945 and self.mark > self.log.log_start_offset:
            start = chosen.randint(self.log.log_start_offset, self.mark)
            self.log.advance_start_to(start)
            if chosen.random() < 0.5:
                self.other_log.advance_start_to(min(start, self.other_log.log_end_offset))
        elif action < 0.96:
            self.compact()
        elif action < 0.975:
            self.manager.upkeep.checkpoint()
        else:
            self.log.flush()

    def payload(self) -> bytes:
        self.counter += 1
        return b"%d." % self.counter + self.chosen.randbytes(self.chosen.choice([0, 0, 5, 90]))

    def set_07(self) -> bytes:
        chosen = self.chosen
        parts = []
        for _ in range(chosen.choice([1, 1, 2, 5])):
            kind = chosen.random()
            magic = chosen.choice([0, 1])
            if kind < 0.7:
                parts.append(build_message(self.payload(), magic=magic))
            elif kind < 0.75:
                parts.append(build_message(self.payload(), attributes=0x40))
            else:
                inner = [
                    build_message(self.payload(), magic=magic) for _ in range(chosen.randint(1, 4))
                ]
                if kind > 0.95:
                    inner = [build_wrapper(Codec.SNAPPY, b"".join(inner)), *inner[:1]]
                codec = chosen.choice([Codec.GZIP, Codec.SNAPPY])
                parts.append(build_wrapper(codec, b"".join(inner)))
        return b"".join(parts)

    def produce_07(self) -> None:
        leader = self.leader
        converted = convert_set(
            self.set_07(), self.clock(), max_batch_bytes=300, max_stretch_bytes=200
        )
        with self.view.appending():
            term = self.master.term
            result = leader.append_as_leader(converted.batches, leader_epoch=self.epoch)
            assert result.count == converted.messages
            self.view.note_sent(result.base_offset, converted.stretches, term)
            if self.chosen.random() < 0.2:
                # Others may be at work meanwhile.
                self.view.catch_up()

    def produce_modern(self) -> None:
        chosen = self.chosen
        records = []
        for _ in range(chosen.choice([1, 1, 3, 8])):
            key = chosen.choice([None, b"a", b"b", b"c"])
            value = None if key and chosen.random() < 0.1 else self.payload()
            records.append((key, value, self.clock(), ()))
        magic = 2 if self.unclean else chosen.choice([0, 1, 2, 2])
        codec = chosen.choice(MODERN_CODECS)
        if magic < codec.first_magic or (codec.first_magic and self.format in ("0.9.0", "0.10.0")):
            codec = Codec.GZIP
        if codec == Codec.LZ4 and (magic == 0 or self.format == "0.9.0"):
            codec = Codec.SNAPPY
        data = encode_message_set(records, magic=magic, codec=codec)
        self.leader.append_as_leader(data, leader_epoch=self.epoch)

    def transaction(self) -> None:
        """Some batches that are committed or aborted, with others between them."""
        leader, chosen = self.leader, self.chosen
        self.sequence += 1
        producer = self.sequence
        asked = leader.begin_verification(producer, 0)
        for sequence in range(chosen.choice([1, 2])):
            data = encode_message_set(
                [(b"k", self.payload(), self.clock(), ())],
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=True,
            )
            leader.append_as_leader(data, leader_epoch=self.epoch, verification=asked)
            if chosen.random() < 0.5:
                self.produce_modern()
            if chosen.random() < 0.3:
                self.replicate()
                self.view.catch_up()
        leader.end_transaction(
            producer,
            0,
            commit=chosen.random() < 0.5,
            coordinator_epoch=0,
            leader_epoch=self.epoch,
        )

    def compact(self) -> None:
        if self.mark <= self.log.log_start_offset:
            return
        before = self.log.config
        self.log.update_config(before.with_topic_overrides({"cleanup.policy": "compact"}))
        try:
            if self.chosen.random() < 0.5:
                self.log.roll()
            part = cleanable_part(self.log, self.mark, self.clock())
            if part.dirty_bytes:
                clean(part, PASS, keep=lambda: {TP})
        finally:
            self.log.update_config(before)

    # -- checks

    def visible(self) -> bytes:
        view = self.view
        found = bytearray()
        at = view.start
        while (part := view.read(at, 1000)) is not None:
            try:
                found += os.pread(part.fd, part.size, part.position)
            finally:
                part.close()
            at = view.start + len(found)
        return bytes(found)

    def check_visible(self) -> None:
        """A position keeps its bytes for ever, and what was visible stays visible."""
        view = self.view
        found = self.visible()
        start, end = view.start, view.visible_end
        assert len(found) == end - start
        assert end >= len(self.stream), "what was visible is gone"
        known = self.stream[start:]
        assert found[: len(known)] == known, "a position changed its bytes"
        self.stream += b"\0" * (start - len(self.stream)) + found[len(known) :]
        self.checks += 1

    def map_records(self, directory=None):
        return [
            record
            for path in map_files(directory or self.view.directory)
            for record in MapReader(path).records()
        ]

    def check_all(self) -> None:
        """Everything of the master is shown, once, in its order; the map says where."""
        before = None
        # What a compaction took from the leader's end no follower gets.
        while before != (before := (self.log.log_end_offset, self.other_log.log_end_offset)):
            self.replicate()
        self.replicate()
        self.view.catch_up()
        self.view.flush()
        self.check_visible()
        end = self.master.end
        bytes_from = self.view.start
        data = self.visible()
        shown = {}
        for record in self.map_records():
            if record.kind == CUT:
                for offset in [each for each in shown if each >= record.offset]:
                    del shown[offset]
                continue
            stretch = data[record.position - bytes_from : record.end - bytes_from]
            found = [each.payload for each in messages(stretch, 0)]
            assert len(found) == record.messages
            for at, payload in enumerate(found):
                assert record.offset + at not in shown
                shown[record.offset + at] = payload
        assert list(shown) == sorted(shown), "not in the master's order"
        first = next(iter(shown), end)
        wanted = {offset: value for offset, value in self.committed() if first <= offset < end}
        for offset, value in wanted.items():
            assert shown[offset] == (value or b""), (offset, shown[offset], value)
        self.check_rebuilt(data)

    def committed(self):
        offset = self.master.start
        while True:
            if offset >= self.master.end:
                return
            found = self.master.read(offset, self.master.end)
            yield from zip(found.offsets, found.values, strict=True)
            if found.next_offset <= offset:
                return
            offset = found.next_offset

    def check_rebuilt(self, data: bytes) -> None:
        """From the maps and the master alone the same bytes come, or none."""
        copy = self.work / f"rebuilt-{self.checks}"
        copy.mkdir()
        for path in map_files(self.view.directory):
            (copy / path.name).write_bytes(path.read_bytes())
        opened = open_view(FileSystem(), copy, self.master, clean=False)
        start = opened.segments[0].start
        rebuilt = b"".join(each.path.read_bytes() for each in opened.segments)
        assert start >= self.view.start
        assert rebuilt == data[start - self.view.start :]
        assert opened.place.offset <= self.view.next_offset
        if start > self.view.start:
            gone = [each for each in self.map_records() if rebuilt_bytes(each, self.master) is None]
            assert any(each.position < start for each in gone)


def shared_end(log, leader):
    """Return up to where two logs hold the same."""
    own = {record.offset: record.value for record in read_all(log)}
    same = log.log_start_offset
    for record in read_all(leader):
        if record.offset in own and own[record.offset] != record.value:
            return record.offset
        same = max(same, record.offset + 1)
    return min(same, log.log_end_offset)


def tell(work: Path, seed: int, **how) -> Story:
    """Tell the story of a seed."""
    story = Story(work, seed, **how)
    story.tell()
    return story
