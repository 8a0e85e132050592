"""Replicas' logs on disk: what genuine tools read of each, and a disk that is lost."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import java_clients
from tests.support.process import wait_until
from tests.support.reading import read_all
from tests.support.replicated import Replicas, eventually
from tests.support.senders import OurSender
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry.controller_election import current_controller
from zkbroker.zookeeper import ZkSession

TOPIC = "visits"
PARTITIONS = 3


@pytest.fixture
def world(local_cluster) -> Iterator[Replicas]:
    with (
        local_cluster(3, replication=3, properties={"replica.lag.time.max.ms": "3000"}) as cluster,
        ZkSession(cluster.zookeeper, session_timeout_ms=60_000) as session,
    ):
        yield Replicas(cluster, session, {TOPIC: PARTITIONS})


@pytest.mark.skipif(java_clients.old_missing(), reason=java_clients.REASON)
def test_genuine_tools_read_the_same_from_every_replica(world):
    topic = world.cluster.create_topic(
        "old", partitions=1, config={"message.format.version": "0.8.2"}
    )
    config = ProducerConfig.from_properties(
        {"zookeeper.connect": world.cluster.zookeeper, "request.required.acks": "-1"}
    )
    with Producer(config) as producer:
        for number in range(500):
            producer.send(KeyedMessage(topic, b"%d" % number, partition=0))

    def dumps() -> list[str]:
        return [
            java_clients.run(
                java_clients.tool_command(
                    "kafka.tools.DumpLogSegments",
                    "--deep-iteration",
                    "--print-data-log",
                    "--files",
                    str(world.log_files(each, topic, 0)[0]),
                )
            ).partition("\n")[2]
            for each in world.ids
        ]

    wait_until(lambda: len(set(dumps())) == 1)
    (shown,) = set(dumps())
    assert shown.count("isvalid: true") == 500
    assert "payload: 499" in shown


def test_a_broker_that_lost_its_disk_does_not_lead_empty(world):
    keys = {(TOPIC, n) for n in range(PARTITIONS)}
    sender = OurSender(
        world.cluster,
        TOPIC,
        PARTITIONS,
        **{"message.send.max.retries": "1000", "request.required.acks": "1"},
    )
    sender.start()
    others = [world.cluster.broker(each) for each in (2, 3)]

    def stored(broker: Any) -> bool:
        logs = [broker.data_directory / f"{t}-{n}" / f"{0:020}.log" for t, n in sorted(keys)]
        return all(each.stat().st_size for each in logs)

    eventually(lambda: all(map(stored, others)), "all have messages")
    for each in others:
        each.kill()
        live = {1, 3} if each.id == 2 else {1}
        eventually(
            lambda live=live: all(set(each.isr) == live for each in world.decided().values()),
            "those that live are in sync",
        )
        assert sender.acknowledges()
    sender.over.set()
    lone = world.cluster.broker(1)
    sender.join()
    ends = {n: len(values) for n, values in read_all(world.cluster, TOPIC).items()}
    assert min(ends.values()) > 0
    lone.kill()
    kept = lone.data_directory.with_suffix(".kept")
    lone.data_directory.rename(kept)
    lone.start()
    for each in others:
        each.start()

    def refused() -> bool:
        return all(world.decided()[key].leader != 1 for key in keys)

    eventually(refused, "broker 1 leads nothing empty")
    assert f"logs lost count={PARTITIONS}" in lone.log_path.read_text()
    assert all(map(stored, others))
    # Another start changes nothing; the disk brought back does.
    lone.kill()
    lone.start()
    eventually(refused, "nor after another start")
    assert all(map(stored, others))
    lone.stop()
    shutil.rmtree(lone.data_directory)
    kept.rename(lone.data_directory)
    lone.start()
    eventually(world.in_sync, "all in sync with the old disk")
    found = {n: len(values) for n, values in read_all(world.cluster, TOPIC).items()}
    assert found == ends


def test_a_leader_that_lost_its_disk_and_starts_first_leaves_what_was_acknowledged_to_others(world):
    config = ProducerConfig.from_properties(
        {"zookeeper.connect": world.cluster.zookeeper, "request.required.acks": "-1"}
    )
    sent = {number: [b"%d" % each for each in range(100)] for number in range(PARTITIONS)}
    with Producer(config) as producer:
        for number, values in sent.items():
            for value in values:
                producer.send(KeyedMessage(TOPIC, value, partition=number))
    led = {state.leader: key for key, state in world.decided().items()}
    wiped = min(led)
    for each in world.ids:
        world.cluster.broker(each).kill()
    shutil.rmtree(world.cluster.broker(wiped).data_directory)
    world.cluster.broker(wiped).start()
    eventually(lambda: current_controller(world.session) == wiped, "it is the controller")

    def leaves_them_to_others() -> bool:
        return all(
            state.leader == -1 and wiped not in state.isr for state in world.decided().values()
        )

    eventually(leaves_them_to_others, "nobody leads while it is alone")
    for each in set(world.ids) - {wiped}:
        world.cluster.broker(each).start()
    eventually(world.in_sync, "all in sync, the new disk too")
    assert {n: sorted(values) for n, values in read_all(world.cluster, TOPIC).items()} == {
        number: sorted(values) for number, values in sent.items()
    }
    eventually(lambda: not world.different_logs(), "the same bytes in all logs")
