"""Settings of a consumer of a 0.7 cluster, under the names and defaults of 0.7.2.

Invariant: each property of the 0.7 consumer is an option here, is named in `IGNORED`, or is refused
by name; newer spellings of the same settings are understood too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from zkbroker.config import shared_options as shared
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.generation import GENERATION, without_generation
from zkbroker.config.refused_client_keys import refuse_unsupported
from zkbroker.config.schema import Bool, Int, Ms, Str, from_properties, option, required, validate
from zkbroker.config.security import ClientSecurity
from zkbroker.config.zookeeper_security import (
    UNPROTECTED,
    ZooKeeperSecurity,
    take_zookeeper_security,
)
from zkbroker.consumer.streams.generation import Generation
from zkbroker.errors import ConfigError
from zkbroker.legacy07.group_member import Generation07
from zkbroker.runtime import Runtime
from zkbroker.zookeeper import ZkSession

_MIRROR = "it is a setting of zkbroker mirror, not of a consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig07:
    """Settings of a `ConsumerConnector` of a 0.7 cluster."""

    IGNORED: ClassVar[Mapping[str, str]] = {
        "mirror.topics.whitelist": _MIRROR,
        "mirror.topics.blacklist": _MIRROR,
        "mirror.consumer.numthreads": _MIRROR,
    }

    # fmt: off
    group_id: str = shared.group_id("groupid group.id")
    zookeeper_connect: str = required("zk.connect zookeeper.connect", Str(empty=False),
        "ZooKeeper servers of the 0.7 cluster as host:port,host:port with an optional /chroot.")
    consumer_id: str = shared.CONSUMER_ID("consumerid consumer.id")
    zookeeper_session_timeout_ms: int = shared.CONSUMER_SESSION_MS(
        "zk.sessiontimeout.ms zookeeper.session.timeout.ms")
    zookeeper_connection_timeout_ms: int = option(
        "zk.connectiontimeout.ms zookeeper.connection.timeout.ms", Ms(-1), -1,
        "How long the start waits for a connection to ZooKeeper; -1: as zk.sessiontimeout.ms.")
    zookeeper_sync_time_ms: int = option("zk.synctime.ms zookeeper.sync.time.ms", Ms(1), 2000,
        "Only the default of rebalance.backoff.ms: watches report changes.")
    socket_timeout_ms: int = option("socket.timeout.ms", Ms(1), 30_000,
        "How long to wait for a broker's answer.")
    socket_buffer_bytes: int = option(
        "socket.buffersize socket.receive.buffer.bytes", Int(-1), 65_536,
        "Receive buffer of each connection; -1 lets the system adapt it.")
    fetch_bytes: int = shared.FETCH_BYTES("fetch.size fetch.message.max.bytes")
    fetch_limit_bytes: int = shared.FETCH_LIMIT_BYTES("fetch.message.limit.bytes")
    fetcher_backoff_ms: int = option("fetcher.backoff.ms backoff.increment.ms", Ms(0), 1000,
        "How long a fetcher waits after an answer without data, since brokers of 0.7 answer at "
        "once.")
    autocommit_enable: bool = shared.AUTO_COMMIT("autocommit.enable auto.commit.enable")
    autocommit_interval_ms: int = shared.AUTO_COMMIT_MS(
        "autocommit.interval.ms auto.commit.interval.ms", 10_000)
    queued_chunks: int = shared.QUEUED_CHUNKS("queuedchunks.max queued.max.message.chunks", 10)
    rebalance_retries: int = shared.REBALANCE_RETRIES("rebalance.retries.max rebalance.max.retries")
    rebalance_backoff_ms: int = option("rebalance.backoff.ms", Ms(-1), -1,
        "Longest time between two attempts at a rebalance, in ms; -1 is zk.synctime.ms.")
    rebalance_drain_ms: int = shared.REBALANCE_DRAIN_MS("rebalance.drain.ms")
    autooffset_reset: str = shared.OFFSET_RESET(
        "autooffset.reset auto.offset.reset", shared.SMALLEST)
    consumer_timeout_ms: int = shared.CONSUMER_TIMEOUT_MS("consumer.timeout.ms")
    shallow_iterator: bool = option("shallowiterator.enable", Bool(), False,
        "Only false: streams always deliver single messages, never compressed ones.")
    # fmt: on
    zookeeper: ZooKeeperSecurity = UNPROTECTED
    """Security of connections to ZooKeeper."""

    def __post_init__(self) -> None:
        validate(self)
        if self.shallow_iterator:
            raise ConfigError(
                "shallowiterator.enable=true is not supported: streams deliver single messages. "
                "A mirror keeps the codec of messages without it"
            )
        self.connector()

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, warn: Callable[[str], None] | None = None
    ) -> "ConsumerConfig07":
        """Build the settings from the properties of a 0.7 consumer.

        Raises:
            ConfigError: a value is not allowed, or the group or ZooKeeper is missing.
        """
        given = without_generation(refuse_unsupported(properties))
        zookeeper, given = take_zookeeper_security(given, warn=warn)
        others = {"zookeeper": zookeeper}
        return from_properties(cls, given, warn=warn, also_known=(GENERATION,), others=others)

    def connector(self) -> ConsumerConfig:
        session_ms = self.zookeeper_session_timeout_ms
        connect_ms = self.zookeeper_connection_timeout_ms
        backoff_ms = self.rebalance_backoff_ms
        return ConsumerConfig(
            group_id=self.group_id,
            zookeeper_connect=self.zookeeper_connect,
            consumer_id=self.consumer_id,
            zookeeper_session_timeout_ms=session_ms,
            zookeeper_connection_timeout_ms=session_ms if connect_ms <= 0 else connect_ms,
            socket_timeout_ms=self.socket_timeout_ms,
            socket_receive_buffer_bytes=self.socket_buffer_bytes,
            fetch_message_max_bytes=self.fetch_bytes,
            fetch_message_limit_bytes=self.fetch_limit_bytes,
            auto_commit_enable=self.autocommit_enable,
            auto_commit_interval_ms=self.autocommit_interval_ms,
            queued_max_message_chunks=self.queued_chunks,
            rebalance_max_retries=self.rebalance_retries,
            rebalance_backoff_ms=self.zookeeper_sync_time_ms if backoff_ms <= 0 else backoff_ms,
            rebalance_drain_ms=self.rebalance_drain_ms,
            auto_offset_reset=self.autooffset_reset,
            consumer_timeout_ms=self.consumer_timeout_ms,
            # 0.7 has no internal topics.
            exclude_internal_topics=False,
            security=ClientSecurity(zookeeper=self.zookeeper),
        )

    def generation(self, session: ZkSession, runtime: Runtime) -> Generation:
        return Generation07(self.connector(), self.fetcher_backoff_ms, session, runtime)
