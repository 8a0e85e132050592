"""A data directory handed back and forth between our broker and a genuine 0.8.2.2 broker.

Both keep the same broker id and the same ZooKeeper tree; messages are written by both and must be
read by both, offset by offset, after clean stops and after kills.
"""

from pathlib import Path

import pytest

from tests.support import java_clients
from tests.support.broker_requests import all_led, fetch, produce
from tests.support.brokers import MortalBroker
from tests.support.genuine_broker import GenuineBroker
from tests.support.process import wait_until
from zkbroker.errors import ErrorCode
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.records import Codec, encode_message_set, iter_records
from zkbroker.registry.topics import set_topic_config
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.session import ZkSession

pytestmark = pytest.mark.skipif(java_clients.old_missing(), reason=java_clients.REASON)

CODECS = {"plain": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4}
PARTITIONS = 2
SHARED = {"broker.id": "7", "log.segment.bytes": "40000", "num.partitions": str(PARTITIONS)}

Message = tuple[bytes | None, bytes | None]


def to(port: int) -> BrokerConnection:
    return BrokerConnection(get_runtime("threads"), "127.0.0.1", port)


class Story:
    """The messages written so far; writes and reads by requests of version 0."""

    def __init__(self) -> None:
        self.written: dict[tuple[str, int], list[Message]] = {
            (topic, number): [] for topic in CODECS for number in range(PARTITIONS)
        }

    def wait_led(self, port: int) -> None:
        partitions = dict.fromkeys(CODECS, PARTITIONS)
        with to(port) as connection:
            assert wait_until(lambda: all_led(connection, partitions), interval_s=0.1)

    def write(self, port: int, prefix: bytes, sets: int = 12) -> None:
        """Write sets of 1 to 9 messages, with null keys, null values and empty ones among them."""
        self.wait_led(port)
        with to(port) as connection:
            for (topic, number), messages in self.written.items():
                for turn in range(sets):
                    fresh: list[Message] = [
                        (
                            None if n % 3 == 0 else b"key-%d" % n,
                            None if n % 7 == 1 else b"%s %d " % (prefix, turn) * (n * n * 3),
                        )
                        for n in range(turn % 9 + 1)
                    ]
                    data = encode_message_set(
                        [(key, value, -1, ()) for key, value in fresh],
                        magic=0,
                        codec=CODECS[topic],
                    )
                    answer = produce(connection, topic, data, version=0, partition=number)
                    assert (answer.error_code, answer.base_offset) == (0, len(messages))
                    messages += fresh

    def check(self, port: int) -> None:
        """Read everything: nothing is missing, changed or at another offset."""
        self.wait_led(port)
        with to(port) as connection:
            for (topic, number), messages in self.written.items():

                def led(topic: str = topic, number: int = number) -> bool:
                    # A broker may tell of its leadership a moment before it leads.
                    code = fetch(connection, topic, 0, version=0, partition=number).error_code
                    return code != ErrorCode.NOT_LEADER_FOR_PARTITION

                assert wait_until(led, interval_s=0.1)
                found: list[Message] = []
                while len(found) < len(messages):
                    answer = fetch(
                        connection, topic, len(found),
                        version=0, partition=number, max_bytes=1 << 16,
                    )  # fmt: skip
                    assert answer.error_code == 0
                    fresh = list(iter_records(answer.records, start_offset=len(found)))
                    assert fresh, (topic, number, len(found))
                    for record in fresh:
                        assert record.offset == len(found)
                        found.append((record.key, record.value))
                assert found == messages


@pytest.fixture
def brokers(chroot: str, tmp_path: Path):
    ours = MortalBroker(
        tmp_path,
        {
            **SHARED,
            "zookeeper.connect": chroot,
            "log.message.format.version": "0",
        },
    )
    genuine = GenuineBroker(tmp_path, chroot, ours.data_directory, SHARED)
    yield ours, genuine
    ours.kill()
    genuine.kill()


def test_genuine_broker_uses_our_data_directory_and_returns_it(brokers) -> None:
    ours, genuine = brokers
    story = Story()
    ours.start()
    story.write(ours.address[1], b"ours")
    story.check(ours.address[1])
    ours.stop()

    genuine.start()
    story.check(genuine.port)
    story.write(genuine.port, b"genuine")
    story.check(genuine.port)
    genuine.stop()

    ours.start()
    story.check(ours.address[1])
    story.write(ours.address[1], b"ours again")
    ours.kill()

    genuine.start()
    story.check(genuine.port)
    story.write(genuine.port, b"genuine again")
    genuine.kill()

    ours.start()
    story.check(ours.address[1])
    ours.stop()


def test_genuine_dump_tool_accepts_our_segments(brokers) -> None:
    ours, _ = brokers
    story = Story()
    ours.start()
    story.write(ours.address[1], b"ours")
    ours.stop()
    for (topic, number), messages in story.written.items():
        logs = sorted((ours.data_directory / f"{topic}-{number}").glob("*.log"))
        files = ",".join(map(str, logs))
        options = ["--files", files, "--deep-iteration"]
        output = java_clients.run(
            java_clients.tool_command("kafka.tools.DumpLogSegments", *options)
        )
        lines = [line for line in output.splitlines() if line.startswith("offset:")]
        assert all("isvalid: true" in line for line in lines)
        assert [int(line.split()[1]) for line in lines] == list(range(len(messages)))


def test_genuine_broker_follows_settings_of_our_tool(brokers, chroot: str) -> None:
    _, genuine = brokers
    genuine.start()
    story = Story()
    story.wait_led(genuine.port)  # which makes the topics
    value = b"x" * 1000

    def produced() -> int:
        data = encode_message_set([(None, value, -1, ())], magic=0)
        with to(genuine.port) as connection:
            return produce(connection, "plain", data, version=0).error_code

    # Metadata may name a leader a moment before that broker leads.
    assert wait_until(lambda: produced() == 0, interval_s=0.1)
    with ZkSession(chroot) as session:
        set_topic_config(session, "plain", {"max.message.bytes": "500"})
        assert wait_until(lambda: produced() == ErrorCode.MESSAGE_TOO_LARGE, interval_s=0.1)
        set_topic_config(session, "plain", {})
        assert wait_until(lambda: produced() == 0, interval_s=0.1)
    genuine.stop()
    # It reads the notes again.
    genuine.start()
    story.wait_led(genuine.port)
    assert wait_until(lambda: produced() == 0, interval_s=0.1)
