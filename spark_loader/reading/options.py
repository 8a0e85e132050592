"""Options of `format("zkbroker")`: the names, defaults and refusals of Spark's own Kafka source.

Invariant: the result of `SourceOptions.parse` is complete and consistent; no later code reads the
text of an option. Names are compared without case, as Spark does. Options under `kafka.` are those
of Kafka's consumer; those that would contradict the way Spark tracks offsets are refused.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

from spark_loader.reading.connect import FETCH_BYTES, ConnectOptions
from spark_loader.reading.generations import check_connect
from spark_loader.reading.option_names import check_names
from spark_loader.reading.positions import (
    EARLIEST,
    EARLIEST_BOUND,
    LATEST,
    LATEST_BOUND,
    AtOffset,
    AtOffsets,
    AtTime,
    AtTimes,
    Bound,
    TopicSelection,
    parse_assignment,
    parse_partition_numbers,
)
from zkbroker.config.durations import parse_duration_ms, parse_instant_ms
from zkbroker.config.generation import parse_generation
from zkbroker.config.security import take_security
from zkbroker.config.shared_options import READ_COMMITTED, READ_UNCOMMITTED
from zkbroker.config.zookeeper_security import is_zookeeper_security
from zkbroker.errors import ConfigError

logger = logging.getLogger(__name__)

ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)
"""As for consumers; the first is the default."""

_KAFKA = "kafka."
_REFUSED = {
    "kafka.auto.offset.reset": "say where reading starts with startingOffsets; Spark itself keeps "
    "track of offsets from there on",
    "kafka.enable.auto.commit": "this source commits no offsets; Spark's checkpoint holds them",
    "kafka.key.deserializer": "keys are read as bytes; convert them with DataFrame operations",
    "kafka.value.deserializer": "values are read as bytes; convert them with DataFrame operations",
    "kafka.interceptor.classes": "interceptors could change or drop records unseen",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a read, parsed."""

    connect: ConnectOptions
    subscription: TopicSelection
    starting: Bound
    ending: Bound = LATEST_BOUND
    latest_when_no_time_matches: bool = False
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    group_id: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> "SourceOptions":
        """Parse the options of a batch or streaming read.

        Args:
            options: as given to `spark.read` or `spark.readStream`; names in any case.
            streaming: whether a stream is read: other defaults, and no ending bound.

        Raises:
            ConfigError: an option is missing, contradicts another or is not allowed.
        """
        given = {key.lower(): value for key, value in options.items()}
        unused = check_names(given, _REFUSED)
        if unused:
            logger.warning("options without effect on this source %s", " ".join(unused))
        starting = _starting(given, streaming)
        strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
        if strategy not in ("error", "latest"):
            raise ConfigError(
                f"startingOffsetsByTimestampStrategy={strategy!r} is not allowed: "
                "give error or latest"
            )
        least = _number(given, "minOffsetsPerTrigger")
        most = _number(given, "maxOffsetsPerTrigger")
        if least is not None and most is not None and least > most:
            raise ConfigError(
                f"minOffsetsPerTrigger={least} must not be above maxOffsetsPerTrigger={most}"
            )
        return cls(
            connect=parse_connect(given),
            subscription=_subscription(given),
            starting=starting,
            ending=_ending(given, streaming),
            latest_when_no_time_matches=strategy == "latest",
            fail_on_data_loss=_boolean(given, "failOnDataLoss", default=True),
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay_ms=parse_duration_ms(given.get("maxtriggerdelay", "15m")),
            min_partitions=_number(given, "minPartitions"),
            max_records_per_partition=_number(given, "maxRecordsPerPartition"),
            include_headers=_boolean(given, "includeHeaders", default=False),
            group_id=given.get("kafka.group.id"),
        )


def parse_connect(given: Mapping[str, str]) -> ConnectOptions:
    """Parse the options that say how to reach the cluster; names in lower case."""
    bootstrap = tuple(
        part.strip() for part in given.get("kafka.bootstrap.servers", "").split(",") if part.strip()
    )
    for address in bootstrap:
        if not re.fullmatch(r"\S+:\d+", address):
            raise ConfigError(f"kafka.bootstrap.servers: {address!r} is not HOST:PORT")
    of_kafka = {
        key.removeprefix(_KAFKA): value for key, value in given.items() if key.startswith(_KAFKA)
    }
    # The settings of security may have their plain names, as the address has.
    of_zookeeper = {key: value for key, value in given.items() if is_zookeeper_security(key)}
    security, _ = take_security({**of_kafka, **of_zookeeper})
    prefix = given.get("groupidprefix", "zkbroker-source")
    connect = ConnectOptions(
        generation=parse_generation(given.get("kafka.generation", "")),
        zookeeper=given.get("zookeeper.connect", "").strip() or None,
        bootstrap=bootstrap,
        client_id=given.get("kafka.client.id", given.get("kafka.group.id", prefix)),
        fetch_bytes=_number_or(given, "kafka.max.partition.fetch.bytes", FETCH_BYTES),
        max_wait_ms=_number_or(given, "kafka.fetch.max.wait.ms", 500),
        request_timeout_ms=_number(given, "kafka.request.timeout.ms") or 30_000,
        check_crcs=_boolean(given, "kafka.check.crcs", default=True),
        retries=_number_or(given, "fetchOffset.numRetries", 3),
        retry_interval_ms=_number_or(given, "fetchOffset.retryIntervalMs", 10),
        retry_for_ms=_number_or(given, "kafka.default.api.timeout.ms", 60_000),
        read_committed=parse_isolation(_isolation(given)),
        security=security,
    )
    check_connect(connect)
    return connect


