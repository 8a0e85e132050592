"""Settings and limits of the transaction coordinator; its topic is `__transaction_state`."""

from dataclasses import dataclass

from zkbroker.config.schema import Bool, Int, Int32, option


@dataclass(frozen=True, kw_only=True)
class TransactionOptions:
    """Transactions."""

    # fmt: off
    transaction_topic_replication_factor: int = option(
        "transaction.state.log.replication.factor", Int(1, 32767), 3,
        "Replicas of `__transaction_state`, fixed when the topic is created. With fewer brokers at "
        "that time it gets as many as there are, with a warning.")
    transaction_topic_min_isr: int = option("transaction.state.log.min.isr", Int(1, 32767), 2,
        "`min.insync.replicas` of `__transaction_state`; never more than it has replicas.")
    transaction_topic_partitions: int = option("transaction.state.log.num.partitions", Int32(1), 50,
        "Partitions of `__transaction_state`, fixed when the topic is created.")
    transaction_topic_segment_bytes: int = option(
        "transaction.state.log.segment.bytes", Int32(14), 100 * 1024**2,
        "Segment size of `__transaction_state`.")
    transaction_max_timeout_ms: int = option("transaction.max.timeout.ms", Int32(1), 900_000,
        "Longest transaction.timeout.ms in ms that a producer may ask for.")
    transaction_metadata_bytes: int = option(
        "transaction.metadata.max.bytes", Int(1), 256 * 1024**2,
        "Approximate memory in bytes for the transactional ids that a broker coordinates and the "
        "partitions of their transactions; an id or a partition beyond it is refused with "
        "POLICY_VIOLATION.")
    transaction_abort_check_ms: int = option(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", Int32(1), 60_000,
        "Time in ms between two searches for transactions that have timed out.")
    transaction_expiration_check_ms: int = option(
        "transaction.remove.expired.transaction.cleanup.interval.ms", Int32(1), 3_600_000,
        "Time in ms between two searches for transactional ids that have expired.")
    transaction_verification: bool = option(
        "transaction.partition.verification.enable", Bool(), True,
        "Whether a partition's leader asks the coordinator before a transaction begins in the "
        "partition; otherwise a late batch may begin one that never ends. In a cluster with "
        "genuine brokers (`partition.state.znodes=persistent`) the leader does not ask.")
    # fmt: on
