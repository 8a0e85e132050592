"""Compacting topics of few keys: speed, memory, and what a producer of another topic feels.

    python -m bench.compaction                2.5 million records over 50,000 keys, 200 MB
    python -m bench.compaction --full         50 million records over 1 million keys, 4 GB
    python -m bench.compaction --soak 30      a topic of 100,000 keys under load for 30 minutes

The broker is a process of its own. The topics are written into its data directory, one after the
other becomes `cleanup.policy=compact`, and a client sends ten records every 10 ms to another topic
all the while. Latencies are taken in windows: those in which nothing was compacted lie between
those of the passes, so that what else the machine does counts for both. Given are MB compacted per
second, the broker's largest resident size, and the median of the windows' 99th percentiles.

The soak sends changes of few keys as fast as `--rate` says and says every minute how many bytes the
topic has, what was sent, and the 99th percentile; it fails when the topic does not stay bounded.
"""

import argparse
import itertools
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from zkbroker.admin.topics import alter_config
from zkbroker.cluster import ClusterProcesses
from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.log import Log, LogManager, TopicPartition
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import ProduceRequest
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import encode_message_set
from zkbroker.registry.topics import create_topic
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession

BESIDE = "beside"
_BATCH = 200
_EVERY_S = 0.01
_SEGMENT_BYTES = 64 << 20


def write(log: Log, records: int, keys: int) -> None:
    """Fill a log with batches of records of about 80 bytes."""
    chosen = random.Random(1).randrange
    value = b"v" * 52
    for base in range(0, records, _BATCH):
        rows = [
            (b"key-%012d" % chosen(keys), value, 1_700_000_000_000 + base, ())
            for _ in range(min(_BATCH, records - base))
        ]
        log.append_as_leader(bytearray(encode_message_set(rows)), leader_epoch=0)
    log.roll()
    log.flush()


def fill(directory: Path, topics: list[str], records: int, keys: int) -> float:
    """Write topics into the data directory of a broker that is stopped; returns MB of each."""
    manager = LogManager(
        LogManagerConfig(log_dirs=(str(directory),), cleaner_enable=False),
        LogConfig(segment_bytes=_SEGMENT_BYTES, retention_ms=-1),
        runtime="threads",
    )
    manager.start()
    try:
        for topic in topics:
            write(manager.get_or_create(TopicPartition(topic, 0)), records, keys)
        return manager.get_or_create(TopicPartition(topics[0], 0)).size_bytes / 1e6
    finally:
        manager.close()


class Broker:
    """One broker in a process of its own, with its ZooKeeper."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        properties = {
            "log.cleaner.backoff.ms": "100",
            "log.segment.bytes": str(_SEGMENT_BYTES),
        }
        self.cluster = stack.enter_context(
            ClusterProcesses(directory, brokers=1, properties=properties)
        )
        self.process = self.cluster.broker(1)
        self.session = stack.enter_context(ZkSession(self.cluster.zookeeper))
        self.data = directory / "broker-1"

    @property
    def port(self) -> int:
        return self.process.address[1]

    def peak_mb(self) -> float:
        """The largest resident size so far."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.partition("VmHWM:")[2].split()[0]) / 1024

    def cleaned(self, topic: str) -> bool:
        """Whether a pass over a topic is done."""
        found = list(self.data.rglob("cleaner-offset-checkpoint"))
        return any(f"{topic} 0 " in path.read_text() for path in found)


class Client:
    """Sends records to a topic and notes how long each request took."""

    def __init__(self, port: int, topic: str) -> None:
        self._connection = BrokerConnection(get_runtime("threads"), "127.0.0.1", port)
        self._topic = topic

    def close(self) -> None:
        self._connection.close()

    def send(self, rows: list[tuple[bytes, bytes, int, tuple[()]]]) -> float:
        """Send rows as one batch; returns the seconds until the answer."""
        data = encode_message_set(rows)
        request = ProduceRequest(
            acks=1,
            timeout_ms=30_000,
            topics=[ProduceRequestTopic(self._topic, [ProduceRequestPartition(0, data)])],
        )
        started = time.monotonic()
        answer = self._connection.request(request)
        took = time.monotonic() - started
        code = answer.topics[0].partitions[0].error_code
        if code:
            raise RuntimeError(f"{self._topic}: error {code}")
        return took


