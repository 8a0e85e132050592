"""Exactly once into topics: each task of a micro-batch writes in one transaction.

    id PREFIX-PARTITION ─▶ is the epoch noted? ── yes ─▶ rows are counted, none is sent
        (shuts out older       │ no
         attempts)             ▼
                  begin ─▶ rows ─▶ note: epoch, rows, digest ─▶ commit

The note is an offset of the consumer group of the same name, committed within the transaction. If a
driver dies between the tasks' commits and Spark's own record of the micro-batch, Spark runs it
again, and its tasks find their notes.

Invariants: rows and note of a task are committed together, or not at all; an epoch is committed
once per task. This requires that an epoch's task has the same rows whenever it runs, which the
digest checks. Epochs of different tasks are not committed together.
"""

import json
import logging
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from pyspark import TaskContext

from spark_loader.json_codec import from_json, to_json
from zkbroker.client import Cluster, StaticSource
from zkbroker.client.coordinator import CoordinatorConnection
from zkbroker.client.group_offsets import Committed, fetch_error, fetched_offsets
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ClientError
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.protocol.messages import OffsetFetchRequest
from zkbroker.runtime import get_runtime

logger = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_MS = 900_000
"""The maximum of brokers by default: a task may wait for its rows."""

_EPOCH_PROPERTY = "streaming.sql.batchId"
_QUERY_PROPERTY = "sql.streaming.queryId"
_DIGEST_BITS = 64
_LANE = "epochs"


@dataclass(frozen=True, slots=True)
class TaskEpoch:
    """The part of a micro-batch that a task writes.

    Attributes:
        query: id of the query; its checkpoint keeps it over restarts.
        epoch: number of the micro-batch, from 0.
        partition: number of the task in it, from 0.
    """

    query: str
    epoch: int
    partition: int

    def __str__(self) -> str:
        return f"task {self.partition} of micro-batch {self.epoch} of query {self.query}"

    @classmethod
    def of_task(cls) -> "TaskEpoch":
        """Return that of the running task.

        Raises:
            ClientError: it is not a task of a streaming query.
        """
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY_PROPERTY) if context is not None else None
        epoch = context.getLocalProperty(_EPOCH_PROPERTY) if context is not None else None
        if context is None or query is None or epoch is None:
            raise ClientError(
                "transactionalIdPrefix: Spark does not tell which micro-batch this task is of; "
                "write with writeStream"
            )
        return cls(query, int(epoch), context.partitionId())


@dataclass(slots=True)
class Digest:
    """Identifies a set of rows, in whatever order they come."""

    rows: int = 0
    total: int = 0

    def add(self, messages: Iterable[KeyedMessage]) -> None:
        for each in messages:
            parts = (each.key, each.value, *(part for header in each.headers for part in header))
            head = [
                each.topic,
                each.partition,
                [None if part is None else len(part) for part in parts],
            ]
            found = zlib.crc32(json.dumps(head).encode())
            for part in parts:
                found = zlib.crc32(part.encode() if isinstance(part, str) else part or b"", found)
            self.rows += 1
            self.total = (self.total + found) % (1 << _DIGEST_BITS)

    def __str__(self) -> str:
        return f"{self.total:016x}"


@dataclass(frozen=True, slots=True)
class EpochNote:
    """The epoch that a task committed last, in the metadata of a group's offset."""

    query: str
    epoch: int
    rows: int
    digest: str

    def committed(self) -> Committed:
        """Return the offset to commit: the next epoch, and the note."""
        return Committed(self.epoch + 1, json.dumps(to_json(self)))

    @classmethod
    def parse(cls, metadata: str, group: str) -> "EpochNote":
        """Read a note.

        Raises:
            ClientError: it is not a note.
        """
        try:
            return from_json(cls, json.loads(metadata))
        except ValueError:
            raise ClientError(
                f"transactionalIdPrefix: the group {group} has offsets that are not notes of "
                "micro-batches: choose a prefix with which no consumer group begins"
            ) from None


