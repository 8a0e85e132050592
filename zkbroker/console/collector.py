"""The collector: reads the state of one cluster again and again, and publishes it.

    look     brokers and topics, offsets, directories, groups, admin pages, each at its own pace
    publish  the views, made once for all viewers; the series get one sample

Invariant: one task reads the cluster, with or without viewers; a failed reading keeps the earlier
    state, with the reason. Viewers read the last publication, and wait for the next one.
"""

import logging
from collections.abc import Callable, Mapping

from zkbroker.broker.mounting import OwnPage
from zkbroker.client import Cluster
from zkbroker.console.access import ClusterAccess
from zkbroker.console.clients import Clients
from zkbroker.console.cluster_state import ClusterState, GroupKey, SeenGroup
from zkbroker.console.directories import Directories
from zkbroker.console.groups import Groups
from zkbroker.console.history import History
from zkbroker.console.loads import Loads
from zkbroker.console.offsets import Offsets
from zkbroker.console.other_generation import OtherSight
from zkbroker.console.pages import AdminPages
from zkbroker.console.publication import Publication
from zkbroker.console.topology import Topology
from zkbroker.errors import ZkbrokerError
from zkbroker.runtime import Runtime
from zkbroker.runtime.owner_loop import OwnerLoop
from zkbroker.zookeeper import SessionState, ZkSession

logger = logging.getLogger(__name__)

MAX_SERIES = 1000
_FIRST_LOOKS_S = 0.2
_RETRY_S = 2.0
_DIRECTORIES_EVERY_S = 10.0


class BrokerReaders:
    """Reads a cluster of 0.8 and later into `seen`, each part at its own pace."""

    def __init__(self, seen: ClusterState, runtime: Runtime, interval_s: float) -> None:
        self._runtime = runtime
        self._topology = Topology(seen, runtime, interval_s)
        self._offsets = Offsets(seen)
        self._directories = Directories(seen, runtime, max(interval_s, _DIRECTORIES_EVERY_S))
        self._groups = Groups(seen, runtime, interval_s)
        self.look = self._topology.look
        self.look_at = self._groups.look_at

    def hurry(self) -> None:
        """Read everything at the next reading."""
        self._topology.hurry()
        self._groups.hurry()

    def look_on(self, cluster: Cluster, session: ZkSession | None, now_ms: int) -> None:
        """Read offsets, directories and groups."""
        self._offsets.look(cluster, now_ms)
        self._directories.look(cluster, self._runtime.now_ms())
        self._groups.look(cluster, session, self._runtime.now_ms())


class Collector:
    """Reads the state of a cluster.

    Args:
        access: its connections; closed with the collector.
        runtime: runs the task.
        interval_s: seconds between two readings.
        samples: how many are kept of each series.
        own_pages: broker id → admin page, of a broker of this process.

    Attributes:
        published: the last publication.
    """

    def __init__(
        self,
        access: ClusterAccess,
        runtime: Runtime,
        interval_s: float,
        samples: int,
        own_pages: Mapping[int, OwnPage],
    ) -> None:
        self.access = access
        self.runtime = runtime
        generation = access.settings.generation
        self.seen = ClusterState(generation=None if generation is None else generation.name)
        self.history = History(samples, MAX_SERIES)
        self.pages = AdminPages(access.settings, self.seen, runtime, interval_s, own_pages)
        self.clients = Clients(self.pages, self.seen, runtime)
        self.loads = Loads(access.settings.lakes, self.seen, runtime)
        self._interval_s = interval_s
        self._other = None if access.settings.generation is None else OtherSight(self.seen, runtime)
        self._readers = self._other or BrokerReaders(self.seen, runtime, interval_s)
        self.published = Publication(0, self.seen, access, runtime.now_ms())
        self._next = runtime.event()
        self._seen_topics = False
        self._unwatch: Callable[[], object] | None = None
        self._loop = OwnerLoop(
            runtime,
            self._look,
            name=f"console-{access.settings.id}",
            logger=logger,
            retry_s=_RETRY_S,
            retry_max_s=_RETRY_S,
            foreseen=(ZkbrokerError,),
            on_failure=self._failed,
        )

    def start(self) -> None:
        """Start the task."""
        self._loop.start(0)

    def close(self) -> None:
        """End the task, and close the connections."""
        self._loop.end()
        self._next.set()
        self._loop.close()
        if self._unwatch is not None:
            self._unwatch()
        self.access.close()

    @property
    def closed(self) -> bool:
        """Whether it has ended or is ending: its streams end too."""
        return self._loop.closed

    def hurry(self) -> None:
        """Read everything now, since something was changed."""
        self._readers.hurry()
        self._loop.set()

    def describe_group(self, key: GroupKey) -> SeenGroup | None:
        """Return the present state of a group; None if it is not known.

        Raises:
            ZkbrokerError: the group cannot be read.
        """
        return self._readers.look_at(self.access.cluster, self.access.session, key)

    def wait(self, after: int, timeout_s: float) -> Publication:
        """Wait for a publication after a number, and return the newest when the time is over."""
        if self.published.number <= after and not self.closed:
            self._next.wait(timeout_s)
        return self.published

    def _look(self) -> float | None:
        cluster = self.access.open()
        if self._unwatch is None:
            self._unwatch = cluster.watch(self._readers.hurry)
        if self._other is not None:
            self._other.other = self.access.other
        session = self._answering()
        now_ms = self.runtime.now_ms()
        if self.access.session is None:
            cluster.refresh()
        self._readers.look(cluster, session, now_ms)
        self.seen.troubles.pop("cluster", None)
        if not self._seen_topics:
            # The first publication does not wait for offsets, sizes and groups.
            self._seen_topics = True
            self._publish()
        self._readers.look_on(cluster, session, self.runtime.now_ms())
        self.pages.look(self.runtime.now_ms())
        self._publish()
        return self._interval_s if self.seen.all_seen else _FIRST_LOOKS_S

    def _answering(self) -> ZkSession | None:
        """Return the session, while ZooKeeper answers; without it brokers are still read."""
        session = self.access.session
        self.seen.zookeeper = None if session is None else session.state.value
        if session is None or session.state is SessionState.CONNECTED:
            self.seen.troubles.pop("zookeeper", None)
            return session
        self.seen.troubles["zookeeper"] = (
            "ZooKeeper does not answer: its groups, and settings of topics, are as they were seen "
            "before; no broker can take over what another one leads"
        )
        return None

    def _failed(self, error: Exception) -> None:
        self._answering()
        if isinstance(error, ZkbrokerError):
            text = str(error)
        else:
            text = "the console failed, see its log"
        self.seen.troubles["cluster"] = f"the cluster cannot be seen now: {text}"
        self._publish()

    def _publish(self) -> None:
        now_ms = self.runtime.now_ms()
        self.published = Publication(self.published.number + 1, self.seen, self.access, now_ms)
        self.history.record(now_ms, self.published.series)
        # Waiters for this publication hold this event; later ones get the next.
        woken, self._next = self._next, self.runtime.event()
        woken.set()
