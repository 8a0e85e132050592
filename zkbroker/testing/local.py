"""Clusters for tests."""

import atexit
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path

from zkbroker.admin.topics import create_topic
from zkbroker.cluster import BrokerProcess, ClusterProcesses
from zkbroker.config.schema import property_text
from zkbroker.config.zookeeper_security import take_zookeeper_security
from zkbroker.errors import ZkbrokerError
from zkbroker.registry.partitions import partition_state
from zkbroker.testing.in_process import InProcessBroker
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper
from zkbroker.zookeeper.session import ZkSession

# Tests need dead brokers noticed soon, and small files. A new group waits a moment for members, not
# Kafka's 3 s: without any wait kafka-python 3 assigns a topic before its metadata has come, joins
# once more, and sometimes ignores the second assignment.
_PROPERTIES = {
    "zookeeper.session.timeout.ms": "3000",
    "log.segment.bytes": str(64 * 1024 * 1024),
    "log.index.size.max.bytes": str(1024 * 1024),
    "group.initial.rebalance.delay.ms": "300",
    "log.retention.hours": "-1",
}
_SERVED_TIMEOUT_S = 30


class LocalCluster(ClusterProcesses):
    """A ZooKeeper and brokers as processes of this machine, for one test or a session of tests.

    Each of its `brokers`, with ids from 1, can be killed, paused, resumed, stopped and started
    again.

    Args:
        brokers: how many.
        properties: properties for every broker, which override those for tests; numbers and truth
            values may be given as such.
        replication: replicas of new topics; 1 by default.
        min_insync_replicas: least replicas in sync for acks=all; by default 2 if there are 3
            replicas or more.
        zookeeper: connect string of a ZooKeeper to share; an embedded one if None.
        directory: of data and logs, kept at the end; a temporary one if None.
        in_process: run the brokers in threads of this process, to step through them in a debugger;
            they cannot be killed or paused then.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        properties: Mapping[str, str | float] | None = None,
        replication: int | None = None,
        min_insync_replicas: int | None = None,
        zookeeper: str | None = None,
        directory: str | Path | None = None,
        in_process: bool = False,
    ) -> None:
        self._temporary = directory is None
        given = {key: property_text(key, value) for key, value in (properties or {}).items()}
        self._zookeeper_security, _ = take_zookeeper_security(given)
        self._replication = replication or 1
        self.directory = Path(directory or tempfile.mkdtemp(prefix="zkbroker-"))
        try:
            super().__init__(
                self.directory,
                brokers=brokers,
                replication=self._replication,
                min_insync_replicas=min_insync_replicas,
                zookeeper=zookeeper,
                properties={**_PROPERTIES, **(properties or {})},
                make_broker=InProcessBroker if in_process else BrokerProcess,
            )
        except ZkbrokerError:
            if self._temporary:
                shutil.rmtree(self.directory)
            raise
        self._pid = os.getpid()

    @property
    def embedded_zookeeper(self) -> EmbeddedZooKeeper:
        """The cluster's own ZooKeeper, to kill, pause and restart.

        Raises:
            ZkbrokerError: the cluster uses another one.
        """
        if self.embedded is None:
            raise ZkbrokerError("this cluster uses a ZooKeeper that it did not start")
        return self.embedded

    def start(self, timeout_s: float = 60) -> None:
        """Start everything; returns when all brokers serve.

        If `stop` is never called, as in an interactive session, it stops when Python exits.
        """
        super().start(timeout_s)
        atexit.register(self._stop_at_exit)

    def stop(self, timeout_s: float = 15) -> bool:
        """Stop everything and remove temporary files; see `ClusterProcesses.stop`."""
        atexit.unregister(self._stop_at_exit)
        stopped = super().stop(timeout_s)
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
        return stopped

    def _stop_at_exit(self) -> None:
        if os.getpid() == self._pid:  # not in a fork of the process that started it
            self.stop()

    def create_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic and wait until every partition is served.

        Args:
            name: its name; a new one if None.
            partitions: how many.
            replication: replicas of each; the cluster's `replication` without it.
            config: the topic's own configuration, such as `retention.ms`.

        Returns:
            The topic's name.
        """
        topic = name or f"topic-{uuid.uuid4().hex[:12]}"
        with ZkSession(self.zookeeper, security=self._zookeeper_security) as session:
            create_topic(
                session,
                topic,
                partitions=partitions,
                replication_factor=replication or self._replication,
                config=dict(config or {}),
            )
            for partition in range(partitions):
                _wait_until_served(session, topic, partition)
        return topic


def _wait_until_served(session: ZkSession, topic: str, partition: int) -> None:
    changed = threading.Event()
    while partition_state(session, topic, partition, watch=changed) is None:
        if not changed.wait(_SERVED_TIMEOUT_S):
            raise ZkbrokerError(f"no broker serves {topic}-{partition} after {_SERVED_TIMEOUT_S} s")
        changed.clear()
