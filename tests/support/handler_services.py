"""The broker as its handlers see it: services, the context of a request, and a connection."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from tests.support.replicas import Park
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.errors import NotLeaderForPartition
from zkbroker.network.server.muting import Mute
from zkbroker.replica.partition import Partition
from zkbroker.security import ANONYMOUS


def handler_services(
    partitions: Mapping[Any, Partition], runtime: Any, *, hosted: object = None, **more: Any
) -> Any:
    """Services of a broker that has these partitions, and no other.

    Args:
        partitions: what `services.partition` finds, by topic and number.
        runtime: of the broker.
        hosted: `services.replicas.partitions`, where handlers look first; none by default.
        more: further services.
    """

    def find(
        topic: str, number: int, _: object = None, *, during_deletion: bool = False
    ) -> Partition:
        if (topic, number) not in partitions:
            raise NotLeaderForPartition("elsewhere")
        return partitions[topic, number]

    return SimpleNamespace(
        config=SimpleNamespace(
            max_decompressed_bytes=2**20,
            max_request_records=1000,
            fetch_session_slots=10,
            fetch_session_bytes=10**6,
        ),
        partition=find,
        leadership=lambda topic, number, _, **more: find(topic, number, **more).leadership(),
        replicas=SimpleNamespace(
            partitions=hosted or {}, get=lambda topic, number: partitions.get((topic, number))
        ),
        metrics=BrokerMetrics(),
        runtime=runtime,
        draining=False,
        **more,
    )


def handler_context(version: int, park: Park | None = None) -> Any:
    """The context of a request: enough memory, and a loop never gives way."""
    return SimpleNamespace(
        api_version=version,
        client_id="c",
        paced=lambda items: items,
        pace=lambda: False,
        park=park or Park(),
        peer_gone=False,
        session=HandlerSession(),
    )


class HandlerSession:
    """A connection as the dispatcher and the handlers see it; counts how often it was parked."""

    def __init__(self) -> None:
        self.context: object = None
        self.principal = ANONYMOUS
        self.client_id: str | None = None
        self.ip = "10.0.0.1"
        self.listener = "PLAINTEXT"
        self.parked_s = self.received_at = 0.0
        self.mute = Mute()
        self.peer_gone = self.closed = False
        self.parks = 0

    @contextmanager
    def parked(self, wake: Any) -> Iterator[None]:
        self.parks += 1
        yield

    def peer_closed(self) -> bool:
        return self.closed

    def reserve_answer(self, wanted: int) -> int:
        return wanted

    def correct_answer(self, by: int) -> None:
        pass

    def release_answer(self) -> None:
        pass