class EpochNotes:
    """Reads the notes of one transactional id.

    Args:
        config: of the task's producer.
    """

    def __init__(self, config: ProducerConfig) -> None:
        self._group = config.transactional_id
        self._timeout_s = config.delivery_timeout_ms / 1000
        runtime = get_runtime("threads")
        self._cluster = Cluster(
            StaticSource(list(config.broker_list)),
            runtime=runtime,
            client_id=config.client_id,
            request_timeout_ms=config.request_timeout_ms,
            security=config.security,
        )
        self._coordinator = CoordinatorConnection(
            self._cluster,
            self._group,
            runtime=runtime,
            backoff_ms=config.retry_backoff_ms,
            lane=_LANE,
            attempt_timeout_ms=config.request_timeout_ms,
        )

    def last(self, query: str) -> EpochNote | None:
        """Return the note of the epoch that a query committed last, None where there is none.

        Raises:
            ClientError: the group is used for something else.
            ProtocolError: its coordinator does not answer.
        """
        response = self._coordinator.ask(
            # All topics: the topic of a note depends on the rows.
            OffsetFetchRequest(self._group, None),
            timeout_s=self._timeout_s,
            error_of=fetch_error,
        )
        found = fetched_offsets(self._group, (), response).values()
        notes = [EpochNote.parse(each.metadata, self._group) for each in found if each is not None]
        # A query with a new checkpoint is another one, and counts its epochs from 0.
        own = [each for each in notes if each.query == query]
        return max(own, key=lambda each: each.epoch, default=None)

    def __enter__(self) -> Self:
        self._cluster.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()


@dataclass(slots=True)
class EpochWriter:
    """Writes one task's part of an epoch.

    Args:
        task: the part of an epoch.
        properties: of the producer, without its transactional id.
        prefix: of the transactional ids, and of the groups that hold the notes.
    """

    task: TaskEpoch
    properties: Mapping[str, str]
    prefix: str
    digest: Digest = field(default_factory=Digest)

    def write(self, chunks: Iterator[list[KeyedMessage]]) -> int:
        """Send rows and note in one transaction, unless they are committed already.

        Returns:
            the number of rows.

        Raises:
            ClientError: the epoch was committed with different rows, or a later one was.
            TransactionError: another attempt took over, or the transaction failed.
        """
        first = next((chunk for chunk in chunks if chunk), None)
        if first is None:
            return 0
        config = ProducerConfig.from_properties(
            {**self.properties, "transactional.id": f"{self.prefix}-{self.task.partition}"}
        )
        with Producer(config) as producer, EpochNotes(config) as notes:
            # From here on no older attempt can commit; a commit under way has finished.
            producer.init_transactions()
            noted = self._noted(notes)
            if noted is not None:
                self.digest.add(first)
                for chunk in chunks:
                    self.digest.add(chunk)
                self._check(noted)
                logger.info("micro-batch committed before %s", self.task)
                return self.digest.rows
            with producer.transaction():
                self._send(producer, first)
                for chunk in chunks:
                    self._send(producer, chunk)
                if self._noted(notes) is not None:
                    # Brokers may show an offset only a moment after its transaction has ended.
                    raise ClientError(
                        f"{self.task} has been committed meanwhile; run the task again"
                    )
                note = EpochNote(
                    self.task.query, self.task.epoch, self.digest.rows, str(self.digest)
                )
                key = (first[0].topic, 0)
                producer.send_offsets({key: note.committed()}, config.transactional_id)
        return self.digest.rows

    def _send(self, producer: Producer, messages: list[KeyedMessage]) -> None:
        if messages:
            self.digest.add(messages)
            producer.send(messages)

    def _noted(self, notes: EpochNotes) -> EpochNote | None:
        """Return the note of this epoch, None where it is not committed.

        Raises:
            ClientError: a later one is.
        """
        found = notes.last(self.task.query)
        if found is None or found.epoch < self.task.epoch:
            return None
        if found.epoch > self.task.epoch:
            raise ClientError(
                f"{self.task} is too late: epoch {found.epoch} is committed under {self.prefix}. "
                "Another driver runs the query, or its checkpoint was put back; to write these "
                "rows again choose another transactionalIdPrefix"
            )
        return found

    def _check(self, noted: EpochNote) -> None:
        if (noted.rows, noted.digest) != (self.digest.rows, str(self.digest)):
            raise ClientError(
                f"{self.task} was committed with {noted.rows} other rows than the "
                f"{self.digest.rows} that it has now: after a restart the same micro-batch must be "
                "cut into the same tasks, and hold no random values. Go back to the number of "
                "partitions there was before; or choose another transactionalIdPrefix, which "
                "writes the rows of this micro-batch that were committed a second time"
            )
