"""How a cluster is reached.

Invariant: the driver parses and checks the options once; tasks get them unchanged.
"""

from dataclasses import dataclass

from zkbroker.config.security import NO_SECURITY, ClientSecurity
from zkbroker.errors import ConfigError

FETCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """How to reach the cluster; small enough to travel with every task.

    Attributes:
        generation: of the cluster's Kafka (`kafka.generation`); empty for 0.8 and later.
        zookeeper: connect string with optional chroot, or None.
        bootstrap: `host:port` of some brokers, or empty when `zookeeper` is given; in a task, the
            result of `SourceCluster.bootstrap`.
        client_id: shown in the brokers' logs.
        fetch_bytes: most bytes asked of a partition at once (`kafka.max.partition.fetch.bytes`).
        max_wait_ms: how long a broker may hold a fetch (`kafka.fetch.max.wait.ms`).
        request_timeout_ms: how long to wait for an answer.
        check_crcs: whether CRCs are verified.
        retries: least number of retries of a failed request.
        retry_interval_ms: pause before the first retry; it doubles up to a second.
        retry_for_ms: how long retries go on (`kafka.default.api.timeout.ms`), so that a load
            outlasts a broker's restart or a move of the leader.
        read_committed: records of open and aborted transactions are left out (`isolation.level`).
        security: how brokers are connected to (`kafka.security.protocol`, `kafka.ssl.…`,
            `kafka.sasl.…`). Files that it names have to be on every worker.
    """

    generation: str = ""
    zookeeper: str | None = None
    bootstrap: tuple[str, ...] = ()
    client_id: str = "zkbroker-spark"
    fetch_bytes: int = FETCH_BYTES
    max_wait_ms: int = 500
    request_timeout_ms: int = 30_000
    check_crcs: bool = True
    retries: int = 3
    retry_interval_ms: int = 10
    retry_for_ms: int = 60_000
    read_committed: bool = False
    security: ClientSecurity = NO_SECURITY

    def __post_init__(self) -> None:
        if not self.zookeeper and not self.bootstrap:
            raise ConfigError(
                "no cluster is named: give kafka.bootstrap.servers=HOST:PORT,… or "
                "zookeeper.connect=HOST:PORT[/chroot]"
            )
