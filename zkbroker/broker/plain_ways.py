"""The short ways of produce and fetch, which nearly all requests of a broker take.

    frame --read_plain--> a tuple --> handler --> rows --produce_answer, fetch_answer--> bytes
            |                           |
            | None: not plain           | a set or a partition that is not plain: the handler's
            v                           v general code, for that set or partition only
      decode_request --> the same handler --> encode_response

The way depends on the request itself, never on its sender. `zkbroker.protocol.plain` defines which
requests are plain; all others go the general way, from the same bytes.

Steps that the short way leaves out or shortens, and why nothing is missed:

    the codec           plain requests and answers have one layout for each version
    message objects     handlers work on rows; the general way converts a message into rows as well
    the guard           the same permissions are checked first (`allowed`); a request that is not
                        allowed as a whole goes the general way, which checks, refuses and logs
    quotas              the same amounts are counted (`plain_meter`); a fetch above its quota goes
                        the general way
    entry by entry      `place_plain` checks a whole set, and accepts it only if nothing but offsets
                        changes; `zkbroker.replica.plain_append` lists the needs of a partition
    locks               there is no wait between the check that a lock is free and the write

Everything else is the same code: partitions, leader epochs, sequences of producers, flushes,
waiting for replicas and for data, counts, the time of a request, the order of answers.

Invariant: for the same request in the same state both ways give the same bytes, leave the same log
and count the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from zkbroker.broker.context import RequestContext
from zkbroker.broker.dispatcher import Handler, PlainWay
from zkbroker.broker.guard import Permissions
from zkbroker.broker.handlers.fetch import FetchHandler
from zkbroker.broker.handlers.fetch_reading import Answers, close_records
from zkbroker.broker.handlers.produce import ProduceHandler
from zkbroker.fileslice import FileSlice
from zkbroker.network.transport import Part
from zkbroker.protocol import ApiKey
from zkbroker.protocol.plain import ProduceRow, fetch_answer, produce_answer
from zkbroker.records.layout import (
    ATTRIBUTES_V2_LOW_AT,
    BATCH_HEADER_BYTES,
    MAGIC_AT,
    PRODUCER_AT,
    TRANSACTIONAL_BIT,
)
from zkbroker.security import CLUSTER, Operation, Resource, ResourceType

_BY_ID = (Operation.IDEMPOTENT_WRITE, CLUSTER)
_BY_FOLLOWER = (Operation.CLUSTER_ACTION, CLUSTER)


def plain_ways(
    handlers: Mapping[ApiKey, Handler], permissions: Permissions | None
) -> Mapping[int, PlainWay]:
    """Return the short ways of a broker by API.

    Args:
        handlers: of the broker, without guards.
        permissions: of clients; None if they may do everything.
    """
    produce, fetch = handlers[ApiKey.PRODUCE], handlers[ApiKey.FETCH]
    assert isinstance(produce, ProduceHandler)
    assert isinstance(fetch, FetchHandler)

    def may_produce(request: Any, context: RequestContext) -> bool:
        assert permissions is not None
        transactional_id, topics = request[4], request[-1]
        wanted: list[tuple[Operation, Resource]] = []
        in_transaction, by_id = _of_producers(topics)
        if in_transaction and transactional_id is not None:
            resource = Resource(ResourceType.TRANSACTIONAL_ID, transactional_id)
            wanted.append((Operation.WRITE, resource))
        # A producer id needs IdempotentWrite on the cluster, or Write on any topic.
        if by_id and (
            permissions.decides(context, *_BY_ID)
            or not permissions.allowed_on_some(context, Operation.WRITE, ResourceType.TOPIC)
        ):
            wanted.append(_BY_ID)
        wanted += [(Operation.WRITE, Resource(ResourceType.TOPIC, each)) for each, _ in topics]
        return permissions.allowed_all(context, wanted)

    def may_fetch(request: Any, context: RequestContext) -> bool:
        assert permissions is not None
        wanted = [_BY_FOLLOWER]
        if request[4] < 0:
            topics = request[-1]
            wanted = [(Operation.READ, Resource(ResourceType.TOPIC, each)) for each, _ in topics]
        return permissions.allowed_all(context, wanted)

    guarded = permissions is not None
    return {
        int(ApiKey.PRODUCE): PlainWay(
            produce.append, produce_answer, may_produce if guarded else None
        ),
        int(ApiKey.FETCH): PlainWay(fetch.read, _fetch_answer, may_fetch if guarded else None),
    }


def _fetch_answer(version: int, correlation_id: int, answers: Answers) -> Sequence[Part]:
    try:
        heads = iter(fetch_answer(version, correlation_id, 0, answers))
    except BaseException:
        close_records(answers)
        raise
    parts: list[Part] = []
    for _, rows in answers:
        for row in rows:
            parts.append(next(heads))
            records = row[7]
            # The sender closes every slice, even one without bytes.
            if isinstance(records, FileSlice) or records:
                parts.append(records)
    parts += heads
    return parts


def _of_producers(topics: Sequence[tuple[str, Sequence[ProduceRow]]]) -> tuple[bool, bool]:
    """Whether any set is part of a transaction, and whether any has a producer id."""
    in_transaction = by_id = False
    for _, rows in topics:
        for _, records in rows:
            assert isinstance(records, memoryview)
            if len(records) >= BATCH_HEADER_BYTES and records[MAGIC_AT] == 2:
                in_transaction |= bool(records[ATTRIBUTES_V2_LOW_AT] & TRANSACTIONAL_BIT)
                # A producer without an id sets all bits.
                by_id |= records[PRODUCER_AT] != 0xFF
    return in_transaction, by_id
