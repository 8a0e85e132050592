"""A genuine 0.8.2.2 broker opens, serves and compacts logs that our cleaner compacted."""

from pathlib import Path

import pytest

from tests.support import java_clients
from tests.support.brokers import MortalBroker
from tests.support.genuine_broker import GenuineBroker
from tests.support.process import wait_until
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import FetchRequest, MetadataRequest, ProduceRequest
from zkbroker.protocol.messages.fetch import FetchRequestPartition, FetchRequestTopic
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import Codec, encode_message_set, iter_records, offset_after
from zkbroker.runtime import get_runtime

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
        with BrokerConnection(get_runtime("threads"), "127.0.0.1", port) as connection:

            def led() -> bool:
                answer = connection.request(MetadataRequest(topics=list(CODECS)), 0)
                found = [p for topic in answer.topics for p in topic.partitions]
                return len(found) == len(CODECS) and all(p.error_code == 0 for p in found)

            assert wait_until(led, interval_s=0.1)

    def write(self, port: int, prefix: bytes) -> None:
        self.wait_led(port)
        with BrokerConnection(get_runtime("threads"), "127.0.0.1", port) as connection:
            for topic, codec in CODECS.items():
                for turn in range(120):
                    fresh = {
                        b"key-%d" % ((turn * 7 + n) % 40): prefix + b" %d %d " % (turn, n) * 5
                        for n in range(8)
                    }
                    rows = [(key, value, -1, ()) for key, value in fresh.items()]
                    data = encode_message_set(rows, magic=0, codec=codec)
                    partition = ProduceRequestPartition(0, data)
                    request = ProduceRequest(topics=[ProduceRequestTopic(topic, [partition])])

                    def taken(request: ProduceRequest = request) -> bool:
                        # Metadata may name a leader that does not know of it yet.
                        answer = connection.request(request, 0).topics[0].partitions[0]
                        assert answer.error_code in (0, 6), answer
                        return answer.error_code == 0

                    assert wait_until(taken, interval_s=0.05)
                    self.latest[topic] |= fresh
                    self.ends[topic] += len(rows)

    def read(self, port: int, topic: str) -> int:
        """Read a topic to its end and compare; returns how many messages there are."""
        view: dict[bytes | None, bytes | None] = {}
        offset = count = 0
        with BrokerConnection(get_runtime("threads"), "127.0.0.1", port) as connection:
            while offset < self.ends[topic]:
                wanted = FetchRequestPartition(
                    partition=0,
                    current_leader_epoch=-1,
                    fetch_offset=offset,
                    log_start_offset=-1,
                    max_bytes=1 << 16,
                )
                request = FetchRequest(topics=[FetchRequestTopic(topic, [wanted])])
                answer = connection.request(request, 0).topics[0].partitions[0]
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
