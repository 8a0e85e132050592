"""Whether a broker is alive, and whether it is ready: `/health` and `/ready` of the admin page.

    alive   it answers, and has a usable data directory; if not, a restart helps
    ready   it is registered, connected to ZooKeeper, and there is a controller: it can serve

Invariant: neither depends on other brokers' replicas: a probe must not restart a broker because
another one is away. Problems with replicas are listed in addition, and change no status.
"""

from zkbroker.broker.replication_metrics import replication_figures
from zkbroker.broker.services import BrokerServices
from zkbroker.zookeeper import SessionState

STARTING = "the broker is starting or stopping"


def not_alive(services: BrokerServices | None) -> list[str]:
    """Return the reasons to restart a broker; empty if there are none."""
    if services is None:
        return []
    failure = services.logs.failure()
    return [] if failure is None else [str(failure)]


def not_ready(services: BrokerServices | None) -> list[str]:
    """Return the reasons why clients should not connect; empty if they may."""
    if services is None or services.draining:
        return [STARTING]
    found = not_alive(services)
    if services.session.state is SessionState.SUSPENDED:
        found.append("ZooKeeper cannot be reached")
    elif services.session.state is SessionState.LOST:
        found.append("the session at ZooKeeper has ended, and no new one has begun")
    if services.broker_id not in services.view.brokers:
        found.append("this broker is not registered in ZooKeeper")
    if services.controller_id() is None:
        found.append("no broker is the controller")
    return found


def troubles(services: BrokerServices | None) -> list[str]:
    """Return further problems for an operator: of this broker's directories and replicas."""
    if services is None:
        return []
    found = [
        f"data directory {path} is offline: {reason}"
        for path, reason in sorted(services.logs.offline_dirs().items())
    ]
    figures = replication_figures(services)
    for count, text in (
        (figures.offline, "replicas here that are offline"),
        (figures.under_replicated, "partitions led here with replicas that are not in sync"),
        (
            figures.under_min_isr,
            "partitions led here with fewer replicas in sync than min.insync.replicas",
        ),
        (figures.failed, "partitions copied here that failed"),
        (
            services.controller_metrics().offline_partitions,
            "partitions of the cluster without a leader, as this controller sees it",
        ),
    ):
        if count:
            found.append(f"{text}: {count}")
    return found
