"""A program that copies one partition of `in` to `out`, a few messages in each transaction.

    python -m tests.support.copier SERVERS PARTITION TIMEOUT_MS SEED

It runs until it is killed. A replaced instance, or one with a fatal error, prints the reason and
exits with status 3; its open transaction is left to its successor and the coordinator.
"""

import faulthandler
import os
import random
import signal
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

BATCH = 5
PATIENCE_S = 60
REPLACED = 3


class Copier:
    """One instance of the program.

    Args:
        servers: brokers.
        partition: which is copied; it names the transactional id.
        timeout_ms: of its transactions.
        chance: the source of its delays.
    """

    def __init__(
        self, servers: str, partition: int, timeout_ms: int, chance: random.Random
    ) -> None:
        self.chance = chance
        self.input = TopicPartition("in", partition)
        self.producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": f"copier-{partition}",
                "transaction.timeout.ms": timeout_ms,
                # A pause longer than the transaction's time-out is to be seen by the coordinator.
                "message.timeout.ms": timeout_ms,
                "reconnect.backoff.max.ms": 500,
            }
        )
        self.consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "copiers",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 500,
            }
        )

    def run(self) -> None:
        self.producer.init_transactions(PATIENCE_S)
        self._to_committed()
        parent = os.getppid()
        while os.getppid() == parent:
            taken = self.consumer.consume(self.chance.randint(1, BATCH), timeout=0.2)
            for message in taken:
                if message.error():
                    raise KafkaException(message.error())
            if taken:
                self._copy(taken)

    def _copy(self, taken: list) -> None:
        try:
            self.producer.begin_transaction()
            for message in taken:
                self.producer.produce(
                    "out", message.value(), partition=self.input.partition, on_delivery=ignore
                )
            self._take_time()
            self.producer.send_offsets_to_transaction(
                self.consumer.position([self.input]),
                self.consumer.consumer_group_metadata(),
                PATIENCE_S,
            )
            self._take_time()
            if self.chance.random() < 0.1:
                self.producer.abort_transaction(PATIENCE_S)
                self._to_committed()
            else:
                self.producer.commit_transaction(PATIENCE_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.producer.abort_transaction(PATIENCE_S)
            self._to_committed()

    def _to_committed(self) -> None:
        (position,) = self.consumer.committed([self.input], PATIENCE_S)
        self.consumer.assign([TopicPartition("in", self.input.partition, max(0, position.offset))])

    def _take_time(self) -> None:
        self.producer.poll(0)
        if self.chance.random() < 0.5:
            time.sleep(self.chance.uniform(0, 0.2))


def ignore(error: object, message: object) -> None:
    """An error of one message shows in the commit."""


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)  # prints the stack when the test asks
    servers, partition, timeout_ms, seed = sys.argv[1:]
    try:
        Copier(servers, int(partition), int(timeout_ms), random.Random(int(seed))).run()
    except KafkaException as error:
        print(f"copier-{partition} ends: {error}", file=sys.stderr)
        # Exit at once: open transactions stay open.
        os._exit(REPLACED)
