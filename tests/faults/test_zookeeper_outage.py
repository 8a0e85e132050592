"""Outages of ZooKeeper, while many requests and watches are outstanding.

Requests, watches and new topics must work again soon after an outage of any length; and the log
reports the outage once, not several times a second.
"""

import asyncio
import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support import soak
from tests.support.brokers import connect, running_broker
from tests.support.zookeeper import until
from tests.support.zookeeper_quorum import EmbeddedQuorum
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import RegistryError, ZkbrokerError
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.protocol.messages import CreateTopicsRequest
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.registry import paths
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper
from zkbroker.zookeeper.watching import WatchLoop

BACK_WITHIN_S = 30
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'


def leave(zookeeper, how):
    (zookeeper.kill if how == "kill" else zookeeper.pause)()


def come_back(zookeeper, how):
    (zookeeper.start if how == "kill" else zookeeper.resume)()


@pytest.mark.parametrize(
    ("how", "runtime"),
    [
        ("kill", "gevent"),
        ("freeze", "threads"),
        pytest.param("freeze", "gevent", marks=pytest.mark.soak),
        pytest.param("kill", "threads", marks=pytest.mark.soak),
    ],
)
def test_session_with_many_requests_and_watches_works_after_an_outage(how, runtime):
    watched = [paths.partition_state("t", number) for number in range(1000)]
    views = []
    longest_s = [0.0]
    with EmbeddedZooKeeper() as zookeeper:
        session = ZkSession(zookeeper.connect_string, session_timeout_ms=4000, runtime=runtime)
        session.start()
        run, over = session.runtime, session.runtime.event()
        session.ensure_path("/brokers/topics/t/partitions")
        watch = WatchLoop(
            session,
            lambda each: [
                stat for stat in session.exists_many(watched, [each] * len(watched)) if stat
            ],
            lambda found: views.append(len(found)),
            name="watch-many",
        )
        watch.start()

        def ask(first):
            asked = [paths.partition_state("t", first + number) for number in range(30)]
            while not over.is_set():
                begun = time.monotonic()
                with contextlib.suppress(RegistryError):
                    session.get_many(asked)
                longest_s[0] = max(longest_s[0], time.monotonic() - begun)
                # Many at once, but few enough for a busy machine.
                run.sleep(1)

        askers = [run.spawn(ask, 30 * number, name=f"asker-{number}") for number in range(30)]
        run.sleep(0.3)
        leave(zookeeper, how)
        # Longer than a call may take, so that every asker fails at least once.
        run.sleep(session.request_timeout_s + 1)
        assert len(session._client._queue) < 1000, "requests pile up during the outage"
        run.offload(come_back, zookeeper, how)
        deadline = time.monotonic() + BACK_WITHIN_S
        for number in range(3):
            while time.monotonic() < deadline:
                with contextlib.suppress(RegistryError):
                    session.create(paths.partition_state("t", number), STATE, parents=True)
                    break
                run.sleep(0.01)
        while time.monotonic() < deadline and (not views or views[-1] < 3):
            run.sleep(0.01)
        assert views[-1] == 3, "the watch sees what came after the outage"
        assert session.exists("/") is not None
        assert longest_s[0] < 2 * session.request_timeout_s, "no call waits much beyond its bound"
        over.set()
        assert all(asker.join(120) for asker in askers)
        watch.close()
        session.close()


