"""Many records over all message formats and codecs, loaded and counted independently."""

import collections
import hashlib
import os
import random

import pytest

from spark_loader import EventTime, Loader
from tests.support import soak
from tests.support.clusters import module_cluster
from tests.support.loading import verified
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

PARTITIONS = 8
FORMATS = [
    (magic, codec)
    for magic in ("0", "1", "2")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    if codec != "zstd" or magic == "2"
]


cluster = module_cluster(2)


def access_log(count, seed=17):
    """Lines as of an access log, from a file when one is named, each made unique by its number."""
    named = os.environ.get("ZKBROKER_ACCESS_LOG")
    if named:
        with open(named, "rb") as file:
            lines = file.read().splitlines()
        for number in range(count):
            yield lines[number % len(lines)] + b" %d" % number
        return
    chance = random.Random(seed)
    for number in range(count):
        yield (
            b'10.%d.0.%d - - [%02d/May/2015:%02d:%02d:03 +0000] "GET /%d HTTP/1.1" 200 %d "-" "x"'
            % (
                min(chance.randrange(9), chance.randrange(9)),
                chance.randrange(20),
                17 + number % 3,
                number // 7 % 24,
                number % 60,
                number,
                chance.randrange(10**6),
            )
        )


def publish_all(cluster, topic, count):
    """Publish in every format; return a checksum per partition and the members' counts."""
    digests = [hashlib.sha256() for _ in range(PARTITIONS)]
    members: collections.Counter[str] = collections.Counter()
    lines = access_log(count)
    share = -(-count // len(FORMATS))
    number = 0
    for magic, codec in FORMATS:
        config = ProducerConfig.from_properties(
            {
                "zookeeper.connect": cluster.zookeeper,
                "message.format": magic,
                "compression.codec": codec,
            }
        )
        with Producer(config) as producer:
            left = min(share, count - number)
            while left > 0:
                messages = []
                for _ in range(min(left, 5000)):
                    line = next(lines)
                    partition = number % PARTITIONS
                    digests[partition].update(line + b"\n")
                    members[line.split(b" ", 1)[0].decode()] += 1
                    messages.append(KeyedMessage(topic, line, partition=partition))
                    number += 1
                producer.send(messages)
                left -= len(messages)
    return [each.hexdigest() for each in digests], members


def loaded_digests(spark, output):
    frame = spark.read.parquet(str(output)).select("partition", "offset", "value")

    def digest(rows):
        found = {}
        for row in rows:
            found.setdefault(row.partition, hashlib.sha256()).update(bytes(row.value) + b"\n")
        return [(partition, each.hexdigest()) for partition, each in found.items()]

    ordered = frame.repartition(PARTITIONS, "partition").sortWithinPartitions("partition", "offset")
    return dict(ordered.rdd.mapPartitions(digest).collect())


def loaded_rows_equal_published_ones(spark, cluster, output, count):
    topic = cluster.create_topic(partitions=PARTITIONS)
    digests, members = publish_all(cluster, topic, count)
    result = Loader(
        zookeeper=cluster.zookeeper,
        topics=[topic],
        output=str(output),
        event_time=EventTime.access_log(),
    ).run(spark)
    assert (result.rows, result.quarantined, result.gaps) == (count, 0, ())
    assert loaded_digests(spark, output) == dict(enumerate(digests))
    verified(output)
    top = (
        spark.read.parquet(str(output))
        .selectExpr("split(cast(value as string), ' ')[0] member")
        .groupBy("member")
        .count()
        .collect()
    )
    assert {row.member: row["count"] for row in top} == members


def test_all_formats_and_codecs_load_unchanged(spark, cluster, tmp_path):
    loaded_rows_equal_published_ones(spark, cluster, tmp_path, 8_000)


@pytest.mark.soak
def test_two_million_records_load_unchanged(spark, cluster, tmp_path):
    loaded_rows_equal_published_ones(spark, cluster, tmp_path, soak.part_of(2_000_000))
