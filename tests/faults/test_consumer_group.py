"""A consumer group of real processes under kills, pauses and restarts.

Every member logs each assignment (with the committed offset that it found) and each message. At
the end:

- together the members received every message of the topic;
- each assignment began exactly at the committed offset and continued without a gap, and the
  committed offset never went back: only messages after the last commit were delivered twice;
- the settled group owns every partition, each by a live member.
"""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support import soak
from tests.support.clusters import TestCluster
from tests.support.group_member import ASSIGNED, DELIVERED, UNKNOWN, read_log
from tests.support.producing import TestProducer
from zkbroker.errors import RegistryError
from zkbroker.registry import groups
from zkbroker.zookeeper import ZkSession

SESSION_MS = 3000
GROUP = "faults"
BATCH = 50


class Member:
    """One consumer process."""

    def __init__(self, cluster, topic, directory, number):
        self.log = directory / f"member-{number}.log"
        self.log.touch()
        options = {
            "topic": topic,
            "log": str(self.log),
            "runtime": "gevent" if number % 2 else "threads",
            # One in five is slow, and holds messages when a fault happens.
            "slow": number % 5 == 2,
            "properties": {
                "zookeeper.connect": cluster.zookeeper,
                "group.id": GROUP,
                "zookeeper.session.timeout.ms": str(SESSION_MS),
                "zookeeper.connection.timeout.ms": "60000",
                "auto.offset.reset": "smallest",
                "auto.commit.interval.ms": "100",
                "rebalance.backoff.ms": "500",
                "refresh.leader.backoff.ms": "50",
            },
        }
        self.errors = (directory / f"member-{number}.err").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.group_member", json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        assert self.process.stdout is not None
        self.consumer_id = self.process.stdout.readline().strip()
        assert self.consumer_id, Path(self.errors.name).read_text()

    def send(self, number):
        self.process.send_signal(number)

    def end(self, number):
        self.send(number)
        self.process.wait(300)
        self.errors.close()


class Group:
    """The members of one group, and the faults of the members, brokers and ZooKeeper."""

    def __init__(self, cluster, topic, partitions, members, directory):
        self.cluster = cluster
        self.topic = topic
        self.partitions = partitions
        self.directory = directory
        self.started = 0
        self.live = []
        self.all = []
        self.settling_s = []
        self.session = ZkSession(cluster.zookeeper, session_timeout_ms=30_000).start()
        for _ in range(members):
            self.add()

    def add(self):
        member = Member(self.cluster, self.topic, self.directory, self.started)
        self.started += 1
        self.live.append(member)
        self.all.append(member)

    def owners(self):
        return {
            partition: thread.rpartition("-")[0]
            for partition, thread in groups.owners(self.session, GROUP, self.topic).items()
        }

    def settled(self):
        live = {member.consumer_id for member in self.live}
        try:
            owners = self.owners()
            registered = set(groups.members(self.session, GROUP))
        except RegistryError:
            return False
        share = self.partitions // len(live)
        counts = [list(owners.values()).count(member) for member in live]
        return (
            len(owners) == self.partitions
            and set(owners.values()) <= live
            and registered == live
            and min(counts) >= share
        )

    def until_settled(self, cause):
        began = time.monotonic()
        while not self.settled():
            assert time.monotonic() - began < 180, f"{cause}: {self.owners()}"
            time.sleep(0.02)
        self.settling_s.append((cause, time.monotonic() - began))

    def fault(self, fault, chance):
        """Cause one fault and repair it; returns when the group has settled."""
        # Some time after the last change, while messages flow.
        time.sleep(chance.uniform(0.2, 1.0))
        victim = chance.choice(self.live)
        if fault == "kill":
            self.live.remove(victim)
            victim.end(signal.SIGKILL)
        elif fault == "leave":
            self.live.remove(victim)
            victim.end(signal.SIGTERM)
        elif fault == "pause":
            victim.send(signal.SIGSTOP)
            time.sleep(SESSION_MS / 1000 * 2)
            victim.send(signal.SIGCONT)
        elif fault == "zookeeper":
            self.cluster.embedded_zookeeper.kill()
            time.sleep(chance.uniform(0, SESSION_MS / 1000 * 1.5))
            self.cluster.embedded_zookeeper.restart()
        else:
            broker = chance.choice(self.cluster.brokers)
            broker.kill()
            time.sleep(chance.uniform(0, 1))
            broker.start()
        self.until_settled(fault)
        if fault in ("kill", "leave"):
            self.add()
            self.until_settled("join")

    def entries(self):
        return [read_log(str(member.log)) for member in self.all]

    def missing(self, ends):
        """Return the offsets of each partition that no member has received yet."""
        left = {partition: set(range(end)) for partition, end in enumerate(ends)}
        for log in self.entries():
            for entry in log:
                if entry.kind == DELIVERED:
                    left[entry.partition].discard(entry.offset)
        return {partition: sorted(offsets) for partition, offsets in left.items() if offsets}

    def close(self):
        for member in self.live:
            member.end(signal.SIGTERM)
        self.session.close()


