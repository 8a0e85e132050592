"""Hostile requests: how long a bystander waits, and what memory the broker takes.

Each attack is one request, or a few, against a broker of its own, while another client asks for
the API versions again and again. Reported: the bystander's longest wait, resident memory at its
peak, how long the attack took to be answered or cut, and the broker's CPU time meanwhile.

    python -m bench.hostile [--only NAME] [--seconds 20]
"""

import argparse
import multiprocessing
import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import RequestHeader, encode_request
from zkbroker.protocol.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    FetchRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
    WriteTxnMarkersRequest,
)
from zkbroker.protocol.messages.configs import DescribeConfigsResource
from zkbroker.protocol.messages.fetch import FetchRequestPartition, FetchRequestTopic
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from zkbroker.protocol.messages.membership import JoinGroupProtocol
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.protocol.messages.transactions import TxnTopicPartitions
from zkbroker.protocol.messages.write_txn_markers import TxnMarker
from zkbroker.records import Codec, compress, crc32c, encode_message_set
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

PARTITIONS = 200
Address = tuple[str, int]
Attack = Callable[[Address, float], object]


def encoded(request: object, key: int, version: int) -> bytes:
    return b"".join(encode_request(RequestHeader(key, version, 1, "hostile"), request))  # type: ignore[arg-type]


def ask(address: Address, sent: bytes, seconds: float, source: str = "127.0.0.2") -> int:
    """Send one request and read its answer; returns its size, 0 when the connection was closed."""
    with socket.create_connection(address, seconds, source_address=(source, 0)) as connection:
        connection.settimeout(seconds)
        try:
            connection.sendall(sent)
            size = connection.recv(4, socket.MSG_WAITALL)
            if len(size) < 4:
                return 0
            left = struct.unpack(">i", size)[0]
            while left > 0 and (got := len(connection.recv(min(left, 1 << 20)))):
                left -= got
        except OSError:
            return 0
        return int(struct.unpack(">i", size)[0])


def bomb(count: int) -> bytes:
    """A zstd batch of smallest records that all have offset delta 0."""
    record = b"\x0c\x00\x00\x00\x01\x01\x00"
    head = bytearray(encode_message_set([(None, b"x", 1000, ())])[:61])
    out = head + compress(Codec.ZSTD, record * count)
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    out[22] = Codec.ZSTD
    out[23:27] = (count - 1).to_bytes(4, "big")
    out[27:43] = bytes(16)
    out[57:61] = count.to_bytes(4, "big")
    out[17:21] = crc32c(bytes(out[21:])).to_bytes(4, "big")
    return bytes(out)


def produce(sets: list[bytes]) -> bytes:
    partitions = [ProduceRequestPartition(at, data) for at, data in enumerate(sets)]
    return encoded(ProduceRequest(topics=[ProduceRequestTopic("t", partitions)]), 0, 7)


def one_bomb(address: Address, seconds: float) -> object:
    return ask(address, produce([bomb(18_900_000)]), seconds)


def many_bombs(address: Address, seconds: float) -> object:
    return ask(address, produce([bomb(100_000)] * PARTITIONS), seconds)


def fetch_many(address: Address, seconds: float) -> object:
    partitions = [FetchRequestPartition(at, fetch_offset=0, max_bytes=1) for at in range(1_000_000)]
    return ask(
        address, encoded(FetchRequest(topics=[FetchRequestTopic("t", partitions)]), 1, 4), seconds
    )


def fetch_allowed(address: Address, seconds: float) -> object:
    """As many partitions as one request may name."""
    partitions = [FetchRequestPartition(at, fetch_offset=0, max_bytes=1) for at in range(190_000)]
    return ask(
        address, encoded(FetchRequest(topics=[FetchRequestTopic("t", partitions)]), 1, 4), seconds
    )


def list_many(address: Address, seconds: float) -> object:
    partitions = [ListOffsetsRequestPartition(at, timestamp=-1) for at in range(1_000_000)]
    request = ListOffsetsRequest(topics=[ListOffsetsRequestTopic("t", partitions)])
    return ask(address, encoded(request, 2, 1), seconds)


def describe_again(address: Address, seconds: float) -> object:
    request = DescribeConfigsRequest([DescribeConfigsResource(2, "t", None)] * 30_000)
    return ask(address, encoded(request, 32, 1), seconds)


def joins(address: Address, seconds: float) -> object:
    """Joins of 100 KB each, of a group each, whose clients do not wait."""
    until = time.monotonic() + seconds
    sent = 0
    while sent < 17_000 and time.monotonic() < until:
        request = JoinGroupRequest(
            f"g{sent}", 1_800_000, 1_800_000, "", "consumer", [JoinGroupProtocol("r", NOISE)]
        )
        with socket.create_connection(address, 10) as connection:
            connection.sendall(encoded(request, 11, 1))
        sent += 1
    return sent


def slow_requests(address: Address, seconds: float) -> object:
    """30 that announce 100 MB and drip, while a client of another address sends 1 MB."""
    with ExitStack() as stack:
        for _ in range(30):
            slow = stack.enter_context(
                socket.create_connection(address, seconds, source_address=("127.0.0.2", 0))
            )
            slow.sendall((100_000_000).to_bytes(4, "big") + bytes(70_000))
        time.sleep(0.3)
        data = encode_message_set([(None, bytes(900_000), 1000, ())])
        return ask(address, produce([data]), seconds, "127.0.0.1")


