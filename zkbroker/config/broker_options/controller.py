"""What a broker does as the controller, and what it asks of the controller when it stops."""

from dataclasses import dataclass

from zkbroker.config.schema import Bool, Int, option

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class ControllerOptions:
    """Leaders that move back, requests to brokers, a stop in order."""

    auto_leader_rebalance: bool = option(
        "auto.leader.rebalance.enable",
        default=True,
        kind=Bool(),
        doc="Whether the controller makes preferred replicas leaders again by itself.",
    )
    leader_imbalance_percentage: int = option(
        "leader.imbalance.per.broker.percentage",
        default=10,
        kind=Int(0, 100),
        doc="Share, in percent, of the partitions that a broker is preferred for and does not "
        "lead, above which the controller elects it.",
    )
    leader_imbalance_check_s: int = option(
        "leader.imbalance.check.interval.seconds",
        default=300,
        kind=Int(1, _INT32_MAX),
        doc="Time in seconds between two looks at that share.",
    )
    controller_socket_timeout_ms: int = option(
        "controller.socket.timeout.ms",
        default=30_000,
        kind=Int(1, _INT32_MAX),
        doc="Time in ms that the controller waits for a broker's answer before it sends again.",
    )
    controller_queue_size: int = option(
        "controller.message.queue.size",
        default=1000,
        kind=Int(10, _INT32_MAX),
        doc="Requests of the controller that may wait for one broker; above it they are replaced "
        "by one that says everything anew.",
    )
    controlled_shutdown: bool = option(
        "controlled.shutdown.enable",
        default=True,
        kind=Bool(),
        doc="Whether a broker that stops has the controller move what it leads first.",
    )
    controlled_shutdown_retries: int = option(
        "controlled.shutdown.max.retries",
        default=3,
        kind=Int(1, _INT32_MAX),
        doc="How often it asks before it stops all the same.",
    )
    controlled_shutdown_backoff_ms: int = option(
        "controlled.shutdown.retry.backoff.ms",
        default=5000,
        kind=Int(0, _INT32_MAX),
        doc="Time in ms between two of these.",
    )
