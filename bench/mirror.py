"""Messages per second through a mirror, against consuming and producing alone, and MirrorMaker.

    python -m bench.mirror [--messages 300000] [--size 200] [--rounds 3] [--codec none]
                           [--results DIR]

Two brokers of ours, one for each side, one partition; every reader and writer in a process of its
own, one after the other, round by round. Genuine MirrorMaker 0.8.2.2 (`make java-clients`) uses the
same brokers with one stream; its clock starts at the first message that arrives, so that the start
of Java does not count. Compare the ratios of one run, never the numbers of two.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.figures import Comparison, Found, options, publish
from tests.support import java_clients
from zkbroker.client import Cluster, StaticSource
from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.testing import LocalCluster

POLL_S = 0.01


def produce(job: dict[str, Any]) -> float:
    from zkbroker.config.producer import ProducerConfig
    from zkbroker.producer import KeyedMessage, Producer

    config = ProducerConfig.from_properties(
        {
            "bootstrap.servers": job["target"],
            "producer.type": "async",
            "acks": "all",
            "compression.type": job["codec"],
            "queue.buffering.max.messages": "100000",
            "linger.ms": "10",
        }
    )
    value = b"x" * job["size"]
    with Producer(config) as producer:
        producer.send(KeyedMessage(job["topic"], value, partition=0)).result(30)
        started = time.perf_counter()
        for _ in range(job["messages"] - 1):
            producer.send(KeyedMessage(job["topic"], value))
        producer.flush()
        return time.perf_counter() - started


def consume(job: dict[str, Any]) -> float:
    from zkbroker.config.group_consumer import GroupConsumerConfig
    from zkbroker.consumer import GroupConsumer

    config = GroupConsumerConfig(
        bootstrap_servers=(job["source"],),
        group_id=uuid.uuid4().hex,
        auto_offset_reset="earliest",
        max_poll_records=10_000,
    )
    with GroupConsumer(config) as consumer:
        consumer.subscribe([job["topic"]])
        left = job["messages"]
        while left == job["messages"]:
            left -= len(consumer.poll(0.1))
        started = time.perf_counter()
        while left > 0:
            left -= len(consumer.poll(1.0))
        return time.perf_counter() - started


def _until_all(job: dict[str, Any], go: Callable[[], object]) -> float:
    """Call `go` again and again; the clock runs from the first arrival to the last."""
    first: float | None = None
    with Cluster(StaticSource([job["target"]])) as cluster:
        while True:
            go()
            key = (job["topic"], 0)
            end = resolve_offsets(cluster, {key: LATEST_TIME}, timeout_s=10)[key] or 0
            if end and first is None:
                first, missing = time.perf_counter(), job["messages"] - end
            if end >= job["messages"]:
                assert first is not None
                # Messages that had arrived before the first check were not timed.
                return (time.perf_counter() - first) * job["messages"] / max(1, missing)
            time.sleep(POLL_S)


def mirror(job: dict[str, Any]) -> float:
    from zkbroker.mirror import Mirror, MirrorConfig, SourceConfig

    source = SourceConfig(
        properties={"bootstrap.servers": job["source"], "group.id": uuid.uuid4().hex}
    )
    config = MirrorConfig.from_properties(
        {"whitelist": job["topic"]}, sources=[source], target={"bootstrap.servers": job["target"]}
    )
    with Mirror(config) as running:
        return _until_all(job, lambda: running.wait(0))


def mirror_maker(job: dict[str, Any]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        consumer, producer = Path(folder, "consumer"), Path(folder, "producer")
        consumer.write_text(
            f"zookeeper.connect={job['zookeeper']}\ngroup.id={uuid.uuid4().hex}\n"
            "auto.offset.reset=smallest\n"
        )
        producer.write_text(
            f"metadata.broker.list={job['target']}\nrequest.required.acks=-1\n"
            f"producer.type=async\ncompression.codec={job['codec']}\n"
        )
        process = subprocess.Popen(
            java_clients.tool_command(
                "kafka.tools.MirrorMaker",
                *("--consumer.config", str(consumer), "--producer.config", str(producer)),
                *("--num.streams", "1", "--whitelist", job["topic"]),
            ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:

            def alive() -> None:
                assert process.poll() is None, "MirrorMaker ended"

            return _until_all(job, alive)
        finally:
            process.terminate()
            process.wait()


JOBS = {"produce": produce, "consume": consume, "mirror": mirror, "MirrorMaker": mirror_maker}
BASES = {
    "MirrorMaker": "MirrorMaker 0.8.2.2",
    "produce": "producing alone",
    "consume": "consuming alone",
}
"""Job → its name as a reference of the mirror."""


def run(messages: int, size: int, rounds: int, codec: str) -> Found:
    names = [name for name in JOBS if name != "MirrorMaker" or not java_clients.old_missing()]
    rates: dict[str, list[float]] = {name: [] for name in names}
    with LocalCluster(1) as east, LocalCluster(1) as here:
        source = east.create_topic()
        base = {
            "messages": messages,
            "size": size,
            "codec": codec,
            "source": east.bootstrap_servers,
            "zookeeper": east.zookeeper,
        }
        produce({**base, "topic": source, "target": east.bootstrap_servers})
        for _ in range(rounds):
            for name in names:
                # A mirror keeps the topic's name; messages of an earlier run are in another
                # cluster's topic.
                topic = source if name == "consume" else here.create_topic()
                if name in ("mirror", "MirrorMaker"):
                    topic = east.create_topic(topic)
                    produce({**base, "topic": topic, "target": east.bootstrap_servers})
                job = {**base, "topic": topic, "target": here.bootstrap_servers}
                done = subprocess.run(
                    [sys.executable, "-m", "bench.mirror", "--job", name, json.dumps(job)],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                rates[name].append(messages / float(done.stdout))
    return Found(
        "mirror",
        [
            Comparison("mirror", "messages/s", base, rates["mirror"], rates[name])
            for name, base in BASES.items()
            if name in rates
        ],
    )


def main() -> None:
    parser = options(__doc__, rounds=3)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job is not None:
        print(JOBS[given.job[0]](json.loads(given.job[1])))
    else:
        publish(run(given.messages, given.size, given.rounds, given.codec), given.results)


if __name__ == "__main__":
    main()
