"""Clusters for benchmarks: of this checkout, of another one, of genuine Kafka 0.8.2.2.

Each has its own chroot and directories. Invariant: all clusters are used in the same way: topics
are created in ZooKeeper, and a partition is led once its leader answers for it (`ListOffsets`,
version 0), whatever the registry says.
"""

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

from tests.support import java_clients
from tests.support.genuine_broker import GenuineBroker
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import ListOffsetsRequest
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from zkbroker.registry import paths
from zkbroker.registry.partition_states import PartitionStates
from zkbroker.registry.state_form import StateForm
from zkbroker.registry.topics import assignment, create_topic, mark_for_deletion
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession

HERE = Path(__file__).resolve().parents[1]
GENUINE = "Kafka 0.8.2.2"
READY = "zkbroker broker ready "
WITHIN_S = 300
LOOK_S = 0.002
JAVA = (
    *("-server", "-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+DisableExplicitGC"),
)
"""The options of Kafka's start script, with the collector of its later releases: that of 0.8 is no
longer part of Java.
"""


class Running(Protocol):
    """A broker's process."""

    @property
    def pid(self) -> int: ...

    @property
    def port(self) -> int: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...


class CheckoutBroker:
    """A broker of a checkout, run by the interpreter of its own `.venv` if it has one."""

    def __init__(self, checkout: Path, directory: Path, properties: Mapping[str, str]) -> None:
        self.pid = self.port = 0
        self._checkout = checkout
        self._file = directory / "broker.properties"
        self._file.write_text("".join(f"{key}={each}\n" for key, each in properties.items()))
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it and wait until it is ready."""
        python = self._checkout / ".venv/bin/python"
        with self._file.with_suffix(".log").open("a") as log:
            self._process = subprocess.Popen(
                [
                    str(python if python.exists() else sys.executable),
                    *("-m", "zkbroker.cli", "broker", str(self._file), "--stop-with-stdin"),
                ],
                cwd=self._checkout,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            deadline = time.monotonic() + WITHIN_S
            while selector.select(max(0.0, deadline - time.monotonic())):
                line = self._process.stdout.readline()
                if line.startswith(READY):
                    fields = dict(part.split("=", 1) for part in line.split()[3:])
                    self.port = int(fields["address"].rpartition(":")[2])
                    return
                if not line:
                    break
        self.kill()
        log_tail = self._file.with_suffix(".log").read_text()[-2000:]
        raise RuntimeError(f"a broker of {self._checkout} was not ready:\n{log_tail}")

    def stop(self) -> None:
        """Shut it down cleanly; kill it if that takes too long."""
        if self._process is not None:
            try:
                self._process.communicate(timeout=60)  # it stops when its stdin ends
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Cluster:
    """Brokers 1 to N, started; a topic has a partition for each, which that broker leads.

    Args:
        brokers: that run.
        zookeeper: connect string with the chroot.
        form: of partitions' states there.
        place: directory of the cluster; those of the data are below it.
    """

    def __init__(
        self, brokers: Sequence[Running], zookeeper: str, form: StateForm, place: Path
    ) -> None:
        self.brokers = brokers
        self._place = place
        self.session = ZkSession(zookeeper).start()
        self._form = form
        self._states = PartitionStates(self.session, form)

    @property
    def ports(self) -> list[int]:
        """Ports of the leaders of a topic's partitions, in order."""
        return [each.port for each in self.brokers]

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self.brokers]

    def broker(self, number: int) -> Running:
        return self.brokers[number - 1]

    def create(
        self, topic: str, partitions: int | None = None, replicas: int | None = None
    ) -> None:
        """Create a topic, by default replicated on all brokers, and wait until it is led."""
        count = len(self.brokers)
        assigned = {
            number: [1 + (number + at) % count for at in range(replicas or count)]
            for number in range(partitions or count)
        }
        create_topic(self.session, topic, assigned, {"file.delete.delay.ms": "0"})
        self.wait_led(topic, len(assigned))

    def remove(self, topic: str) -> None:
        """Delete a topic, and its messages from the page cache.

        For 0.8.2.2 only the messages are removed, since its deletion would disturb later slices. If
        they stayed, the kernel would write them to the disk during later slices, and in a virtual
        machine memory that was unused for a while costs three times the write itself.
        """
        if self._form is StateForm.EPHEMERAL:
            mark_for_deletion(self.session, topic)
            when(lambda: self.session.exists(paths.topic(topic)) is None)
        for path in self._place.glob(f"*/data/{topic}-[0-9]*/*.log"):
            with suppress(FileNotFoundError):  # ours deletes at the same time
                os.truncate(path, 0)

    def wait_led(self, topic: str, partitions: int, without: int = 0) -> float:
        """Wait until the leader of each partition answers for it.

        Returns:
            the machine's monotonic time then.
        """
        deadline = time.monotonic() + WITHIN_S
        asked = range(partitions)
        request = ListOffsetsRequest(
            topics=[ListOffsetsRequestTopic(topic, [ListOffsetsRequestPartition(n) for n in asked])]
        )
        with ExitStack() as stack:
            connections = [
                stack.enter_context(BrokerConnection(get_runtime("threads"), "127.0.0.1", port))
                for number, port in enumerate(self.ports, 1)
                if number != without
            ]
            while (looked := time.monotonic()) < deadline:
                led = {
                    each.partition
                    for connection in connections
                    for each in connection.request(request, 0).topics[0].partitions
                    if each.error_code == 0
                }
                if len(led) == partitions:
                    return time.monotonic()
                # Each check takes processor time that the brokers need.
                time.sleep(max(LOOK_S, time.monotonic() - looked))
        raise TimeoutError(f"{topic} is not led after {WITHIN_S} s")

    def wait_in_sync(self, topic: str, partitions: int) -> float:
        """Wait until the ISR of each partition has every replica; returns the time then."""
        keys = [(topic, number) for number in range(partitions)]
        replicas = assignment(self.session, topic) or {}

        def in_sync() -> bool:
            found = self._states.read(keys)
            return len(found) == partitions and all(
                len(state.isr) == len(replicas[key[1]]) for key, state in found.items()
            )

        return when(in_sync)

    def registered(self, number: int) -> bool:
        """Whether ZooKeeper has the broker's session."""
        return self.session.exists(paths.broker(number)) is not None


