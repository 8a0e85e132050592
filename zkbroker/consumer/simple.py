"""The simple consumer: one broker, every request spelled out, nothing remembered.

    fetch(topic, partition, offset, max_bytes) -> a message set with the next offset

For programs that keep offsets themselves (loaders, replayers, tools). It follows no leader and no
group: ask `zkbroker.client` which broker leads a partition.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from zkbroker.client import Cluster, StaticSource
from zkbroker.client.coordinator import CoordinatorConnection
from zkbroker.client.fetch import (
    Wanted,
    check_size,
    committed,
    doubled,
    end_of,
    fetched,
    send_fetch,
)
from zkbroker.client.group_offsets import CoordinatorOffsets, commit_offsets, fetch_offsets
from zkbroker.client.list_offsets import list_offsets, one_offset, valid_range
from zkbroker.config.fetching import LIMIT_BYTES, FetchSettings
from zkbroker.config.security import NO_SECURITY, ClientSecurity
from zkbroker.consumer.fetching.usable import Usable
from zkbroker.consumer.message_set import FetchRequest, MessageSet, place
from zkbroker.errors import (
    ClientError,
    ErrorCode,
    NetworkError,
    OffsetOutOfRange,
    ProtocolError,
    UnsupportedVersion,
    protocol_error,
)
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages.fetch import FetchResponsePartition
from zkbroker.records import offset_after
from zkbroker.runtime import Runtime, get_runtime
from zkbroker.types import PartitionKey

_OLDEST_WITH_LISTS_OF_OFFSETS = 0
_COORDINATOR_BACKOFF_MS = 100

T = TypeVar("T")


class SimpleConsumer:
    """A consumer of one broker; connects when first used, and again after a lost connection.

    Args:
        host: of the broker.
        port: of the broker.
        socket_timeout_ms: how long to wait for an answer, beyond the wait asked of the broker.
        buffer_bytes: receive buffer of the connection; -1 leaves it to the system.
        client_id: sent with every request.
        max_fetch_bytes: how far the fetch size is doubled for a message that does not fit.
        max_wait_ms: how long the broker may hold a fetch that finds no data.
        fetch_version: highest version of the fetch request to use; None for the newest.
        read_committed: leave out messages of aborted transactions, and stop before open ones.
        runtime: `threads`, `gevent` or a `Runtime`.
        security: TLS and the login of the connection.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        socket_timeout_ms: int = 30_000,
        buffer_bytes: int = 64 * 1024,
        client_id: str = "",
        max_fetch_bytes: int = LIMIT_BYTES,
        max_wait_ms: int = 100,
        fetch_version: int | None = None,
        read_committed: bool = False,
        runtime: str | Runtime = "threads",
        security: ClientSecurity = NO_SECURITY,
    ) -> None:
        self.host = host
        self.port = port
        self._runtime = get_runtime(runtime)
        self._socket_timeout_ms = socket_timeout_ms
        self._buffer_bytes = buffer_bytes
        self._client_id = client_id
        self._security = security
        self._fetch_version = fetch_version
        self._settings = FetchSettings(
            limit_bytes=max_fetch_bytes,
            max_wait_ms=max_wait_ms,
            timeout_ms=socket_timeout_ms,
            read_committed=read_committed,
        )
        self._connection: BrokerConnection | None = None
        self._cluster: Cluster | None = None
        self._usable = Usable("the consumer is closed")

    # -- messages

    def fetch(self, request: FetchRequest) -> MessageSet:
        """Fetch messages of one partition.

        A message larger than `max_bytes` is fetched with twice the size, again and again up to
        the limit of this consumer.

        Raises:
            OffsetOutOfRange: with the valid range in it.
            MessageSizeTooLarge: the limit is not enough for the message.
            ProtocolError: any other error of the broker, or the connection.
        """
        found = self.multifetch([request])[0]
        if found.error is not None:
            raise found.error
        return found

    def multifetch(self, requests: Sequence[FetchRequest]) -> list[MessageSet]:
        """Fetch messages of several partitions in one request.

        Returns:
                A message set for each request, in their order; `error` is set where the partition
                cannot be read.

        Raises:
            ProtocolError: the request failed as a whole.
        """
        found: list[MessageSet | None] = [None] * len(requests)
        sizes = [request.max_bytes for request in requests]
        open_ = list(range(len(requests)))
        while open_:
            # An answer names only topic and partition, so a request has each partition once.
            batch = list({(requests[i].topic, requests[i].partition): i for i in open_}.values())
            answers = self._fetch([(requests[i], sizes[i]) for i in batch])
            for i in batch:
                request = requests[i]
                part = answers.get((request.topic, request.partition))
                try:
                    found[i] = self._message_set(request, part)
                    if found[i] is None:
                        sizes[i] = doubled(sizes[i], self._settings.limit_bytes, place(request))
                except ProtocolError as error:
                    found[i] = MessageSet(request, error=error)
            open_ = [i for i in open_ if found[i] is None]
        return [done for done in found if done is not None]

    def _fetch(
        self, batch: Sequence[tuple[FetchRequest, int]]
    ) -> dict[PartitionKey, FetchResponsePartition]:
        wanted = {(r.topic, r.partition): Wanted(r.offset, size) for r, size in batch}
        settings = self._settings
        response_bytes = max(settings.limit_bytes, sum(size for _, size in batch))

        def ask(connection: BrokerConnection) -> dict[PartitionKey, FetchResponsePartition]:
            pending = send_fetch(
                connection,
                wanted,
                settings,
                response_bytes=response_bytes,
                at_most=self._fetch_version,
            )
            return dict(fetched(pending, settings, patient=True))

        return self._ask(ask)

    def _message_set(
        self, request: FetchRequest, part: FetchResponsePartition | None
    ) -> MessageSet | None:
        """Return the message set of one answer, None when not even one message was whole."""
        where = f"fetch of {place(request)}"
        if part is None:
            raise ProtocolError(f"{where}: the broker did not answer for it")
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise self._out_of_range(request, where)
        if part.error_code:
            raise protocol_error(part.error_code, where)
        raw = part.records if isinstance(part.records, bytes | memoryview) else b""
        check_size(raw, self._settings.limit_bytes, place(request))
        next_offset = offset_after(raw) if raw else request.offset
        if next_offset is None:
            return None
        return MessageSet(
            request,
            committed(raw, part.aborted_transactions) if part.aborted_transactions else raw,
            high_watermark=end_of(part, read_committed=self._settings.read_committed),
            next_offset=max(next_offset, request.offset),
        )

    def _out_of_range(self, request: FetchRequest, where: str) -> OffsetOutOfRange:
        earliest, latest = self._ask(lambda c: valid_range(c, request.topic, request.partition))
        return OffsetOutOfRange(
            f"{where}: the log holds {earliest} to {latest}", earliest=earliest, latest=latest
        )

    # -- offsets

    def get_offsets_before(
        self, topic: str, partition: int, time: int, max_num_offsets: int
    ) -> list[int]:
        """Return offsets that were valid before a time, newest first.

        The granularity is that of segments: the offsets are where segments begin.

        Args:
            topic: name of the topic.
            partition: number of the partition.
            time: milliseconds, `LATEST_TIME` (-1) or `EARLIEST_TIME` (-2).
            max_num_offsets: how many at most.

        Raises:
            ProtocolError: the broker refuses or cannot be reached.
        """
        wanted = {(topic, partition): time}

        def ask(connection: BrokerConnection) -> list[int]:
            try:
                version = connection.best_version(
                    ApiKey.LIST_OFFSETS, at_most=_OLDEST_WITH_LISTS_OF_OFFSETS
                )
            except UnsupportedVersion:
                # A broker too new for lists of offsets answers a single one.
                version = connection.best_version(ApiKey.LIST_OFFSETS)
            found = list_offsets(
                connection, wanted, max_num_offsets=max_num_offsets, version=version
            )[topic, partition]
            if isinstance(found, ProtocolError):
                raise found
            return found[:max_num_offsets]

        return self._ask(ask)

    def offset_for_time(self, topic: str, partition: int, time_ms: int) -> int | None:
        """Return the offset of the first message at or after a time, None without one.

        Raises:
            ProtocolError: the broker refuses (its log may have no timestamps) or is not reached.
        """
        committed = self._settings.read_committed
        return self._ask(
            lambda connection: one_offset(
                connection, topic, partition, time_ms, read_committed=committed
            )
        )

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[PartitionKey, int],
        *,
        storage: str = "zookeeper",
    ) -> None:
        """Commit offsets for a group.

        Args:
            group: the group id.
            offsets: (topic, partition) -> offset of the next message to consume.
            storage: `zookeeper` (this broker writes them there) or `kafka` (its coordinator is
                found and asked).

        Raises:
            ProtocolError: the first offset that was refused.
        """
        if storage == "zookeeper":
            self._ask(lambda connection: commit_offsets(connection, group, offsets))
        else:
            self._in_brokers(group, storage).commit(offsets)

    def fetch_offsets(
        self, group: str, partitions: Sequence[PartitionKey], *, storage: str = "zookeeper"
    ) -> dict[PartitionKey, int | None]:
        """Return the committed offsets of a group, None where there is none.

        Raises:
            ProtocolError: the broker refuses or cannot be reached.
        """
        if storage == "zookeeper":
            return self._ask(lambda c: fetch_offsets(c, group, partitions))
        return self._in_brokers(group, storage).read(partitions)

    def _in_brokers(self, group: str, storage: str) -> CoordinatorOffsets:
        if storage != "kafka":
            raise ClientError(f"storage={storage!r} is not allowed: give zookeeper or kafka")
        self._usable.check()
        if self._cluster is None:
            # This broker names the coordinator, which may be another one.
            self._cluster = Cluster(
                StaticSource([f"[{self.host}]:{self.port}"]),
                runtime=self._runtime,
                client_id=self._client_id,
                request_timeout_ms=self._socket_timeout_ms,
                security=self._security,
            ).start()
        coordinator = CoordinatorConnection(
            self._cluster, group, runtime=self._runtime, backoff_ms=_COORDINATOR_BACKOFF_MS
        )
        return CoordinatorOffsets(coordinator, group, timeout_s=self._socket_timeout_ms / 1000)

    # -- the connection

    def _connect(self) -> BrokerConnection:
        self._usable.check()
        if self._connection is None or self._connection.closed:
            self._connection = BrokerConnection(
                self._runtime,
                self.host,
                self.port,
                client_id=self._client_id,
                request_timeout_ms=self._socket_timeout_ms,
                receive_buffer_bytes=self._buffer_bytes,
                security=self._security,
            )
        return self._connection

    def _ask(self, question: Callable[[BrokerConnection], T]) -> T:
        """Ask the broker; retry once over a new connection when the old one was lost."""
        fresh = self._connection is None
        connection = self._connect()
        try:
            return question(connection)
        except NetworkError:
            if fresh or self._usable.ended:
                raise
            connection.close()
            return question(self._connect())

    def close(self) -> None:
        """Close the connection; the consumer cannot be used afterwards."""
        if self._usable.ended:
            return
        self._usable.end()
        if self._connection is not None:
            self._connection.close()
        if self._cluster is not None:
            self._cluster.close()

    def __enter__(self) -> "SimpleConsumer":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