def parse_isolation(text: str) -> bool:
    """Return whether an isolation level is `read_committed`.

    Raises:
        ConfigError: it is neither `read_committed` nor `read_uncommitted`.
    """
    if text not in ISOLATION_LEVELS:
        raise ConfigError(f"isolation.level={text!r}: give {' or '.join(ISOLATION_LEVELS)}")
    return text == READ_COMMITTED


def _isolation(given: Mapping[str, str]) -> str:
    levels = [given[key] for key in ("kafka.isolation.level", "isolation.level") if key in given]
    if len(set(levels)) > 1:
        raise ConfigError("isolation.level and kafka.isolation.level differ: give one of them")
    return levels[0].strip().lower() if levels else READ_UNCOMMITTED


def _subscription(given: Mapping[str, str]) -> TopicSelection:
    names = {"assign": "assign", "subscribe": "subscribe", "subscribepattern": "subscribePattern"}
    present = [key for key in names if key in given]
    if len(present) != 1:
        named = " and ".join(names[key] for key in present) or "none"
        raise ConfigError(
            f"exactly one of assign, subscribe and subscribePattern is required; given: {named}"
        )
    text = given[present[0]]
    if present[0] == "assign":
        return TopicSelection(assign=parse_assignment(text))
    if present[0] == "subscribe":
        topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not topics:
            raise ConfigError("subscribe names no topic: give one or more, separated by commas")
        return TopicSelection(subscribe=topics)
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(f"subscribePattern={text!r} is not a regex: {error}") from None
    if not text.strip():
        raise ConfigError("subscribePattern is empty: give a regex over whole topic names")
    return TopicSelection(pattern=text)


def _starting(given: Mapping[str, str], streaming: bool) -> Bound:
    bound = _bound(given, "starting", LATEST_BOUND if streaming else EARLIEST_BOUND)
    if not streaming and bound == LATEST_BOUND:
        raise ConfigError("startingOffsets=latest would read nothing in a batch: it is not allowed")
    if not streaming and isinstance(bound, AtOffsets):
        _none_at(bound, LATEST, "startingOffsets", "latest (-1)")
    return bound


def _ending(given: Mapping[str, str], streaming: bool) -> Bound:
    names = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
    if streaming:
        for name in names:
            if name.lower() in given:
                raise ConfigError(f"{name} is for batches only: a stream has no end")
        return LATEST_BOUND
    bound = _bound(given, "ending", LATEST_BOUND)
    if bound == EARLIEST_BOUND:
        raise ConfigError("endingOffsets=earliest would read nothing: it is not allowed")
    if isinstance(bound, AtOffsets):
        _none_at(bound, EARLIEST, "endingOffsets", "earliest (-2)")
    return bound


def _none_at(bound: AtOffsets, offset: int, option: str, name: str) -> None:
    for partition, given in sorted(bound.offsets.items()):
        if given == offset:
            raise ConfigError(f"{option} of {partition} cannot be {name} in a batch")


def _bound(given: Mapping[str, str], which: str, default: Bound) -> Bound:
    """Parse a bound: one time for all wins over times per partition, which win over offsets."""
    for_all = f"{which}timestamp"
    if for_all in given:
        text = given[for_all].strip()
        return AtTime(_time_ms(text, f"{which}Timestamp"))
    by_time = f"{which}offsetsbytimestamp"
    if by_time in given:
        times = parse_partition_numbers(given[by_time], f"{which}OffsetsByTimestamp")
        for partition, timestamp_ms in sorted(times.items()):
            if timestamp_ms < 0:
                raise ConfigError(
                    f"{which}OffsetsByTimestamp of {partition} is negative: {timestamp_ms}"
                )
        return AtTimes(times)
    text = given.get(f"{which}offsets", "").strip()
    if not text:
        return default
    named = {"earliest": EARLIEST_BOUND, "latest": LATEST_BOUND}.get(text.lower())
    if named is not None:
        return AtOffset(named.offset)
    if not text.startswith("{"):
        raise ConfigError(
            f"{which}Offsets={text!r}: give {'earliest, ' if which == 'starting' else ''}latest or "
            'JSON such as {"topic": {"0": 23, "1": -1}}'
        )
    offsets = parse_partition_numbers(text, f"{which}Offsets")
    for partition, offset in sorted(offsets.items()):
        if offset < EARLIEST:
            raise ConfigError(f"{which}Offsets of {partition} is not an offset: {offset}")
    return AtOffsets(offsets)


def _time_ms(text: str, option: str) -> int:
    try:
        return parse_instant_ms(text)
    except ConfigError as error:
        raise ConfigError(f"{option}={error}") from None


def _number(given: Mapping[str, str], key: str, least: int = 1) -> int | None:
    text = given.get(key.lower())
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise ConfigError(f"{key}={text!r} is not allowed: give a whole number from {least}")
    return number


def _number_or(given: Mapping[str, str], key: str, default: int) -> int:
    number = _number(given, key, least=0)
    return default if number is None else number


def _boolean(given: Mapping[str, str], key: str, *, default: bool) -> bool:
    text = given.get(key.lower())
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise ConfigError(f"{key}={text!r} is not allowed: give true or false")
    return text.strip().lower() == "true"
