"""The replication settings of a cluster started here.

Invariant: with three brokers or more, one may be lost while another is down without loss of a
    message acknowledged with acks=all; unless fewer replicas were asked for.
"""

from zkbroker.errors import ConfigError

SAFE_REPLICATION_FACTOR = 3
"""From this many replicas on, two must be in sync: one may be down, one may be lost."""


def replication_properties(
    brokers: int, replication_factor: int | None, min_insync_replicas: int | None = None
) -> dict[str, str]:
    """Return the properties of every broker of a cluster.

    Args:
        brokers: how many brokers there are.
        replication_factor: replicas of new topics and of the offsets topic; None for 3, or for as
            many as there are brokers.
        min_insync_replicas: least replicas in sync for acks=all; by default 2 if there are 3
            replicas or more, otherwise 1.

    Raises:
        ConfigError: there are fewer brokers than replicas, or fewer replicas than must be in sync.
    """
    if replication_factor is None:
        replication_factor = min(brokers, SAFE_REPLICATION_FACTOR)
    if not 1 <= replication_factor <= brokers:
        raise ConfigError(
            f"{replication_factor} replicas of a partition need as many brokers, and there are "
            f"{brokers}: give a replication factor from 1 to {brokers}"
        )
    if min_insync_replicas is None:
        min_insync_replicas = 2 if replication_factor >= SAFE_REPLICATION_FACTOR else 1
    if not 1 <= min_insync_replicas <= replication_factor:
        raise ConfigError(
            f"{min_insync_replicas} of {replication_factor} replicas cannot be in sync: give "
            f"min_insync_replicas from 1 to {replication_factor}"
        )
    return {
        "default.replication.factor": str(replication_factor),
        "min.insync.replicas": str(min_insync_replicas),
        "offsets.topic.replication.factor": str(replication_factor),
    }
