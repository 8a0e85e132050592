"""The writer of `format("zkbroker")`: rows to topics, batch and streaming.

    column     type                               without it
    topic      string                             the option `topic`
    value      string or binary                   refused
    key        string or binary                   null
    partition  int                                by the key's hash
    headers    array<struct<key, value>>          none

Invariant: a task succeeds once every row was acknowledged. Its producer is idempotent, so its
retries store nothing twice; a task that Spark runs again sends its rows again, as with Spark's own
Kafka sink (at least once). With `transactionalIdPrefix` a stream writes exactly once: see
`transactional.py`.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from spark_loader.reading.access import NetworkAccess
from spark_loader.reading.option_names import OF_READS, check_names
from spark_loader.reading.options import parse_connect
from spark_loader.source.transactional import TRANSACTION_TIMEOUT_MS, EpochWriter, TaskEpoch
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ClientError, ConfigError
from zkbroker.producer import KeyedMessage, Producer

logger = logging.getLogger(__name__)

_CHUNK_ROWS = 10_000
_BYTES = ("binary", "string")
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "topic": ("string",),
    "key": _BYTES,
    "value": _BYTES,
    "partition": ("integer", "int", "short", "byte"),
    "headers": ("array",),
}
# Options of the source without a meaning for a producer.
_NOT_THE_PRODUCERS = (
    "kafka.bootstrap.servers",
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.check.crcs",
    "kafka.default.api.timeout.ms",
)


@dataclass
class Written(WriterCommitMessage):
    """How many rows a task wrote."""

    rows: int


@dataclass(frozen=True, slots=True)
class RowSink:
    """Sends Arrow batches; made in the driver, used in the tasks.

    Attributes:
        properties: of the tasks' producers.
        topic: where all rows go, or None for the column `topic`.
        columns: those that are written.
        transactional: prefix of the transactional ids; empty for rows sent at least once.
    """

    properties: Mapping[str, str]
    topic: str | None
    columns: frozenset[str]
    transactional: str = ""

    @classmethod
    def of(cls, options: Mapping[str, str], schema: Any, *, streaming: bool = False) -> "RowSink":
        """Check options and schema.

        Args:
            options: of the writer, names in any case.
            schema: of the rows.
            streaming: whether micro-batches are written.

        Raises:
            ConfigError: a column is missing or has a type that cannot be written, or an option
                cannot be used.
        """
        given = {key.lower(): value for key, value in options.items()}
        check_names(given, {})
        if unused := sorted(given.keys() & OF_READS):
            logger.warning("options without effect on this sink %s", " ".join(unused))
        prefix = _transactional(given, streaming)
        types = {each.name: each.dataType.typeName() for each in schema.fields}
        topic = given.get("topic") or None
        if "value" not in types:
            raise ConfigError("a column named value is required: cast or alias what is to be sent")
        if "topic" not in types and topic is None:
            raise ConfigError("say where to write to: an option topic or a column topic")
        # Other columns are left out, as by Spark's own sink, so that rows of the source can be
        # written unchanged.
        for name, allowed in _COLUMNS.items():
            if name in types and types[name] not in allowed:
                raise ConfigError(f"column {name} is {types[name]}: give {' or '.join(allowed)}")
        properties = producer_properties(given)
        if prefix:
            properties.setdefault("transaction.timeout.ms", str(TRANSACTION_TIMEOUT_MS))
            # Settings that contradict transactions are refused here, not in the tasks.
            ProducerConfig.from_properties({**properties, "transactional.id": prefix})
        return cls(properties, topic, frozenset(types) & _COLUMNS.keys(), prefix)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Send every row and wait for the acknowledgements; in a transaction where asked for."""
        if self.transactional:
            writer = EpochWriter(TaskEpoch.of_task(), self.properties, self.transactional)
            return Written(writer.write(self._chunks(batches)))
        rows = 0
        config = ProducerConfig.from_properties(self.properties)
        with Producer(config) as producer:
            for messages in self._chunks(batches):
                producer.send(messages)
                rows += len(messages)
        return Written(rows)

    def _chunks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[KeyedMessage]]:
        for batch in batches:
            for start in range(0, batch.num_rows, _CHUNK_ROWS):
                yield self._messages(batch.slice(start, _CHUNK_ROWS))

    def _messages(self, batch: pa.RecordBatch) -> list[KeyedMessage]:
        def column(name: str) -> list[Any]:
            if name not in self.columns:
                return [None] * batch.num_rows
            return list(batch.column(batch.schema.get_field_index(name)).to_pylist())

        messages = []
        for topic, key, value, partition, headers in zip(
            column("topic"),
            column("key"),
            column("value"),
            column("partition"),
            column("headers"),
            strict=True,
        ):
            to = self.topic or topic
            if to is None:
                raise ClientError("a row has no topic: its column is null and no option is given")
            messages.append(
                KeyedMessage(
                    to,
                    key=_bytes(key),
                    value=_bytes(value),
                    partition=partition,
                    headers=tuple((each["key"], each["value"]) for each in headers or ()),
                )
            )
        return messages


class ZkbrokerWriter(DataSourceArrowWriter):
    """Writes a batch."""

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        self._sink = RowSink.of(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of one task."""
        return self._sink.write(iterator)


class ZkbrokerStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches; tasks commit by themselves, so the driver has nothing to commit."""

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        self._sink = RowSink.of(options, schema, streaming=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Send the rows of one task of a micro-batch."""
        return self._sink.write(iterator)


def producer_properties(given: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the tasks' producers; names in `given` in lower case."""
    connect = parse_connect(given)
    bootstrap = connect.bootstrap
    if not bootstrap:
        view = NetworkAccess().view(connect)
        try:
            bootstrap = view.bootstrap()
        finally:
            view.close()
    chosen = {
        key.removeprefix("kafka."): value
        for key, value in given.items()
        if key.startswith("kafka.") and key not in _NOT_THE_PRODUCERS
    }
    return {
        "acks": "-1",
        "enable.idempotence": "true",
        "client.id": connect.client_id,
        **chosen,
        "producer.type": "sync",
        "metadata.broker.list": ",".join(bootstrap),
    }


def _transactional(given: Mapping[str, str], streaming: bool) -> str:
    """Return the prefix of transactional ids, empty for none; names in lower case."""
    if "kafka.transactional.id" in given:
        raise ConfigError(
            "kafka.transactional.id is not supported, since each task needs an id of its own: give "
            "transactionalIdPrefix to writeStream"
        )
    if "transactionalidprefix" not in given:
        return ""
    prefix = given["transactionalidprefix"].strip()
    if not prefix:
        raise ConfigError("transactionalIdPrefix is empty: give a name that only this query uses")
    if not streaming:
        raise ConfigError(
            "transactionalIdPrefix is for writeStream: nothing tells whether a batch that is "
            "written again was written before"
        )
    return prefix


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    return None if value is None else bytes(value)
