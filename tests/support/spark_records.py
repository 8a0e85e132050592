"""Records for tests of Spark on real brokers, and a round trip of them over a secured listener."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_loader import Loader
from zkbroker.config.producer import ProducerConfig
from zkbroker.config.security import ClientSecurity
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.testing import LocalCluster


def publish(
    cluster: LocalCluster,
    topic: str,
    records: Sequence[bytes | KeyedMessage],
    properties: Mapping[str, str] | None = None,
) -> None:
    """Send values or messages, by a producer with more properties."""
    config = ProducerConfig.from_properties(
        {"zookeeper.connect": cluster.zookeeper, **(properties or {})}
    )
    with Producer(config) as producer:
        producer.send(
            [
                each if isinstance(each, KeyedMessage) else KeyedMessage(topic, each)
                for each in records
            ]
        )


def check_round_trip(
    spark: Any, topic: str, lake: Path, servers: str, client: Mapping[str, str], **load: Any
) -> None:
    """Write rows by Spark's sink, read them by its source and load them.

    Args:
        spark: the session.
        topic: an empty topic.
        lake: output of the load.
        servers: addresses of the brokers' listener.
        client: security settings of a client for it.
        load: how the load finds the brokers.
    """
    options = {
        "kafka.bootstrap.servers": servers,
        **{f"kafka.{key}": value for key, value in client.items()},
    }
    frame = spark.range(100).selectExpr("concat('value ', id) value")
    frame.write.format("zkbroker").options(**options, topic=topic).mode("append").save()
    reader = spark.read.format("zkbroker").options(**options, subscribe=topic)
    expected = sorted(b"value %d" % number for number in range(100))
    assert sorted(bytes(row.value) for row in reader.load().collect()) == expected
    loader = Loader(
        topics=(topic,),
        output=str(lake),
        security=ClientSecurity.from_properties(client),
        fallback="load-time",
        **load,
    )
    assert loader.run(spark).rows == 100
