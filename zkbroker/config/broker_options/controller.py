"""Settings of a broker as the controller, and of its controlled shutdown."""

from dataclasses import dataclass

from zkbroker.config.schema import Bool, Int, Int32, option


@dataclass(frozen=True, kw_only=True)
class ControllerOptions:
    """Preferred leader elections, requests to brokers, controlled shutdown."""

    # fmt: off
    auto_leader_rebalance: bool = option("auto.leader.rebalance.enable", Bool(), True,
        "Whether the controller elects preferred replicas as leaders without being asked.")
    leader_imbalance_percentage: int = option(
        "leader.imbalance.per.broker.percentage", Int(0, 100), 10,
        "Percentage of a broker's preferred leaderships that other brokers may hold; above it the "
        "controller moves them back.")
    leader_imbalance_check_s: int = option("leader.imbalance.check.interval.seconds", Int32(1), 300,
        "Time in seconds between two checks of that percentage.")
    controller_socket_timeout_ms: int = option("controller.socket.timeout.ms", Int32(1), 30_000,
        "Time in ms that the controller waits for a broker's response before it retries.")
    controller_queue_size: int = option("controller.message.queue.size", Int32(10), 1000,
        "Most requests of the controller that wait for one broker. More of them are replaced by "
        "one set of requests with the whole state.")
    controlled_shutdown: bool = option("controlled.shutdown.enable", Bool(), True,
        "Whether a broker that stops first asks the controller to move its leaderships to others.")
    controlled_shutdown_retries: int = option("controlled.shutdown.max.retries", Int32(1), 3,
        "How often a broker asks for a controlled shutdown before it stops without one.")
    controlled_shutdown_backoff_ms: int = option(
        "controlled.shutdown.retry.backoff.ms", Int32(0), 5000,
        "Time in ms between two such requests.")
    # fmt: on
