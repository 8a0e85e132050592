"""Reassignments under load: a broker is added, moves are throttled and cancelled, one is drained.

Acknowledged messages are there in the end, on the requested brokers only.
"""

import contextlib
import json
import threading
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from tests.support.clusters import MakeCluster, module_cluster
from tests.support.process import eventually, wait_until
from tests.support.reading import read_all
from tests.support.senders import OurSender
from zkbroker.admin.reassignment import current_assignment, decode_target
from zkbroker.cli.main import cli
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry import paths
from zkbroker.registry.broker_configs import broker_config
from zkbroker.registry.topics import topic_config
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

LIVE, BULK = "live", "bulk"
VALUE = b"x" * 20_000
WITHIN_S = 600
QUOTA = {
    "replication.quota.window.num": "11",
    "replication.quota.window.size.seconds": "1",
    "zookeeper.session.timeout.ms": "10000",
    "replica.fetch.max.bytes": "65536",
    "replica.fetch.response.max.bytes": "131072",
    "replica.fetch.wait.max.ms": "100",
}


class Reassigned:
    """A cluster, its tools, and the places of its replicas.

    Args:
        cluster: three brokers that run.
        session: to its ZooKeeper.
        directory: for plans.
        partitions: of each topic.
    """

    def __init__(self, cluster, session, directory, partitions) -> None:
        self.cluster = cluster
        self.session = session
        self.partitions = partitions
        self._directory = directory
        self._plans = 0

    def run(self, *arguments: object, status: int = 0) -> str:
        environment = {"ZKBROKER_ZOOKEEPER": self.cluster.zookeeper}
        ran = CliRunner(env=environment).invoke(cli, list(map(str, arguments)))
        assert ran.exit_code == status, f"{ran.output} {ran.exception}"
        return ran.stdout

    def plan(self, *arguments: object):
        self._plans += 1
        file = self._directory / f"plan-{self._plans}.json"
        file.write_text(self.run("reassign", "plan", *arguments))
        return file

    def finish(self, file) -> None:
        """Wait until a plan is carried out."""

        def done() -> bool:
            environment = {"ZKBROKER_ZOOKEEPER": self.cluster.zookeeper}
            arguments = ["reassign", "verify", str(file)]
            return CliRunner(env=environment).invoke(cli, arguments).exit_code == 0

        assert wait_until(done, timeout_s=WITHIN_S), self.run("reassign", "verify", file, status=1)
        assert not self.session.exists(paths.REASSIGN_PARTITIONS)

    def assigned(self):
        return current_assignment(self.session, [LIVE, BULK])

    def copied(self, broker: int) -> int:
        """Bytes of the large topic in a broker's log directory."""
        found = 0
        for path in self.cluster.broker(broker).data_directory.glob(f"{BULK}-*/*.log"):
            with contextlib.suppress(FileNotFoundError):
                found += path.stat().st_size
        return found

    def only_assigned_logs_are_left(self) -> bool:
        return all(
            {path.name for path in each.data_directory.glob("[lb]*-*[0-9]")}
            == {f"{t}-{n}" for (t, n), replicas in self.assigned().items() if each.id in replicas}
            for each in self.cluster.brokers
        )

    def throttles(self) -> list[str]:
        configs = [broker_config(self.session, each.id) for each in self.cluster.brokers]
        configs += [topic_config(self.session, topic) for topic in (LIVE, BULK)]
        return [name for config in configs for name in config if "throttled" in name]


class Copied(threading.Thread):
    """How much a broker has copied, from time to time."""

    def __init__(self, reassigned: Reassigned, broker: int) -> None:
        super().__init__(name="copied")
        self._reassigned, self._broker = reassigned, broker
        self._samples: list[tuple[float, int, float]] = []
        """Of each: before it was counted, how much, after."""
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            before = time.monotonic()
            self._samples.append((before, self._reassigned.copied(self._broker), time.monotonic()))

    def rate(self) -> float | None:
        """Bytes a second, without the first and the last fifth; None where it was over at once.

        A broker may hear of the throttle when it has copied a small log already.
        """
        whole = self._samples[-1][1]
        middle = [each for each in self._samples if whole * 0.2 < each[1] < whole * 0.8]
        if len(middle) < 2:
            return None
        (since, first, _), (_, last, until) = middle[0], middle[-1]
        return (last - first) / (until - since)


@pytest.fixture
def reassigned(local_cluster: MakeCluster, tmp_path, request) -> Iterator[Reassigned]:
    with (
        local_cluster(
            3, replication=2, properties=QUOTA, directory=tmp_path / "cluster"
        ) as cluster,
        ZkSession(cluster.zookeeper) as session,
    ):
        for topic in (LIVE, BULK):
            cluster.create_topic(topic, partitions=request.param)
        yield Reassigned(cluster, session, tmp_path, request.param)


