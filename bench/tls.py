"""What TLS costs a broker: bytes a second and CPU, against plain, and handshakes a second.

    python -m bench.tls [--megabytes 256] [--rounds 3]

One broker; librdkafka writes and reads (its TLS is C, so that the broker is what is measured), way
after way, round by round. With kernel TLS (kTLS) slices of files leave by `sendfile`; where the
kernel or OpenSSL does not give it, the bench says so and leaves the row out. Compare the ratios of
one run, never the numbers of two.
"""

import argparse
import os
import statistics
import tempfile
import time
import uuid
from pathlib import Path

import confluent_kafka

from tests.support.certificates import Authority
from zkbroker.config.security import ClientSecurity
from zkbroker.network.client.opening import open_transport
from zkbroker.runtime import get_runtime
from zkbroker.testing import LocalCluster

VALUE_BYTES = 10_000
HANDSHAKES = 200
_TICKS = os.sysconf("SC_CLK_TCK")
_ULP = Path("/proc/sys/net/ipv4/tcp_available_ulp")


def kernel_tls() -> bool:
    """Whether the kernel offers TLS to sockets."""
    return _ULP.exists() and "tls" in _ULP.read_text().split()


def cpu_s(pid: int) -> float:
    """CPU time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


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


def run(megabytes: int, rounds: int) -> None:
    messages = megabytes * 1_000_000 // VALUE_BYTES
    listeners = ["PLAINTEXT", "COPIED"]
    if kernel_tls():
        listeners.append("KERNEL")
    else:
        print("kTLS: not here (this kernel offers sockets no TLS: no module `tls`)")
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
            measure(cluster, listeners, trusted, messages, rounds)


def measure(
    cluster: LocalCluster, listeners: list[str], trusted: str, messages: int, rounds: int
) -> None:
    pid = cluster.broker(1).pid
    assert pid is not None
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for name in listeners:
            topic = cluster.create_topic()
            given = settings(name, cluster, trusted)
            for what, work in (("write", write), ("read", read)):
                started, cpu = time.perf_counter(), cpu_s(pid)
                work(given, topic, messages)
                taken = time.perf_counter() - started, cpu_s(pid) - cpu
                found.setdefault((what, name), []).append(taken)
    megabytes = messages * VALUE_BYTES / 1e6
    for what in ("write", "read"):
        for name in listeners:
            seconds = statistics.median(each[0] for each in found[what, name])
            cpu = statistics.median(each[1] for each in found[what, name])
            plain = statistics.median(each[1] for each in found[what, "PLAINTEXT"])
            print(
                f"{what:<6} {name:<10} {megabytes / seconds:7.0f} MB/s   broker's CPU "
                f"{1000 * cpu / megabytes:6.2f} s/GB   {cpu / plain:5.2f} times plain"
            )
    started, cpu = time.perf_counter(), cpu_s(pid)
    shake_hands(int(cluster.bootstrap("COPIED").rpartition(":")[2]), trusted)
    print(
        f"handshakes (RSA 2048)  {HANDSHAKES / (time.perf_counter() - started):7.0f} a second   "
        f"broker's CPU {1000 * (cpu_s(pid) - cpu) / HANDSHAKES:6.2f} ms each"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    run(arguments.megabytes, arguments.rounds)


if __name__ == "__main__":
    main()
