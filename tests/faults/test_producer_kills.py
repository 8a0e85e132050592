"""Brokers are killed (SIGKILL) and started again while a producer sends.

With idempotence and a flush after every message, each message whose future resolved is in the log
exactly once and in order; each other one is reported.
"""

import queue
import random
import threading
from collections import defaultdict

import pytest

from tests.support import soak
from tests.support.reading import read_all
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, MessageTooLarge, Producer

PARTITIONS = 6
BROKERS = 3
OVERSIZE_EVERY = 997


class Killer:
    """A thread that kills brokers on request, and restarts them after a while."""

    def __init__(self, cluster, seed):
        self._cluster = cluster
        self._random = random.Random(seed)
        self._asked = queue.SimpleQueue()
        self.kills = 0
        self.error = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def ask(self):
        self._asked.put(True)

    def stop(self):
        """Finish the requested kills, and end the thread."""
        self._asked.put(False)
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self):
        try:
            while self._asked.get():
                victims = self._random.sample(range(1, BROKERS + 1), self._random.choice((1, 1, 2)))
                for broker_id in victims:
                    self._cluster.broker(broker_id).kill()
                    self.kills += 1
                # The length of an outage is part of the seeded schedule.
                threading.Event().wait(self._random.uniform(0, 0.5))
                for broker_id in victims:
                    self._cluster.broker(broker_id).start()
        except Exception as error:  # noqa: BLE001 - handed to the test by stop()
            self.error = error


def run(local_cluster, sends, kills, seed, runtime):
    chooser = random.Random(seed)
    properties = {"log.flush.interval.messages": "1", "message.max.bytes": "200000"}
    with local_cluster(BROKERS, properties=properties) as cluster:
        topic = cluster.create_topic(partitions=PARTITIONS)
        config = ProducerConfig.from_properties(
            {
                "zookeeper.connect": cluster.zookeeper,
                "producer.type": "async",
                "request.required.acks": "1",
                "enable.idempotence": "true",
                "queue.buffering.max.messages": "3000",
                "queue.buffering.max.ms": "5",
                "batch.num.messages": "100",
                "request.timeout.ms": "10000",
                "delivery.timeout.ms": "300000",
            }
        )
        killer = Killer(cluster, seed)
        kill_at = set(chooser.sample(range(sends // 20, sends), kills))
        futures = []
        try:
            with Producer(config, runtime=runtime) as producer:
                for i in range(sends):
                    if killer.error is not None:
                        raise killer.error  # the messages of a dead broker would wait for minutes
                    if i in kill_at:
                        killer.ask()
                    size = 300_000 if i % OVERSIZE_EVERY == OVERSIZE_EVERY - 1 else 20
                    value = (b"%d " % i).ljust(size, b"x")
                    futures.append(
                        producer.send(
                            KeyedMessage(topic, value, partition=chooser.randrange(PARTITIONS))
                        )
                    )
                outcomes = [(future, future.exception(300)) for future in futures]
        finally:
            killer.stop()
        stored = read_all(cluster, topic)
    expected = defaultdict(list)
    for i, (future, error) in enumerate(outcomes):
        if i % OVERSIZE_EVERY == OVERSIZE_EVERY - 1:
            assert isinstance(error, MessageTooLarge), error
            continue
        assert error is None, error
        place = future.result()
        value = future.message.message
        assert place.partition == future.message.partition
        assert stored[place.partition][place.offset] == value
        expected[place.partition].append(value)
    # Exactly these, each once, in the order of the sends.
    assert {p: values for p, values in stored.items() if values} == expected
    return killer.kills


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_every_acknowledged_message_survives_kills_exactly_once_and_in_order(
    local_cluster, runtime
):
    assert run(local_cluster, sends=6_000, kills=3, seed=20, runtime=runtime) >= 3


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("runtime", ["threads", "gevent"])
@pytest.mark.parametrize("seed", [1, 2])
def test_200_000_sends_survive_kills_exactly_once_and_in_order(local_cluster, runtime, seed):
    seed += soak.SEED
    sends, kills = soak.part_of(200_000), soak.part_of(25)
    kills = run(local_cluster, sends=sends, kills=kills, seed=seed, runtime=runtime)
    print(f"seed={seed} runtime={runtime} kills={kills}")