def when(condition: Callable[[], object]) -> float:
    """Wait for a condition; returns the machine's monotonic time at which it held."""
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {WITHIN_S} s")
        time.sleep(LOOK_S * 5)
    return time.monotonic()


def need_genuine() -> None:
    """End the program if the genuine broker is missing."""
    if java_clients.old_missing():
        sys.exit("the genuine broker is not here: make java-clients")


def start_cluster(
    stack: ExitStack,
    directory: Path,
    zookeeper: str,
    checkout: Path | None,
    brokers: int = 1,
    properties: Mapping[str, str] | None = None,
) -> Cluster:
    """Start brokers that the stack stops.

    Args:
        stack: which stops them.
        directory: parent of the cluster's own directory, whose name is its chroot, too.
        zookeeper: connect string without chroot.
        checkout: of the brokers; None for genuine Kafka.
        brokers: how many.
        properties: of all of them.
    """
    name = f"{'genuine' if checkout is None else 'ours'}-{len(os.listdir(directory))}"
    place, connect = directory / name, f"{zookeeper}/{name}"
    form = StateForm.EPHEMERAL if checkout else StateForm.PERSISTENT
    running: list[Running] = []
    for number in range(1, brokers + 1):
        home = place / str(number)
        home.mkdir(parents=True)
        given = {"broker.id": str(number), **(properties or {})}
        broker: Running
        if checkout is None:
            broker = GenuineBroker(home, connect, home / "data", given, JAVA)
        else:
            own = {
                "host.name": "127.0.0.1",
                "port": "0",
                "log.dirs": str(home / "data"),
                "zookeeper.connect": connect,
            }
            broker = CheckoutBroker(checkout.resolve(), home, own | given)
        stack.callback(broker.kill)  # the directories are temporary
        broker.start()
        running.append(broker)
    cluster = Cluster(running, connect, form, place)
    stack.callback(cluster.session.close)
    return cluster