class Served:
    """A broker with many partitions, a client that produces to it, and the broker's log."""

    def __init__(self, broker, partitions):
        self.broker = broker
        self.acknowledged = 0
        self.problems = []
        self._over = threading.Event()
        host, port = broker.address
        self._producer = Producer(
            ProducerConfig.from_properties(
                {"metadata.broker.list": f"{host}:{port}", "request.required.acks": "1"}
            )
        )
        self._made = 0
        self.create("many", partitions)
        until(lambda: self.produced("many"))
        self._task = threading.Thread(target=self._run)
        self._task.start()

    def create(self, topic, partitions=1):
        """Create a topic; false when it was refused or had no response."""
        try:
            with connect(self.broker) as connection:
                made = connection.request(
                    CreateTopicsRequest(topics=[NewTopic(topic, partitions, 1)], timeout_ms=5000)
                )
        except ZkbrokerError:
            return False
        # 36: an earlier attempt, whose response was lost, has created it.
        return made.topics[0].error_code in (0, 36)

    def produced(self, topic):
        try:
            self._producer.send(KeyedMessage(topic, b"x"))
        except ZkbrokerError:
            return False
        return True

    def _run(self):
        while not self._over.wait(0.02):
            try:
                self._producer.send(KeyedMessage("many", b"%d" % self.acknowledged))
                self.acknowledged += 1
            except ZkbrokerError as error:
                self.problems.append(error)

    def works(self):
        """Create a topic and produce to it within the allowed time."""
        deadline = time.monotonic() + BACK_WITHIN_S
        self._made += 1
        topic = f"new-{self._made}"
        done = False
        while not done and time.monotonic() < deadline:
            done = self.create(topic) and self.produced(topic)
        assert done, f"{topic} cannot be written to: {self.broker.log_tail()}"

    def warnings(self):
        lines = self.broker.log_path.read_text().splitlines()
        return [line for line in lines if " WARNING " in line or " ERROR " in line]

    def close(self):
        self._over.set()
        self._task.join(60)
        self._producer.close()


@contextlib.contextmanager
def served(tmp_path, partitions):
    with (
        EmbeddedZooKeeper(heap_mb=256) as zookeeper,
        running_broker(
            tmp_path,
            zookeeper.connect_string,
            {"zookeeper.session.timeout.ms": "4000", "log.index.size.max.bytes": "4096"},
        ) as broker,
    ):
        client = Served(broker, partitions)
        try:
            yield zookeeper, client
        finally:
            client.close()


def outage(zookeeper, client, how, length_s):
    before, acknowledged = len(client.warnings()), client.acknowledged
    leave(zookeeper, how)
    # The length of the outage is what is tested: there is nothing to wait for.
    time.sleep(length_s)
    assert client.acknowledged > acknowledged, "partitions are served while ZooKeeper is away"
    come_back(zookeeper, how)
    client.works()
    assert client.problems == []
    warnings = client.warnings()[before:]
    served_on = [
        line
        for line in warnings
        if "ZooKeeper does not answer; partitions are still served" in line
    ]
    assert len(served_on) == 1, warnings
    assert len(warnings) < 15, warnings


def test_broker_works_after_an_outage(tmp_path):
    with served(tmp_path, 100) as (zookeeper, client):
        outage(zookeeper, client, "kill", 6)


def test_idempotent_producer_started_in_an_outage_waits_for_its_id(tmp_path):
    aiokafka = pytest.importorskip("aiokafka")
    # The first producer of a broker: no ids are claimed yet.
    with served(tmp_path, 1) as (zookeeper, client):
        host, port = client.broker.address

        async def send():
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=f"{host}:{port}", enable_idempotence=True
            ) as producer:
                found = await producer.send_and_wait("many", b"x", partition=0)
            return found.offset

        leave(zookeeper, "freeze")
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(asyncio.run, send())
            try:
                # If the client fails, the wait ends, and its error is raised below.
                until(
                    lambda: (
                        sent.done() or any("no producer id" in each for each in client.warnings())
                    )
                )
            finally:
                come_back(zookeeper, "freeze")
            assert sent.result(120) > 0


def test_broker_continues_when_one_of_three_zookeeper_servers_is_lost(tmp_path):
    with (
        EmbeddedQuorum() as quorum,
        running_broker(tmp_path, quorum.connect_string + "/three", {}) as broker,
    ):
        client = Served(broker, 10)
        try:
            leader = quorum.leader
            assert leader is not None
            leader.kill()
            until(lambda: quorum.leader is not None)
            client.works()
            assert client.problems == []
        finally:
            client.close()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_broker_of_1000_partitions_works_after_outages_of_any_length(tmp_path, how):
    with served(tmp_path, 1000) as (zookeeper, client):
        for length_s in (5, 20, 60, soak.part_of(300)):
            outage(zookeeper, client, how, length_s)