def fill(reassigned: Reassigned, size: int) -> int:
    """Give every partition of the large topic some data; returns how many messages."""
    each = max(1, size // len(VALUE))
    config = ProducerConfig.from_properties(
        {
            "zookeeper.connect": reassigned.cluster.zookeeper,
            "producer.type": "async",
            "request.required.acks": "-1",
            # A follower takes a batch whole, however large: many are needed for a slow move.
            "batch.num.messages": "1",
        }
    )
    with Producer(config) as producer:
        sent = [
            producer.send(KeyedMessage(BULK, VALUE, partition=number))
            for number in range(reassigned.partitions)
            for _ in range(each)
        ]
        for future in sent:
            future.result(120)
    return len(sent)


@pytest.mark.parametrize(
    ("reassigned", "size", "throttle", "exact"),
    [
        (6, 400_000, 400_000, False),
        pytest.param(
            200, 500_000, 500_000, True, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]
        ),
    ],
    indirect=["reassigned"],
)
def test_partitions_move_under_load_throttled_cancelled_and_drained(
    reassigned, size, throttle, exact
):
    filled = fill(reassigned, size)
    sender = OurSender(
        reassigned.cluster, LIVE, reassigned.partitions, **{"enable.idempotence": "true"}
    )
    sender.start()
    try:
        move_cancel_and_drain(reassigned, sender, throttle, exact=exact)
    finally:
        sender.over.set()
        sender.join()
    print(sender.check())
    bulk = read_all(reassigned.cluster, BULK)
    assert sum(map(len, bulk.values())) == filled
    assert {value for values in bulk.values() for value in values} == {VALUE}


def move_cancel_and_drain(reassigned, sender, throttle, *, exact):
    # A broker comes, and gets its share.
    fourth = reassigned.cluster.add_broker().id
    spread = reassigned.plan("-t", LIVE, "-t", BULK)
    asked = decode_target(spread.read_text())
    assert sum(fourth in replicas for replicas in asked.values()) >= reassigned.partitions // 2
    copied = Copied(reassigned, fourth)
    copied.start()
    reassigned.run("reassign", "execute", spread, "--throttle", throttle)
    assert sender.acknowledges()
    reassigned.finish(spread)
    copied.over.set()
    copied.join()
    rate = copied.rate()
    print(f"copied to the broker that came: {rate} of {throttle} bytes/s")
    if exact:
        assert rate is not None
        assert rate > throttle * 0.8
    assert rate is None or rate < throttle * 1.2
    assert all(reassigned.assigned()[key] == replicas for key, replicas in asked.items())
    assert reassigned.throttles() == []

    # Its moves away are slow, and turned back.
    before = reassigned.assigned()
    away = reassigned.plan("-t", BULK, "--remove", fourth)
    reassigned.run("reassign", "execute", away, "--throttle", 1_000)
    assert reassigned.throttles()
    assert sender.acknowledges()
    shown = reassigned.run("reassign", "cancel", f"{away}.rollback")
    assert "is being reverted" in shown
    reassigned.finish(f"{away}.rollback")
    assert reassigned.assigned() == before
    assert reassigned.throttles() == []
    assert wait_until(reassigned.only_assigned_logs_are_left)

    # Another broker is emptied.
    drained = spread.with_name("drain.json")
    reassigned.run("drain", 2, "--plan", drained)
    reassigned.finish(drained)
    assert all(2 not in replicas for replicas in reassigned.assigned().values())
    assert wait_until(reassigned.only_assigned_logs_are_left)
    assert not list(reassigned.cluster.broker(2).data_directory.glob("[lb]*-*[0-9]"))
    assert sender.acknowledges()


cluster = module_cluster(2)


@pytest.fixture
def session(cluster: LocalCluster) -> Iterator[ZkSession]:
    with ZkSession(cluster.zookeeper) as started:
        yield started


def test_impossible_controller_requests_are_removed(
    cluster: LocalCluster, session: ZkSession
) -> None:
    cluster.create_topic(LIVE)
    before = current_assignment(session, [LIVE])
    for text in (
        json.dumps({"partitions": [{"topic": LIVE, "partition": 0, "replicas": [1, 77]}]}),
        json.dumps({"partitions": [{"topic": LIVE, "partition": 0, "replicas": [-1]}]}),
        json.dumps({"partitions": [{"topic": "nothing", "partition": 0, "replicas": [1]}]}),
        "{broken",
    ):
        for path in (paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION):
            session.create(path, text.encode())
            eventually(lambda path=path: not session.exists(path), f"{path} without {text}")
    assert current_assignment(session, [LIVE]) == before


def test_topic_is_deleted_during_reassignment(cluster: LocalCluster, session: ZkSession) -> None:
    cluster.create_topic("goes", partitions=10)
    plan = [
        {"topic": topic, "partition": number, "replicas": [3 - replicas[0]]}
        for (topic, number), replicas in current_assignment(session, ["goes"]).items()
    ]
    session.create(
        paths.REASSIGN_PARTITIONS, json.dumps({"version": 1, "partitions": plan}).encode()
    )
    session.create(f"{paths.DELETE_TOPICS}/goes", b"")
    eventually(lambda: not session.exists(f"{paths.DELETE_TOPICS}/goes"))
    eventually(lambda: not session.exists(paths.REASSIGN_PARTITIONS))
    assert not session.exists("/brokers/topics/goes")
