"""The cost of TLS for a broker: bytes a second and CPU, against plain, and handshakes a second.

    python -m bench.tls [--megabytes 256] [--rounds 3] [--results DIR]

One broker; librdkafka writes and reads (its TLS is in C, so the broker dominates), one way after
the other, round by round. With kernel TLS (kTLS) slices of files leave by `sendfile`; if the kernel
or OpenSSL lacks it, the bench says so and leaves out the row. Compare the ratios of one run, never
the numbers of two.
"""

import os
import tempfile
import time
import uuid
from pathlib import Path

import confluent_kafka

from bench.figures import Comparison, Found, cpu_seconds, options, publish
from tests.support.certificates import Authority
from zkbroker.config.security import ClientSecurity
from zkbroker.network.client.opening import open_transport
from zkbroker.runtime import get_runtime
from zkbroker.testing import LocalCluster

VALUE_BYTES = 10_000
HANDSHAKES = 200
PLAIN = "plain connections"
_ULP = Path("/proc/sys/net/ipv4/tcp_available_ulp")


def kernel_tls() -> bool:
    """Whether the kernel offers TLS to sockets."""
    return _ULP.exists() and "tls" in _ULP.read_text().split()


def settings(listener: str, cluster: LocalCluster, trusted: str) -> dict[str, str]:
    found = {"bootstrap.servers": cluster.bootstrap(listener)}
    if listener != "PLAINTEXT":
        found |= {"security.protocol": "SSL", "ssl.ca.location": trusted}
    return found


def write(given: dict[str, str], topic: str, messages: int) -> None:
    producer = confluent_kafka.Producer(
        given | {"linger.ms": 5, "batch.size": 900_000, "queue.buffering.max.kbytes": 100_000}
    )
    value = os.urandom(VALUE_BYTES)
    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


def read(given: dict[str, str], topic: str, messages: int) -> None:
    consumer = confluent_kafka.Consumer(
        given
        | {
            "group.id": uuid.uuid4().hex,
            "enable.auto.commit": False,
            "max.partition.fetch.bytes": 4_000_000,
            "fetch.message.max.bytes": 4_000_000,
            "check.crcs": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    while messages > 0:
        messages -= len(consumer.consume(1000, 1.0))
    consumer.close()


def shake_hands(port: int, trusted: str) -> None:
    security = ClientSecurity.from_properties(
        {"security.protocol": "SSL", "ssl.ca.location": trusted}
    )
    for _ in range(HANDSHAKES):
        open_transport(get_runtime("threads"), "127.0.0.1", port, 10, security=security).close()


def run(megabytes: int, rounds: int) -> list[Comparison]:
    messages = megabytes * 1_000_000 // VALUE_BYTES
    listeners = ["PLAINTEXT", "COPIED"]
    if kernel_tls():
        listeners.append("KERNEL")
    else:
        print("kTLS: not available (this kernel has no module `tls`)")
    with tempfile.TemporaryDirectory() as directory:
        authority = Authority()
        trusted = authority.trusted(Path(directory))
        key = authority.issue("CN=broker", rsa_key=True).pem(Path(directory))
        properties = {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in listeners),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,COPIED:SSL,KERNEL:SSL",
            "ssl.keystore.location": key,
            "listener.name.copied.ssl.kernel.offload": "false",
        }
        with LocalCluster(1, properties=properties) as cluster:
            return measure(cluster, listeners, trusted, messages, rounds)


def measure(
    cluster: LocalCluster, listeners: list[str], trusted: str, messages: int, rounds: int
) -> list[Comparison]:
    pid = cluster.broker(1).pid
    assert pid is not None
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for name in listeners:
            topic = cluster.create_topic()
            given = settings(name, cluster, trusted)
            for what, work in (("write", write), ("read", read)):
                started, cpu = time.perf_counter(), cpu_seconds(pid)
                work(given, topic, messages)
                taken = time.perf_counter() - started, cpu_seconds(pid) - cpu
                found.setdefault((what, name), []).append(taken)
    gigabytes = messages * VALUE_BYTES / 1e9
    comparisons = []
    for what in ("write", "read"):
        for name in listeners[1:]:
            sides = [found[what, each] for each in (name, "PLAINTEXT")]
            rates = [[gigabytes * 1000 / seconds for seconds, _ in side] for side in sides]
            costs = [[cpu / gigabytes for _, cpu in side] for side in sides]
            work = f"{what}, TLS" + (" by the kernel" if name == "KERNEL" else "")
            comparisons += [
                Comparison(work, "MB/s", PLAIN, *rates),
                Comparison(work, "CPU-s a GB", PLAIN, *costs, more_is_better=False),
            ]
    started, cpu = time.perf_counter(), cpu_seconds(pid)
    shake_hands(int(cluster.bootstrap("COPIED").rpartition(":")[2]), trusted)
    print(
        f"handshakes (RSA 2048)  {HANDSHAKES / (time.perf_counter() - started):7.0f} a second   "
        f"broker's CPU {1000 * (cpu_seconds(pid) - cpu) / HANDSHAKES:6.2f} ms each"
    )
    return comparisons


def main() -> None:
    parser = options(__doc__, rounds=3)
    parser.add_argument("--megabytes", type=int, default=256)
    given = parser.parse_args()
    publish(Found("tls", run(given.megabytes, given.rounds)), given.results)


if __name__ == "__main__":
    main()
