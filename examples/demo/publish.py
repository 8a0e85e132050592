"""Publishes lines through several producers, each member's lines by one of them and in order."""

import zlib
from collections.abc import Callable, Sequence

from examples.demo.access_log import event_time_ms, member
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.runtime import Runtime

_STEP = 500


def make_producer(zookeeper: str, runtime: Runtime) -> Producer:
    """Make one of the demo's producers."""
    config = ProducerConfig.from_properties(
        {
            "zookeeper.connect": zookeeper,
            "producer.type": "async",
            "request.required.acks": "1",
            "compression.codec": "snappy",
            "queue.buffering.max.ms": "50",
            "batch.num.messages": "1000",
        }
    )
    return Producer(config, runtime=runtime)


def publish(
    lines: Sequence[bytes],
    *,
    topic: str,
    producers: Sequence[Producer],
    runtime: Runtime,
    advance: Callable[[int], None],
) -> None:
    """Publish lines, keyed by member, and return when all are acknowledged.

    Args:
        lines: lines of an access log.
        topic: to publish to.
        producers: work in parallel, each for a share of the members.
        runtime: of the producers.
        advance: called with the number of lines handed over since the last call.

    Raises:
        ClientError: lines that could not be published.
    """
    shares: list[list[bytes]] = [[] for _ in producers]
    for line in lines:
        shares[zlib.crc32(member(line)) % len(producers)].append(line)
    failures: list[Exception] = []
    tasks = [
        runtime.spawn(
            _publish_share, share, topic, producer, runtime, advance, failures, name="publish"
        )
        for producer, share in zip(producers, shares, strict=True)
    ]
    for task in tasks:
        task.join()
    if failures:
        raise failures[0]


def _publish_share(
    lines: Sequence[bytes],
    topic: str,
    producer: Producer,
    runtime: Runtime,
    advance: Callable[[int], None],
    failures: list[Exception],
) -> None:
    try:
        for start in range(0, len(lines), _STEP):
            step = lines[start : start + _STEP]
            producer.send(
                [
                    KeyedMessage(topic, line, key=member(line), timestamp_ms=event_time_ms(line))
                    for line in step
                ]
            )
            advance(len(step))
            runtime.sleep(0)
        producer.flush()
    except Exception as error:  # noqa: BLE001 - handed to the caller, who raises it
        failures.append(error)
