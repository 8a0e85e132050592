"""A broker's dispatcher over real logs, without sockets: with its short ways, or without."""

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.clocks import Clock
from tests.support.handler_services import HandlerSession, handler_services
from tests.support.logs import InlineTask, make_manager
from tests.support.replicas import decided
from zkbroker.broker.clients import ClientVersions
from zkbroker.broker.dispatcher import Dispatcher
from zkbroker.broker.guard import Permissions, guarded
from zkbroker.broker.handlers.fetch import FetchHandler
from zkbroker.broker.handlers.produce import ProduceHandler
from zkbroker.broker.metrics import TopicMetrics
from zkbroker.broker.plain_ways import plain_ways
from zkbroker.broker.quotas.client_quotas import ClientQuotas
from zkbroker.broker.quotas.table import QuotaKind, QuotaTable
from zkbroker.broker.quotas.throttling import Throttling
from zkbroker.fileslice import FileSlice
from zkbroker.log import TopicPartition
from zkbroker.network.server.server import CloseConnection
from zkbroker.protocol import ApiKey
from zkbroker.registry.user_configs import ConfigEntity, UserConfigs
from zkbroker.replica.leadership import LeaderSettings
from zkbroker.replica.partition import Partition
from zkbroker.runtime import Task
from zkbroker.runtime.greenlets import GreenletsRuntime
from zkbroker.security import ANONYMOUS

TOPICS = ("t", "u")
PARTITIONS = 2


class SteadyRuntime(GreenletsRuntime):
    """Greenlets on a clock that its test moves; the background loops of logs never run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def spawn(self, function: Callable[..., object], *args: Any, name: str) -> Task:
        if name.startswith("log-"):
            return InlineTask()
        return super().spawn(function, *args, name=name)

    def clock_ms(self) -> int:
        return self._clock()

    now_ms = clock_ms


class PlainBroker:
    """Partitions that this broker leads, and a dispatcher in front of them.

    Args:
        directory: of the logs.
        short: whether requests take the short ways.
        replicas: of each partition; the broker is 1.
        permissions: what clients may do.
        quotas: of every client.
        log: settings of the logs.
    """

    def __init__(
        self,
        directory: Path,
        *,
        short: bool,
        replicas: tuple[int, ...] = (1,),
        permissions: Permissions | None = None,
        quotas: Mapping[QuotaKind, str] | None = None,
        **log: Any,
    ) -> None:
        self.clock = Clock()
        runtime = SteadyRuntime(self.clock)
        self.manager = make_manager(directory, clock=self.clock, runtime=runtime, **log)
        self.manager.start()
        self.partitions: dict[TopicPartition, Partition] = {}
        for topic in TOPICS:
            for number in range(PARTITIONS):
                key = TopicPartition(topic, number)
                made = Partition(key, 1, runtime=runtime, settings=LeaderSettings())
                made.open(self.manager.get_or_create(key), 0)
                made.become_leader(decided(1, 3, replicas, replicas))
                self.partitions[key] = made
        self.clients = ClientVersions(runtime)
        services = handler_services(
            self.partitions,
            runtime,
            hosted=self.partitions,
            view=SimpleNamespace(topics=SimpleNamespace(deleting=frozenset())),
        )
        self.metrics = services.metrics
        handlers: Any = {
            ApiKey.PRODUCE: ProduceHandler(services),
            ApiKey.FETCH: FetchHandler(services),
        }
        served = handlers
        if permissions is not None:
            served = guarded(handlers, permissions, lambda topic: False)
        self.dispatcher = Dispatcher(served, self.metrics, self.clients)
        if short:
            self.dispatcher.plain_ways = plain_ways(handlers, permissions)
        if quotas is not None:
            limits = ClientQuotas(self.clock)  # type: ignore[arg-type]
            user = ConfigEntity(user=ANONYMOUS.name)
            limits.take(QuotaTable(UserConfigs({user: quotas})))
            self.dispatcher.throttling = Throttling(limits)
        self.session = HandlerSession()
        self.muted_s: list[float] = []
        """For how long each throttled request muted its connection."""

    def send(self, frame: bytes) -> Any:
        """Return the bytes of the answer, or why the connection is closed."""
        session: Any = self.session
        try:
            parts = self.dispatcher.handle(session, memoryview(bytearray(frame)))
        except CloseConnection as error:
            return str(error), error.quiet
        found = []
        for part in parts or ():
            if isinstance(part, FileSlice):
                found.append(os.pread(part.fd, part.size, part.position))
                part.close()
            else:
                found.append(bytes(part))
        self.dispatcher.sent(session)
        if session.mute.seconds:
            self.muted_s.append(session.mute.seconds)
            session.mute.seconds = 0.0
        return b"".join(found)

    def state(self) -> Any:
        """Everything that a request can change."""
        logs = {
            key: (
                made.high_watermark,
                made.log.log_start_offset,
                made.log.log_end_offset,
                made.log.producers.to_snapshot(),
                [
                    (each.base_offset, each.size, (each.path(".log")).read_bytes())
                    for each in made.log.segments
                ],
                [
                    (list(each.files.offsets.entries()), list(each.files.times.entries()))
                    for each in made.log.segments
                    if each.files is not None
                ],
            )
            for key, made in self.partitions.items()
        }
        topics = {
            name: [getattr(counts, each) for each, _ in TopicMetrics.NAMES]
            for name, counts in self.metrics.topics.items()
        }
        requests = {
            key: (counts.served, dict(counts.errors), sum(t.count for t in counts.times()))
            for key, counts in self.metrics.requests.items()
        }
        clients = self.clients.snapshot()["clients"]
        return logs, topics, requests, clients, self.metrics.replication_bytes_out, self.muted_s

    def open_slices(self) -> int:
        """How many reads hold files."""
        return sum(
            each.files.holders - 1
            for made in self.partitions.values()
            for each in made.log.segments
            if each.files is not None
        )

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.manager.close()