class Windows:
    """The latencies of a client that sends at a fixed rate, in windows."""

    def __init__(self, client: Client, seconds: float) -> None:
        self._client = client
        self._seconds = seconds

    def take(self) -> float:
        """Send for one window; returns its 99th percentile in ms."""
        rows = [
            (b"k%d" % number, b"v" * 100, time.time_ns() // 1_000_000, ()) for number in range(10)
        ]
        times = []
        due = time.monotonic()
        end = due + self._seconds
        while due < end:
            time.sleep(max(due - time.monotonic(), 0))
            took = self._client.send(rows)
            # From when it was due: what waited behind a slow one was slow too.
            times.append(max(time.monotonic() - due, took))
            due = max(due + _EVERY_S, time.monotonic() - 1)
        return sorted(times)[int(len(times) * 0.99)] * 1000


@contextmanager
def ready(topics: list[str], records: int, keys: int) -> Iterator[tuple[Broker, float]]:
    """A broker with its topics, and the MB of each."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compaction-")))
        broker = Broker(directory, stack)
        settings = {"retention.ms": "-1", "segment.bytes": str(_SEGMENT_BYTES)}
        for topic in [BESIDE, *topics]:
            create_topic(broker.session, topic, {0: [1]}, settings)
        broker.process.stop()
        size = fill(broker.data, topics, records, keys) if topics else 0.0
        broker.process.start(120)
        yield broker, size


def measure(records: int, keys: int, topics: list[str], seconds: float) -> None:
    """Compact the topics one after the other and print what it took."""
    with ready(topics, records // len(topics), keys // len(topics)) as (broker, size):
        client = Client(broker.port, BESIDE)
        windows = Windows(client, seconds)
        windows.take()
        quiet, busy, speeds = [windows.take() for _ in range(2)], [], []
        for topic in topics:
            changed = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"}
            alter_config(broker.session, topic, add=changed)
            started = time.monotonic()
            found = []
            while not broker.cleaned(topic):
                found.append(windows.take())
            speeds.append(size / (time.monotonic() - started))
            # The last one is of the pass and of the time behind it.
            busy += found[:-1] or found
            windows.take()
            quiet += [windows.take() for _ in range(2)]
        print(
            f"{len(topics)} x {size:.0f} MB: {statistics.median(speeds):.1f} MB/s at least, "
            f"{broker.peak_mb():.0f} MB resident at most"
        )
        for name, found in (("without", quiet), ("beside", busy)):
            print(
                f"produces {name} a pass: median of {len(found)} windows' p99 "
                f"{statistics.median(found):.2f} ms "
                f"({', '.join(f'{each:.1f}' for each in found[:30])})"
            )
        print(f"ratio {statistics.median(busy) / statistics.median(quiet):.2f}")
        client.close()


def soak(minutes: float, keys: int, rate: int) -> None:
    """Keep a compacted topic under load, and see that it stays bounded."""
    with ready([], 0, 0) as (broker, _):
        segment = 8 << 20
        settings = {"cleanup.policy": "compact", "segment.bytes": str(segment)}
        create_topic(broker.session, "state", {0: [1]}, settings)
        live = keys * 80 / 1e6
        # Half of what may be compacted is dirt before a pass, then come a pass's own copy and the
        # segments that are written meanwhile.
        bound = 4 * live + 4 * segment / 1e6
        stop = threading.Event()
        sent = itertools.count()
        counted = [0]

        def load() -> None:
            client = Client(broker.port, "state")
            chosen = random.Random(2).randrange
            value = b"v" * 52
            due = time.monotonic()
            while not stop.is_set():
                now = time.time_ns() // 1_000_000
                rows = [(b"key-%012d" % chosen(keys), value, now, ()) for _ in range(_BATCH)]
                client.send(rows)
                counted[0] = next(sent) + 1
                due += _BATCH / rate
                time.sleep(max(due - time.monotonic(), 0))
            client.close()

        loader = threading.Thread(target=load)
        time.sleep(2)
        loader.start()
        client = Client(broker.port, BESIDE)
        windows = Windows(client, 10)
        largest = 0.0
        started = time.monotonic()
        try:
            while time.monotonic() - started < minutes * 60:
                found = [windows.take() for _ in range(min(6, max(int(minutes * 6), 1)))]
                size = sum(p.stat().st_size for p in (broker.data / "state-0").glob("*.log")) / 1e6
                largest = max(largest, size)
                print(
                    f"{(time.monotonic() - started) / 60:.1f} min: sent "
                    f"{counted[0] * _BATCH * 74 / 1e6:.0f} MB, the topic has {size:.0f} MB "
                    f"(bound {bound:.0f}), {broker.peak_mb():.0f} MB resident at most, "
                    f"p99 {statistics.median(found):.1f} ms",
                    flush=True,
                )
                if size > bound:
                    raise SystemExit("the topic does not stay bounded")
        finally:
            stop.set()
            loader.join()
            client.close()
        print(f"bounded: {largest:.0f} MB at most for {live:.0f} MB of latest values")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=2_500_000)
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--full", action="store_true", help="50 M records over 1 M keys")
    parser.add_argument("--topics", type=int, default=4, help="that they are divided among")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a window")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="a topic under load instead")
    parser.add_argument("--rate", type=int, default=20_000, help="records a second of the soak")
    options = parser.parse_args()
    if options.soak:
        soak(options.soak, 100_000, options.rate)
        return
    records, keys = (50_000_000, 1_000_000) if options.full else (options.records, options.keys)
    topics = [f"state-{number}" for number in range(options.topics)]
    measure(records, keys, topics, options.seconds)


if __name__ == "__main__":
    main()
