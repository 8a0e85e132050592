"""A view over a real log, on threads, for tests of single steps."""

import os
from contextlib import contextmanager

from tests.support.clocks import Clock
from tests.support.logs import TP, UnsyncedFileSystem, make_manager
from tests.support.view_story import Inline
from zkbroker.config.legacy07 import Legacy07Config
from zkbroker.log.legacy07 import Legacy07Logs
from zkbroker.log.legacy07.directory import Claim
from zkbroker.log.legacy07.master import LogMaster
from zkbroker.records import Codec, encode_message_set
from zkbroker.records.generations import convert_set
from zkbroker.records.legacy07 import messages


class Shown:
    """A log, its high watermark, and its view."""

    def __init__(self, path, fs=None, mark=None, **settings):
        self.path = path
        self.clock = Clock()
        self.runtime = Inline()
        self.manager = make_manager(
            path / "newer", clock=self.clock, runtime=self.runtime, segment_bytes=1000
        )
        self.manager.start()
        self.log = self.manager.get_or_create(TP)
        self.mark = mark
        self.epoch = 0
        self.master = LogMaster(
            self.log,
            lambda: self.log.log_end_offset if self.mark is None else self.mark,
            lambda: self.epoch,
        )
        self.settings = {"flush_messages": 10**6, **settings}
        self.open(fs)

    def open(self, fs=None):
        self.logs = Legacy07Logs(
            Legacy07Config(log_dir=str(self.path / "legacy"), **self.settings),
            runtime=self.runtime,
            now_ms=self.clock,
            fs=fs or UnsyncedFileSystem(),
            masters=lambda topic, partition: self.master,
        )
        self.logs.start()
        if not self.logs.views():
            self.logs.make_views("t", [Claim(0, TP.partition, self.log.log_start_offset)])
        self.view = self.logs.views()["t", 0]
        self.view.attach(self.master)

    def reopen(self, *, clean=True):
        self.logs.close()
        if not clean:
            (self.path / "legacy" / ".kafka_cleanshutdown").unlink()
        self.open()

    def close(self):
        self.logs.close()
        self.manager.close()

    def modern(self, *values, codec=Codec.NONE, **how):
        records = [(b"key", value, self.clock(), ()) for value in values]
        data = encode_message_set(records, codec=codec, **how)
        return self.log.append_as_leader(data, leader_epoch=self.epoch).base_offset

    def old(self, data):
        converted = convert_set(data, 1, max_batch_bytes=10_000, max_stretch_bytes=1000)
        with self.view.appending():
            term = self.master.term
            base = self.log.append_as_leader(converted.batches, leader_epoch=self.epoch).base_offset
            self.view.note_sent(base, converted.stretches, term)
        return base

    def show(self):
        self.view.catch_up()
        self.view.flush()

    def bytes(self):
        found, at = b"", self.view.start
        while (part := self.view.read(at, 100_000)) is not None:
            found += os.pread(part.fd, part.size, part.position)
            at += part.size
            part.close()
        return found

    def payloads(self):
        return [each.payload for each in messages(self.bytes(), 0)]


@contextmanager
def shown(path, **settings):
    """A view until the end of the `with`."""
    found = Shown(path, **settings)
    try:
        yield found
    finally:
        found.close()
