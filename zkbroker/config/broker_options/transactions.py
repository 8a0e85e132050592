"""What the coordinator of transactions keeps and allows; its topic is `__transaction_state`."""

from dataclasses import dataclass

from zkbroker.config.schema import Bool, Int, option

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class TransactionOptions:
    """Transactions."""

    transaction_topic_replication_factor: int = option(
        "transaction.state.log.replication.factor",
        default=3,
        kind=Int(1, 32767),
        doc="Replicas of a partition of `__transaction_state`; with fewer brokers at its "
        "creation it gets as many as there are, with a warning.",
    )
    transaction_topic_min_isr: int = option(
        "transaction.state.log.min.isr",
        default=2,
        kind=Int(1, 32767),
        doc="`min.insync.replicas` of `__transaction_state`; never more than it has replicas.",
    )
    transaction_topic_partitions: int = option(
        "transaction.state.log.num.partitions",
        default=50,
        kind=Int(1, _INT32_MAX),
        doc="Partitions of `__transaction_state`, fixed when the topic is created.",
    )
    transaction_topic_segment_bytes: int = option(
        "transaction.state.log.segment.bytes",
        default=100 * 1024**2,
        kind=Int(14, _INT32_MAX),
        doc="Segment size of `__transaction_state`.",
    )
    transaction_max_timeout_ms: int = option(
        "transaction.max.timeout.ms",
        default=900_000,
        kind=Int(1, _INT32_MAX),
        doc="Longest time in ms that a producer may let its transactions take.",
    )
    transaction_metadata_bytes: int = option(
        "transaction.metadata.max.bytes",
        default=256 * 1024**2,
        kind=Int(1),
        doc="Memory for the transactional ids that a broker coordinates, with the partitions of "
        "their transactions, about; a new id or partition beyond it is refused "
        "(POLICY_VIOLATION).",
    )
    transaction_abort_check_ms: int = option(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        default=60_000,
        kind=Int(1, _INT32_MAX),
        doc="Time in ms between two looks for transactions that take longer than they may.",
    )
    transaction_expiration_check_ms: int = option(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        default=3_600_000,
        kind=Int(1, _INT32_MAX),
        doc="Time in ms between two looks for transactional ids that are not used any more.",
    )
    transaction_verification: bool = option(
        "transaction.partition.verification.enable",
        default=True,
        kind=Bool(),
        doc="Whether a partition's leader asks the coordinator before it lets a transaction begin; "
        "without, a late batch may open one that nobody ends. Beside genuine brokers "
        "(`partition.state.znodes=persistent`) nobody is asked.",
    )
