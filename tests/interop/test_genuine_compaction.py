"""A genuine 0.8.2.2 broker opens, serves and compacts logs that our cleaner compacted."""

from pathlib import Path

import pytest

from tests.interop.test_genuine_broker import to
from tests.support import java_clients
from tests.support.broker_requests import all_led, fetch, produce
from tests.support.brokers import MortalBroker
from tests.support.genuine_broker import GenuineBroker
from tests.support.process import wait_until
from zkbroker.errors import ErrorCode
from zkbroker.records import Codec, encode_message_set, iter_records, offset_after

pytestmark = pytest.mark.skipif(java_clients.old_missing(), reason=java_clients.REASON)

SHARED = {
    "broker.id": "7",
    "num.partitions": "1",
    "log.segment.bytes": "4000",
    "log.cleanup.policy": "compact",
    "log.cleaner.enable": "true",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "8000000",
}
CODECS = {"plain": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4}


class State:
    """The latest value of each key, and the offsets in the log."""

    def __init__(self) -> None:
        self.latest: dict[str, dict[bytes, bytes]] = {topic: {} for topic in CODECS}
        self.ends = dict.fromkeys(CODECS, 0)

    def wait_led(self, port: int) -> None:
        partitions = dict.fromkeys(CODECS, 1)
        with to(port) as connection:
            assert wait_until(lambda: all_led(connection, partitions), interval_s=0.1)

    def write(self, port: int, prefix: bytes) -> None:
        self.wait_led(port)
        with to(port) as connection:
            for topic, codec in CODECS.items():
                for turn in range(120):
                    fresh = {
                        b"key-%d" % ((turn * 7 + n) % 40): prefix + b" %d %d " % (turn, n) * 5
                        for n in range(8)
                    }
                    rows = [(key, value, -1, ()) for key, value in fresh.items()]
                    data = encode_message_set(rows, magic=0, codec=codec)

                    def taken(topic: str = topic, data: bytes = data) -> bool:
                        # Metadata may name a leader that does not know of it yet.
                        code = produce(connection, topic, data, version=0).error_code
                        assert code in (0, ErrorCode.NOT_LEADER_FOR_PARTITION)
                        return code == 0

                    assert wait_until(taken, interval_s=0.05)
                    self.latest[topic] |= fresh
                    self.ends[topic] += len(rows)

    def read(self, port: int, topic: str) -> int:
        """Read a topic to its end and compare; returns how many messages there are."""
        view: dict[bytes | None, bytes | None] = {}
        offset = count = 0
        with to(port) as connection:
            while offset < self.ends[topic]:
                answer = fetch(connection, topic, offset, version=0, max_bytes=1 << 16)
                assert answer.error_code == 0
                for record in iter_records(answer.records, start_offset=offset):
                    view[record.key] = record.value
                    count += 1
                following = offset_after(answer.records)
                assert following is not None
                assert following > offset
                offset = following
        assert view == self.latest[topic]
        return count

    def compacted(self, port: int) -> bool:
        counts = {topic: self.read(port, topic) for topic in CODECS}
        return all(count < self.ends[topic] / 2 for topic, count in counts.items())


def test_compacted_logs_open_in_both_brokers(chroot: str, tmp_path: Path) -> None:
    ours = MortalBroker(
        tmp_path,
        {
            **SHARED,
            "zookeeper.connect": chroot,
            "log.message.format.version": "0",
        },
    )
    genuine = GenuineBroker(tmp_path, chroot, ours.data_directory, SHARED)
    state = State()
    try:
        ours.start()
        state.write(ours.address[1], b"ours")
        assert wait_until(lambda: state.compacted(ours.address[1]), interval_s=0.5)
        ours.stop()

        genuine.start()
        state.write(genuine.port, b"genuine")
        assert wait_until(lambda: state.compacted(genuine.port), interval_s=0.5)
        genuine.stop()
        assert "requirement failed" not in genuine.output

        ours.start()
        state.write(ours.address[1], b"ours again")
        assert wait_until(lambda: state.compacted(ours.address[1]), interval_s=0.5)
        ours.kill()

        genuine.start()
        state.wait_led(genuine.port)
        for topic in CODECS:
            state.read(genuine.port, topic)
        genuine.stop()
    finally:
        ours.kill()
        genuine.kill()
