"""Names of options of `format("zkbroker")`, and suggestions for misspelt ones.

    known to this source or sink      used, or refused with a reason
    Spark's own                       ignored; Spark hands them on to each source
    a client setting of Kafka         `kafka.NAME`: named in the log as without effect
    anything else                     refused, with the nearest name

Invariant: an option is used, refused, or named as without effect; none is silently ignored.
"""

import difflib
from collections.abc import Iterable, Mapping
from functools import cache

from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.config.schema import keys
from zkbroker.config.security import is_security
from zkbroker.errors import ConfigError

OF_KAFKA = frozenset(
    {
        "kafka.bootstrap.servers",
        "kafka.check.crcs",
        "kafka.client.id",
        "kafka.default.api.timeout.ms",
        "kafka.fetch.max.wait.ms",
        "kafka.generation",
        "kafka.group.id",
        "kafka.isolation.level",
        "kafka.max.partition.fetch.bytes",
        "kafka.request.timeout.ms",
    }
)
"""Options under `kafka.` that the source uses."""

_NAMES = (
    "assign",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "isolation.level",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
    "topic",
    "transactionalIdPrefix",
    "zookeeper.connect",
)
_PLAIN_NAMES = frozenset(each.lower() for each in _NAMES)
OF_READS = frozenset(
    each.lower()
    for each in _NAMES
    if each not in ("topic", "transactionalIdPrefix", "zookeeper.connect")
)
"""Options of reads alone, in lower case."""
# Spark hands these on to a sink too.
_OF_SPARK = frozenset({"checkpointlocation", "outputmode", "path", "queryname"})
_NEAR = 0.8


def check_names(given: Iterable[str], refused: Mapping[str, str]) -> list[str]:
    """Check the names of options.

    Args:
        given: names in lower case.
        refused: known names with the reasons why they are not allowed.

    Returns:
        those under `kafka.` that have no effect, in order.

    Raises:
        ConfigError: a name is refused, or unknown.
    """
    unused = []
    for key in sorted(given):
        if key in refused:
            raise ConfigError(f"{key} is not supported: {refused[key]}")
        if key in OF_KAFKA or key in _OF_SPARK or key in _PLAIN_NAMES:
            continue
        if not key.startswith("kafka."):
            raise ConfigError(f"there is no option {key}{_meant(key)}")
        of_kafka = key.removeprefix("kafka.")
        if is_security(of_kafka):
            continue
        if of_kafka not in _client_keys() and (meant := _meant(key)):
            raise ConfigError(f"{key} is not a setting of Kafka's clients{meant}")
        unused.append(key)
    return unused


def _meant(key: str) -> str:
    of_clients = (f"kafka.{each}" for each in _client_keys())
    names = {each.lower(): each for each in (*of_clients, *_NAMES, *OF_KAFKA)}
    near = difflib.get_close_matches(key, names, n=1, cutoff=_NEAR)
    if not near and f"kafka.{key}" in names:
        near = [f"kafka.{key}"]
    return f": did you mean {names[near[0]]}?" if near else ""


@cache
def _client_keys() -> frozenset[str]:
    """Return the settings of Kafka's own clients that zkbroker's clients know."""
    configs = (ConsumerConfig, GroupConsumerConfig, ProducerConfig)
    return keys(*configs).union(*(each.IGNORED for each in configs))