def conversions(address: Address, seconds: float) -> object:
    """20 readers of message format 1 at a gzip batch that expands a hundredfold."""
    records = [(None, b"%08d" % at * 10, 1000, ()) for at in range(900_000)]
    data = encode_message_set(records, codec=Codec.GZIP)
    assert ask(address, produce([data]), 60)
    sent = encoded(
        FetchRequest(
            topics=[FetchRequestTopic("t", [FetchRequestPartition(0, max_bytes=1 << 20)])]
        ),
        1,
        2,
    )
    readers = [threading.Thread(target=ask, args=(address, sent, seconds)) for _ in range(20)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return len(data)


def aborts(address: Address, seconds: float) -> object:
    """Markers that abort transactions of 40,000 producers, in one partition."""
    topics = [TxnTopicPartitions("t", [0])]
    markers = [TxnMarker(at, 0, False, topics, 0) for at in range(40_000)]
    return ask(address, encoded(WriteTxnMarkersRequest(markers), 27, 0), seconds)


NOISE = os.urandom(100_000)
ATTACKS: dict[str, Attack] = {
    "one batch of 18.9 M records": one_bomb,
    "200 batches of 100,000 records": many_bombs,
    "fetch of 1,000,000 partitions": fetch_many,
    "fetch of 190,000 partitions": fetch_allowed,
    "ListOffsets of 1,000,000": list_many,
    "30,000 times one topic's configs": describe_again,
    "17,000 joins of 100 KB": joins,
    "30 slow requests of 100 MB": slow_requests,
    "20 conversions of a large batch": conversions,
    "40,000 aborts in one partition": aborts,
}


@dataclass
class Seen:
    """What was seen of the broker: the bystander's longest wait in s, memory in MB."""

    longest_s: float = 0.0
    peak_mb: float = 0.0
    error: str = ""


def peak_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024


def cpu_s(pid: int) -> float:
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def watch(address: Address, pid: int, pipe: Connection) -> None:
    """Ask again and again until told to end, and tell the longest wait; in a process of its own."""
    seen = Seen()
    try:
        with BrokerConnection(
            get_runtime("threads"), *address, client_id="bystander", request_timeout_ms=600_000
        ) as connection:
            while not pipe.poll():
                began = time.monotonic()
                connection.request(ApiVersionsRequest())
                seen.longest_s = max(seen.longest_s, time.monotonic() - began)
                seen.peak_mb = max(seen.peak_mb, peak_mb(pid))
                time.sleep(0.002)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what was seen
        seen.error = f"{type(error).__name__}: {error}"
    pipe.send(seen)


@contextmanager
def running(zookeeper: EmbeddedZooKeeper, directory: Path) -> Iterator[BrokerProcess]:
    """A broker of its own in ZooKeeper and on disk."""
    broker = BrokerProcess(
        directory,
        {
            "broker.id": "0",
            "zookeeper.connect": f"{zookeeper.connect_string}/{directory.name}",
            "offsets.topic.num.partitions": "1",
            "message.max.bytes": "10000000",
        },
    )
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def prepare(broker: BrokerProcess) -> None:
    """Make the topic and the offsets topic."""
    host, port = broker.address
    with BrokerConnection(get_runtime("threads"), host, port, client_id="bench") as connection:
        connection.request(CreateTopicsRequest([NewTopic("t", PARTITIONS, 1)], 30_000))
        connection.request(MetadataRequest(["__consumer_offsets"]))
    time.sleep(2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="attacks whose name holds this")
    parser.add_argument("--seconds", type=float, default=20.0, help="longest time of an attack")
    given = parser.parse_args()
    print(f"{'attack':36} {'bystander waits':>16} {'peak memory':>12} {'took':>8} {'CPU':>8}")
    with EmbeddedZooKeeper() as zookeeper, tempfile.TemporaryDirectory() as directory:
        for number, (name, attack) in enumerate(ATTACKS.items()):
            if given.only in name:
                with running(zookeeper, Path(directory) / f"hostile-{number}") as broker:
                    measure(broker, name, attack, given.seconds)


def measure(broker: BrokerProcess, name: str, attack: Attack, seconds: float) -> None:
    prepare(broker)
    assert broker.pid is not None
    spawn = multiprocessing.get_context("spawn")
    pipe, theirs = spawn.Pipe()
    watching = spawn.Process(target=watch, args=(broker.address, broker.pid, theirs))
    watching.start()
    time.sleep(2)
    began, cpu = time.monotonic(), cpu_s(broker.pid)
    outcome = attack(broker.address, seconds)
    took, cpu = time.monotonic() - began, cpu_s(broker.pid) - cpu
    pipe.send("end")
    seen = pipe.recv()
    watching.join()
    print(
        f"{name:36} {seen.longest_s * 1000:13.0f} ms {seen.peak_mb:9.0f} MB "
        f"{took:6.1f} s {cpu:6.1f} s  {outcome} {seen.error}",
        flush=True,
    )


if __name__ == "__main__":
    main()
