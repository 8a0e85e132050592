"""Load to Parquet: the loader against Spark's own `range`, and against kafka-python in Spark.

    python -m bench.spark_load [--rows N] [--rounds N]

Rows have 100-byte values, published in snappy batches of magic 2. `floor` is what Spark needs to
write as many rows of the same bytes that it makes up itself. All are rows per second of one
interleaved run, medians; ratios are of medians.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from spark_loader import Loader, register, session
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.records import kernels
from zkbroker.testing import LocalCluster

PARTITIONS = 4
FILLER = "abcdefghijklmnopqrstuvwxyz0123456789" * 3


def value(number: int) -> bytes:
    text = str(number)
    return (FILLER[: 100 - len(text)] + text).encode()


def publish(cluster: LocalCluster, topic: str, rows: int) -> None:
    config = ProducerConfig.from_properties(
        {
            "zookeeper.connect": cluster.zookeeper,
            "compression.codec": "snappy",
            "producer.type": "async",
            "queue.buffering.max.messages": "100000",
        }
    )
    with Producer(config) as producer:
        for first in range(0, rows, 10_000):
            producer.send(
                [
                    KeyedMessage(topic, value(n), partition=n % PARTITIONS)
                    for n in range(first, min(rows, first + 10_000))
                ]
            )


def by_kafka_python(spark: Any, bootstrap: str, topic: str, rows: int, target: Path) -> None:
    """Load the first rows of each partition as people do without a connector."""
    share = rows // PARTITIONS

    def consume(partitions: Iterator[int]) -> Iterator[tuple[Any, ...]]:
        from kafka import KafkaConsumer, TopicPartition

        for partition in partitions:
            consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
            consumer.assign([TopicPartition(topic, partition)])
            consumer.seek_to_beginning()
            for count, record in enumerate(consumer, 1):
                yield (
                    record.key,
                    bytearray(record.value),
                    record.partition,
                    record.offset,
                    record.timestamp,
                )
                if count == share:
                    break
            consumer.close()

    found = spark.sparkContext.parallelize(range(PARTITIONS), PARTITIONS).mapPartitions(consume)
    schema = "key binary, value binary, partition int, offset long, timestamp long"
    spark.createDataFrame(found, schema).write.parquet(str(target))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="zkbroker-bench-"))
    rates: dict[str, list[float]] = {}

    def measure(name: str, rows: int, action: Callable[[Path], None]) -> None:
        target = place / "out"
        shutil.rmtree(target, ignore_errors=True)
        began = time.perf_counter()
        action(target)
        rates.setdefault(name, []).append(rows / (time.perf_counter() - began))

    try:
        with LocalCluster(1) as cluster:
            topic = cluster.create_topic(partitions=PARTITIONS)
            publish(cluster, topic, given.rows)
            spark = session("local[2,4]")
            register(spark)
            few = given.rows // 10

            def load(target: Path) -> None:
                loader = Loader(zookeeper=cluster.zookeeper, topics=[topic], output=str(target))
                assert loader.run(spark).rows == given.rows

            def source(target: Path) -> None:
                reader = spark.read.format("zkbroker").option("subscribe", topic)
                frame = reader.option("kafka.bootstrap.servers", cluster.bootstrap_servers).load()
                frame.write.parquet(str(target))

            def floor(target: Path) -> None:
                made = f"cast(lpad(cast(id as string), 100, '{FILLER}') as binary) value"
                columns = ["cast(null as binary) key", made, "cast(id % 4 as int) partition"]
                columns += ["id offset", "timestamp_millis(1431857103000 + id) timestamp"]
                spark.range(0, given.rows, 1, PARTITIONS).selectExpr(*columns).write.parquet(
                    str(target)
                )

            def kafka_python(target: Path) -> None:
                by_kafka_python(spark, cluster.bootstrap_servers, topic, few, target)

            load(place / "warm")
            floor(place / "warm-floor")
            for _ in range(given.rounds):
                measure("floor", given.rows, floor)
                measure("loader", given.rows, load)
                measure("source", given.rows, source)
                measure("kafka-python", few, kafka_python)
            spark.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    medians = {name: statistics.median(each) for name, each in rates.items()}
    decoder = "C" if kernels.NATIVE else "pure Python"
    print(f"{given.rows:,} rows of 100 bytes, {PARTITIONS} partitions, {decoder} decoder")
    for name, rate in medians.items():
        print(f"{name:<14}{rate:>12,.0f} rows/s   {rate / medians['floor']:6.2f} of the floor")
    print(f"loader / kafka-python  {medians['loader'] / medians['kafka-python']:.1f}")


if __name__ == "__main__":
    main()
