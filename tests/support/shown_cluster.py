"""A cluster with data for every view of the console."""

import json
import socket
import threading
import time
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer

from tests.support.clusters import MakeCluster
from tests.support.consoles import running_console
from zkbroker.registry.group_offsets import commit_offset
from zkbroker.security.password_hashes import PasswordHash
from zkbroker.zookeeper.embedded import free_port
from zkbroker.zookeeper.session import ZkSession

LARGE_BYTES = 10 * 1024 * 1024
MARKUP = (
    "<script>document.title='taken';alert(1)</script>"
    "<img src=//elsewhere.example/x onerror=alert(2)><style>*{display:none}</style>"
)
TERMINAL = "\x1b[2J\x1b]0;taken\x07\x1b[31mred\x00\x9b"
REVERSED = "\u202egnp.exe\u202c \u05e9\u05dc\u05d5\u05dd \u200b\ufeff"

PASSWORDS = {"olga": "may change", "victor": "may look"}


def free_ports(count: int) -> int:
    """Return the first of some consecutive free ports."""
    while True:
        port = free_port()
        try:
            for each in range(port + 1, port + count):
                socket.create_server(("127.0.0.1", each)).close()
        except OSError:
            continue
        return port


@contextmanager
def shown_cluster(make: MakeCluster, brokers: int = 2):
    """Yield the cluster and its first admin port; messages are sent until the block ends."""
    admin_port = free_ports(brokers)
    properties = {
        "admin.port": admin_port,
        "admin.console": "true",
        "message.max.bytes": LARGE_BYTES + 1024 * 1024,
        "replica.fetch.max.bytes": LARGE_BYTES + 1024 * 1024,
    }
    with make(brokers, replication=min(2, brokers), properties=properties) as cluster:
        cluster.create_topic("events", partitions=3, config={"retention.ms": "86400000"})
        cluster.create_topic("orders", partitions=1)
        cluster.create_topic("hostile", partitions=1)
        _events(cluster)
        _orders(cluster)
        _hostile(cluster)
        with _group(cluster), _load(cluster):
            yield cluster, admin_port


@contextmanager
def console_of(cluster, admin_port: int, users_file):
    """Yield a console of the cluster, with olga as an operator and victor as a viewer."""
    lines = [f"{user}:{PasswordHash.of(word, iterations=10)}\n" for user, word in PASSWORDS.items()]
    users_file.write_text("".join(lines))
    pages = [
        argument
        for at, broker in enumerate(cluster.brokers)
        for argument in ("--admin-page", f"{broker.id}=http://127.0.0.1:{admin_port + at}")
    ]
    arguments = ["-z", cluster.zookeeper, "--interval", "0.5", *pages]
    arguments += ["--users", str(users_file), "--operator", "olga"]
    with running_console(*arguments) as console:
        console.admin_page = f"http://127.0.0.1:{admin_port}"
        yield console


def _producer(cluster, **settings) -> Producer:
    return Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "client.id": "shop",
            "message.max.bytes": LARGE_BYTES + 512 * 1024,
            **settings,
        }
    )


def _events(cluster) -> None:
    producer = _producer(cluster, **{"compression.type": "lz4"})
    for number in range(300):
        value = {"number": number, "account": 12345678901234567890, "tags": ["a", "b"]}
        producer.produce(
            "events",
            json.dumps(value).encode(),
            f"user-{number % 7}".encode(),
            partition=number % 3,
            headers={"trace": f"{number:08x}"},
        )
    assert producer.flush(60) == 0
    with ZkSession(cluster.zookeeper) as session:
        commit_offset(session, "classic", "events", 0, 40)


def _orders(cluster) -> None:
    producer = _producer(cluster, **{"transactional.id": "orders"})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        producer.produce("orders", f"order {number}".encode())
        if number % 3 == 1:
            producer.flush(60)  # an abort would drop unsent messages
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)


def _hostile(cluster) -> None:
    producer = _producer(cluster)
    for value in (MARKUP.encode(), TERMINAL.encode(), REVERSED.encode(), bytes(range(256))):
        producer.produce("hostile", value, MARKUP.encode(), headers={MARKUP: MARKUP.encode()})
    producer.produce("hostile", None, b"deleted")
    producer.produce("hostile", b"<b>" + b"x" * (LARGE_BYTES - 3), b"large")
    assert producer.flush(60) == 0


@contextmanager
def _group(cluster):
    """Run a member of the group `billing`, which has read some of `events`."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "billing",
            "client.id": "billing-1",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["events"])
    deadline = time.monotonic() + 60
    while (message := consumer.poll(1)) is None or message.error():
        assert time.monotonic() < deadline, "the group got no message"
    consumer.commit(message=message, asynchronous=False)
    ended = threading.Event()

    def stay() -> None:
        while not ended.is_set():
            consumer.poll(0.5)

    member = threading.Thread(target=stay)
    member.start()
    try:
        yield
    finally:
        ended.set()
        member.join()
        consumer.close()


@contextmanager
def _load(cluster):
    """Send about 50 messages a second to `events`, also while a broker is down."""
    producer = _producer(cluster, **{"client.id": "load", "queue.buffering.max.messages": 1000})
    ended = threading.Event()

    def send() -> None:
        number = 0
        while not ended.wait(0.1):
            for _ in range(5):
                number += 1
                try:
                    producer.produce("events", f'{{"live": {number}}}'.encode(), b"load")
                except BufferError:
                    break  # the brokers are down, and the queue is full
            producer.poll(0)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        ended.set()
        sender.join()
        producer.purge()
        producer.flush(10)
