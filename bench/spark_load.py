"""Loads: the loader against Spark's own `range` to Parquet, and against kafka-python in Spark.

    python -m bench.spark_load [--rows N] [--rounds N] [--only range,source] [--results DIR]

Rows have 100-byte values, published in snappy batches of magic 2. `floor` is the time in which
Spark writes as many generated rows of the same bytes, in the five columns of a lake; `range` is the
same in the seven columns of the source, `format("zkbroker")`. `json` and `regex` load values of the
same size as five typed columns each. All are rows per second of one interleaved run; ratios are
taken within a round. So are CPU seconds per million rows, of this process and all below it, brokers
too: on a busy machine they are steadier.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bench.figures import Comparison, Found, options, publish
from spark_loader import Loader, ValueColumns, register, session
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.records import kernels
from zkbroker.testing import LocalCluster

PARTITIONS = 4
REFERENCES = {
    "range": "Spark's range, seven columns",
    "floor": "Spark's range, five columns",
    "kafka-python": "kafka-python in Spark",
}
"""Run → its name as a reference of others."""
FILLER = "abcdefghijklmnopqrstuvwxyz0123456789" * 3
VALUE = f"cast(lpad(cast(id as string), 100, '{FILLER}') as binary) value"
TIME = "timestamp_millis(1431857103000 + id) timestamp"


def value(number: int) -> bytes:
    text = str(number)
    return (FILLER[: 100 - len(text)] + text).encode()


def json_value(number: int) -> bytes:
    text = b'{"user":{"id":%d},"status":%d,"at":"2015-05-17T10:%02d:%02dZ","took":%.2f,"page":"' % (
        number,
        200 + number % 3,
        number // 60 % 60,
        number % 60,
        number % 1000 / 7,
    )
    return text + FILLER[: 98 - len(text)].encode() + b'"}'


def line(number: int) -> bytes:
    text = b'10.0.%d.%d - - [17/May/2015:10:%02d:%02d +0000] "GET /%d.html" %d %d ' % (
        number % 250,
        number % 7,
        number // 60 % 60,
        number % 60,
        number,
        200 + number % 3,
        number,
    )
    return text + FILLER[: 100 - len(text)].encode()


JSON = ValueColumns.json("user.id:long,status:int,at:timestamp,took:double,page:string")
REGEX = ValueColumns.regex(
    r'^(?P<host>\S+) \S+ \S+ \[(?P<time>[^\]]+)\] "GET (?P<path>[^"]+)" '
    r"(?P<status>\d+) (?P<bytes>\d+)",
    "time:timestamp[%d/%b/%Y:%H:%M:%S %z],status:int,bytes:long",
)


def send(
    cluster: LocalCluster, topic: str, rows: int, value: Callable[[int], bytes] = value
) -> None:
    publish_values(cluster, topic, map(value, range(rows)), PARTITIONS)


def publish_values(
    cluster: LocalCluster, topic: str, values: Iterable[bytes], partitions: int
) -> None:
    """Publish values to one partition after the other, in snappy batches."""
    config = ProducerConfig.from_properties(
        {
            "zookeeper.connect": cluster.zookeeper,
            "compression.codec": "snappy",
            "producer.type": "async",
            "queue.buffering.max.messages": "100000",
        }
    )
    with Producer(config) as producer:
        messages = (
            KeyedMessage(topic, each, partition=n % partitions) for n, each in enumerate(values)
        )
        while some := list(islice(messages, 10_000)):
            producer.send(some)


def by_kafka_python(spark: Any, bootstrap: str, topic: str, rows: int, target: Path) -> None:
    """Load the first rows of each partition the way people do without a connector."""
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


def tree_cpu_seconds(root: int) -> float:
    """Return the processor time so far of a process and all below it, ended ones included."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        # A process may end meanwhile.
        with contextlib.suppress(OSError):
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    inside = {root}
    while more := {pid for pid, s in stats.items() if int(s[1]) in inside} - inside:
        inside |= more
    ticks = sum(int(each) for pid in inside for each in stats[pid][11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="names of the runs to make, with commas")
    given = parser.parse_args()
    only = {name.strip() for name in given.only.split(",") if name}
    place = Path(tempfile.mkdtemp(prefix="zkbroker-bench-"))
    rates: dict[str, list[float]] = {}
    costs: dict[str, list[float]] = {}

    def measure(name: str, rows: int, action: Callable[[Path], None]) -> None:
        if only and name not in only:
            return
        target = place / "out"
        shutil.rmtree(target, ignore_errors=True)
        spent, began = tree_cpu_seconds(os.getpid()), time.perf_counter()
        action(target)
        rates.setdefault(name, []).append(rows / (time.perf_counter() - began))
        spent = tree_cpu_seconds(os.getpid()) - spent
        costs.setdefault(name, []).append(spent / rows * 1_000_000)

    try:
        with LocalCluster(1) as cluster:
            topic = cluster.create_topic(partitions=PARTITIONS)
            send(cluster, topic, given.rows)
            typed = {
                "json": (cluster.create_topic(partitions=PARTITIONS), json_value, JSON),
                "regex": (cluster.create_topic(partitions=PARTITIONS), line, REGEX),
            }
            for kind, (name, made, _) in typed.items():
                if not only or kind in only:
                    send(cluster, name, given.rows, made)
            spark = session("local[2,4]")
            register(spark)
            few = given.rows // 10

            def load(target: Path) -> None:
                loader = Loader(zookeeper=cluster.zookeeper, topics=[topic], output=str(target))
                assert loader.run(spark).rows == given.rows

            def load_typed(kind: str, target: Path) -> None:
                topic, _, columns = typed[kind]
                loader = Loader(
                    zookeeper=cluster.zookeeper,
                    topics=[topic],
                    output=str(target),
                    columns=columns,
                )
                assert loader.run(spark).rows == given.rows

            def source(target: Path) -> None:
                reader = spark.read.format("zkbroker").option("subscribe", topic)
                frame = reader.option("kafka.bootstrap.servers", cluster.bootstrap_servers).load()
                frame.write.parquet(str(target))

            def made_up(columns: list[str]) -> Any:
                return spark.range(0, given.rows, 1, PARTITIONS).selectExpr(*columns)

            def floor(target: Path) -> None:
                columns = ["cast(null as binary) key", VALUE, "cast(id % 4 as int) partition"]
                columns += ["id offset", TIME]
                made_up(columns).write.parquet(str(target))

            def seven(target: Path) -> None:
                """Rows with the source's columns, in its order."""
                columns = ["cast(null as binary) key", VALUE, "'topic-1' topic"]
                columns += ["cast(id % 4 as int) partition", "id offset", TIME]
                columns += ["0 timestampType"]
                made_up(columns).write.parquet(str(target))

            def kafka_python(target: Path) -> None:
                by_kafka_python(spark, cluster.bootstrap_servers, topic, few, target)

            load(place / "warm")
            floor(place / "warm-floor")
            seven(place / "warm-seven")
            source(place / "warm-source")
            for _ in range(given.rounds):
                measure("floor", given.rows, floor)
                measure("range", given.rows, seven)
                measure("loader", given.rows, load)
                for kind in typed:
                    measure(kind, given.rows, partial(load_typed, kind))
                measure("source", given.rows, source)
                measure("kafka-python", few, kafka_python)
            spark.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    decoder = "C" if kernels.NATIVE else "pure Python"
    print(f"{given.rows:,} rows of 100 bytes, {PARTITIONS} partitions, {decoder} decoder")
    found = [
        Comparison(f"{name} to Parquet", unit, REFERENCES[base], own, figures[base], more)
        for unit, figures, more in (("rows/s", rates, True), ("CPU-s/million", costs, False))
        for base in REFERENCES
        for name, own in figures.items()
        if base in rates and base in (("range",) if name == "source" else ("floor", "kafka-python"))
        if name in ("loader", "source") or (name in typed and base == "floor")
    ]
    publish(Found("spark", found), given.results)


if __name__ == "__main__":
    main()
