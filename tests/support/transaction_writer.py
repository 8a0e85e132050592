"""A program with a transaction of its own, to be killed: says what it did, line by line.

python -m tests.support.transaction_writer BROKERS ID TOPIC TIMEOUT_MS
"""

import sys
import time

from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer


def main() -> None:
    brokers, name, topic, timeout_ms = sys.argv[1:]
    config = ProducerConfig(
        broker_list=tuple(brokers.split(",")),
        transactional_id=name,
        transaction_timeout_ms=int(timeout_ms),
    )
    producer = Producer(config)
    with producer.transaction():
        producer.send(KeyedMessage(topic, b"of the first, committed"))
    producer.begin()
    producer.send(KeyedMessage(topic, b"of the first, open"))
    producer.send_offsets({(topic, 0): 100}, name)
    print("open", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