class Feed(threading.Thread):
    """Produces to all partitions during the faults, and the rest at full speed."""

    def __init__(self, cluster, topic, partitions, total, pause_s):
        super().__init__(daemon=True)
        self.producer = TestProducer(cluster.bootstrap_servers)
        self.topic = topic
        self.partitions = partitions
        self.total = total
        self.pause_s = pause_s
        self.ends = [0] * partitions
        self.error = None
        self.hurry = threading.Event()

    def run(self):
        try:
            for number in range(self.total // BATCH):
                partition = number % self.partitions
                base = self.producer.send(self.topic, partition, [b"x" * 20] * BATCH)
                # A batch whose response was lost is stored twice; the log end counts both.
                self.ends[partition] = base + BATCH
                self.hurry.wait(self.pause_s)
        except Exception as error:  # noqa: BLE001 - the test raises it
            self.error = error


def check(logs, ends):
    """Check the messages that all members received; return figures of the run."""
    assignments = defaultdict(list)
    for log in logs:
        current = {}
        for entry in log:
            if entry.kind == ASSIGNED:
                current[entry.partition] = []
                assignments[entry.partition].append(
                    (entry.at, entry.offset, current[entry.partition])
                )
            else:
                current[entry.partition].append(entry)
    delivered = 0
    for partition, end in enumerate(ends):
        seen = set()
        committed_before = 0
        for _, committed, messages in sorted(assignments[partition], key=lambda one: one[0]):
            offsets = [entry.offset for entry in messages]
            delivered += len(offsets)
            if committed != UNKNOWN:
                assert committed_before <= max(committed, 0), f"{partition}: a commit went back"
                committed_before = max(committed, 0)
                if offsets:
                    assert offsets[0] == max(committed, 0), f"{partition}: not from the commit"
            if offsets:
                assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
            seen.update(offsets)
        assert seen == set(range(end)), f"{partition}: {end - len(seen)} messages are missing"
    return {
        "messages": sum(ends),
        "delivered": delivered,
        "assignments": sum(map(len, assignments.values())),
    }


def run(directory, *, brokers, members, partitions, messages, seconds, faults, seed=1):
    chance = random.Random(seed)
    with TestCluster(brokers) as cluster:
        topic = cluster.create_topic(partitions=partitions)
        feed = Feed(cluster, topic, partitions, messages, seconds / (messages / BATCH))
        group = Group(cluster, topic, partitions, members, directory)
        try:
            group.until_settled("start")
            feed.start()
            for fault in faults:
                group.fault(fault, chance)
            feed.hurry.set()
            feed.join(300)
            assert feed.error is None, feed.error
            assert not feed.is_alive()
            deadline = time.monotonic() + 300
            while missing := group.missing(feed.ends):
                assert time.monotonic() < deadline, f"missing: {missing}, owners: {group.owners()}"
                time.sleep(0.2)
            group.until_settled("rest")
        finally:
            group.close()
        figures = check(group.entries(), feed.ends)
    slowest = defaultdict(float)
    for fault, seconds in group.settling_s:
        slowest[fault] = max(slowest[fault], round(seconds, 2))
    print(f"\n{figures} rounds={len(faults)} slowest to settle, seconds: {dict(slowest)}")


def test_group_delivers_everything_under_each_kind_of_fault(tmp_path):
    run(
        tmp_path,
        brokers=2,
        members=3,
        partitions=6,
        messages=40_000,
        seconds=10,
        faults=["kill", "pause", "broker", "zookeeper", "leave"],
    )


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_group_of_five_delivers_half_a_million_messages_over_twenty_rounds(tmp_path):
    run(
        tmp_path,
        brokers=3,
        members=5,
        partitions=24,
        messages=soak.part_of(500_000),
        seconds=soak.part_of(150),
        faults=["kill", "pause", "broker", "zookeeper"] * soak.part_of(5),
    )
