"""One member of a group, of any client library, as a process that reports its events.

    python group_member.py LIBRARY ADDRESS GROUP TOPIC STRATEGY [API_VERSION]

Writes a JSON object a line: {"at": seconds, "event": "assigned" | "revoked", "partitions": [...]},
{"event": "messages", "read": [[partition, offset], ...]}, {"event": "leaving"}. `at` is the clock
that all processes share, `time.monotonic`. Ends gracefully when its standard input is closed: it
says that it is leaving after its last read and before it tells the group, because others may be
given its partitions before its own `close` has returned.
"""

import asyncio
import json
import os
import sys
import threading
import time

SESSION_MS = int(os.environ.get("GROUP_MEMBER_SESSION_MS", "10000"))
HEARTBEAT_MS = 200

stopping = threading.Event()


def report(event, **what):
    sys.stdout.write(json.dumps({"at": time.monotonic(), "event": event, **what}) + "\n")
    sys.stdout.flush()


def watch_stdin():
    sys.stdin.read()
    stopping.set()


def run_kafka_python(address, group, topic, strategy, api_version):
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.errors import KafkaConnectionError, KafkaError

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            report("revoked", partitions=sorted(p.partition for p in revoked))

        def on_partitions_assigned(self, assigned):
            report("assigned", partitions=sorted(p.partition for p in assigned))

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    settings = {"api_version": api_version} if api_version else {}
    consumer = KafkaConsumer(
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        partition_assignment_strategy=[assignors[strategy]],
        **settings,
    )
    consumer.subscribe([topic], listener=Listener())
    while not stopping.is_set():
        try:
            polled = consumer.poll(timeout_ms=100)
        except KafkaConnectionError as error:
            # 3.0.12 lets it out when a broker that is away is the first it asks; the next poll
            # asks again, as an application's would
            report("poll failed", error=repr(error))
            continue
        read = [[m.partition, m.offset] for messages in polled.values() for m in messages]
        if read:
            report("messages", read=read)
            try:
                consumer.commit()
            except KafkaError as error:
                report("commit failed", error=repr(error))
    report("leaving")
    consumer.close()


def run_aiokafka(address, group, topic, strategy, api_version):
    asyncio.run(follow_aiokafka(address, group, topic, strategy))


async def follow_aiokafka(address, group, topic, strategy):
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.errors import KafkaError

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            report("revoked", partitions=sorted(p.partition for p in revoked))

        def on_partitions_assigned(self, assigned):
            report("assigned", partitions=sorted(p.partition for p in assigned))

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=500,
        partition_assignment_strategy=[assignors[strategy]],
    )
    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not stopping.is_set():
        polled = await consumer.getmany(timeout_ms=100)
        read = [[m.partition, m.offset] for messages in polled.values() for m in messages]
        if read:
            report("messages", read=read)
            try:
                await consumer.commit()
            except KafkaError as error:
                report("commit failed", error=repr(error))
    report("leaving")
    await consumer.stop()


def run_confluent(address, group, topic, strategy, api_version):
    from confluent_kafka import Consumer, KafkaException

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": strategy,
            "topic.metadata.refresh.interval.ms": 500,
        }
    )

    def assigned(_consumer, partitions):
        report("assigned", partitions=sorted(p.partition for p in partitions))

    def revoked(_consumer, partitions):
        report("revoked", partitions=sorted(p.partition for p in partitions))

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not stopping.is_set():
        messages = [m for m in consumer.consume(100, timeout=0.1) if not m.error()]
        if messages:
            report("messages", read=[[m.partition(), m.offset()] for m in messages])
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                report("commit failed", error=repr(error))
    report("leaving")
    consumer.close()


def run_zkbroker(address, group, topic, strategy, api_version):
    from zkbroker.config.group_consumer import GroupConsumerConfig
    from zkbroker.consumer import CommitFailed, GroupConsumer, RebalanceListener

    class Listener(RebalanceListener):
        def on_partitions_revoked(self, partitions):
            report("revoked", partitions=sorted(number for _, number in partitions))

        def on_partitions_assigned(self, partitions):
            report("assigned", partitions=sorted(number for _, number in partitions))

    config = GroupConsumerConfig(
        bootstrap_servers=(address,),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        strategies=(strategy,),
    )
    with GroupConsumer(config) as consumer:
        consumer.subscribe([topic], Listener())
        while not stopping.is_set():
            messages = consumer.poll(0.1)
            if messages:
                report("messages", read=[[m.partition, m.offset] for m in messages])
                try:
                    consumer.commit()
                except CommitFailed as error:
                    report("commit failed", error=repr(error))
        report("leaving")


if __name__ == "__main__":
    threading.Thread(target=watch_stdin, daemon=True).start()
    library, *arguments = sys.argv[1:]
    version = tuple(map(int, arguments[4].split("."))) if len(arguments) > 4 else None
    runner = {
        "kafka-python": run_kafka_python,
        "aiokafka": run_aiokafka,
        "confluent": run_confluent,
        "zkbroker": run_zkbroker,
    }[library]
    runner(*arguments[:4], version)
