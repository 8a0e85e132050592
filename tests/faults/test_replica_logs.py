"""Replicas' logs on disk: genuine tools read them, and a lost disk is replaced."""

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
def replicas(local_cluster) -> Iterator[Replicas]:
    with (
        local_cluster(3, replication=3, properties={"replica.lag.time.max.ms": "3000"}) as cluster,
        ZkSession(cluster.zookeeper, session_timeout_ms=60_000) as session,
    ):
        yield Replicas(cluster, session, {TOPIC: PARTITIONS})


@pytest.mark.skipif(java_clients.old_missing(), reason=java_clients.REASON)
def test_genuine_tools_read_the_same_from_every_replica(replicas):
    topic = replicas.cluster.create_topic(
        "old", partitions=1, config={"message.format.version": "0.8.2"}
    )
    config = ProducerConfig.from_properties(
        {"zookeeper.connect": replicas.cluster.zookeeper, "request.required.acks": "-1"}
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
                    str(replicas.log_files(each, topic, 0)[0]),
                )
            ).partition("\n")[2]
            for each in replicas.ids
        ]

    wait_until(lambda: len(set(dumps())) == 1)
    (shown,) = set(dumps())
    assert shown.count("isvalid: true") == 500
    assert "payload: 499" in shown


def test_broker_with_lost_disk_does_not_lead_empty_logs(replicas):
    keys = {(TOPIC, n) for n in range(PARTITIONS)}
    sender = OurSender(
        replicas.cluster,
        TOPIC,
        PARTITIONS,
        **{"message.send.max.retries": "1000", "request.required.acks": "1"},
    )
    sender.start()
    others = [replicas.cluster.broker(each) for each in (2, 3)]

    def stored(broker: Any) -> bool:
        logs = [broker.data_directory / f"{t}-{n}" / f"{0:020}.log" for t, n in sorted(keys)]
        return all(each.stat().st_size for each in logs)

    eventually(lambda: all(map(stored, others)), "messages in all logs")
    for each in others:
        each.kill()
        live = {1, 3} if each.id == 2 else {1}
        eventually(
            lambda live=live: all(set(each.isr) == live for each in replicas.decided().values()),
            "ISRs of the live brokers",
        )
        assert sender.acknowledges()
    sender.over.set()
    last = replicas.cluster.broker(1)
    sender.join()
    ends = {n: len(values) for n, values in read_all(replicas.cluster, TOPIC).items()}
    assert min(ends.values()) > 0
    last.kill()
    kept = last.data_directory.with_suffix(".kept")
    last.data_directory.rename(kept)
    last.start()
    for each in others:
        each.start()

    def refused() -> bool:
        return all(replicas.decided()[key].leader != 1 for key in keys)

    eventually(refused, "broker 1 leads no partition")
    assert f"logs lost count={PARTITIONS}" in last.log_path.read_text()
    assert all(map(stored, others))
    # Another restart changes nothing; only the restored disk does.
    last.kill()
    last.start()
    eventually(refused, "broker 1 leads no partition after another restart")
    assert all(map(stored, others))
    last.stop()
    shutil.rmtree(last.data_directory)
    kept.rename(last.data_directory)
    last.start()
    eventually(replicas.in_sync, "all in sync with the restored disk")
    found = {n: len(values) for n, values in read_all(replicas.cluster, TOPIC).items()}
    assert found == ends


def test_leader_with_lost_disk_that_starts_first_keeps_no_isr(replicas):
    config = ProducerConfig.from_properties(
        {"zookeeper.connect": replicas.cluster.zookeeper, "request.required.acks": "-1"}
    )
    sent = {number: [b"%d" % each for each in range(100)] for number in range(PARTITIONS)}
    with Producer(config) as producer:
        for number, values in sent.items():
            for value in values:
                producer.send(KeyedMessage(TOPIC, value, partition=number))
    led = {state.leader: key for key, state in replicas.decided().items()}
    wiped = min(led)
    for each in replicas.ids:
        replicas.cluster.broker(each).kill()
    shutil.rmtree(replicas.cluster.broker(wiped).data_directory)
    replicas.cluster.broker(wiped).start()
    eventually(lambda: current_controller(replicas.session) == wiped, "it is the controller")

    def has_left_isrs() -> bool:
        return all(
            state.leader == -1 and wiped not in state.isr for state in replicas.decided().values()
        )

    eventually(has_left_isrs, "no leaders while it is alone")
    for each in set(replicas.ids) - {wiped}:
        replicas.cluster.broker(each).start()
    eventually(replicas.in_sync, "all in sync, with the new disk")
    assert {n: sorted(values) for n, values in read_all(replicas.cluster, TOPIC).items()} == {
        number: sorted(values) for number, values in sent.items()
    }
    eventually(lambda: not replicas.different_logs(), "the same bytes in all logs")
