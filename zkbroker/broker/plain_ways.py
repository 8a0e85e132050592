"""The short ways of produce and fetch: what nearly all requests of a broker take.

    frame --read_plain--> a tuple --> handler --> rows --produce_answer, fetch_answer--> bytes
            |                           |
            | None: not plain           | a set or a partition that is not plain: the general code
            v                           v of the handler, for it alone
      decode_request --> the same handler --> encode_response

A request is chosen by what it is, never by who asks. `zkbroker.protocol.plain` says when a request
is plain; what is not goes the general way, from the same bytes.

What the short way leaves out, and why nothing is missed:

    the codec           a plain request has one layout for each version; the answer has another
    a message's object  handlers work on the rows that the general way makes of a message, too
    the guard           asks the same permissions first (`allowed`); what is not allowed as a whole
                        takes the general way, which asks, refuses and notes
    quotas              count what the general way counts (`plain_meter`); a fetch that is above its
                        quota takes that way
    entry by entry      `place_plain` judges a whole set, and takes it only if nothing of it changes
                        but offsets; `zkbroker.replica.plain_append` says what a partition needs
    locks               nothing waits between the look at a free lock and the write

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
    """Return the short ways of a broker by their APIs.

    Args:
        handlers: of the broker, without guards.
        permissions: what clients may do; None where they may do everything.
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
        # An id needs a right on the cluster, or else to write to any topic.
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
            # The sender closes a slice, also one without bytes.
            if isinstance(records, FileSlice) or records:
                parts.append(records)
    parts += heads
    return parts


def _of_producers(topics: Sequence[tuple[str, Sequence[ProduceRow]]]) -> tuple[bool, bool]:
    """Whether a set is part of a transaction, and whether one bears the id of a producer."""
    in_transaction = by_id = False
    for _, rows in topics:
        for _, records in rows:
            assert isinstance(records, memoryview)
            if len(records) >= BATCH_HEADER_BYTES and records[MAGIC_AT] == 2:
                in_transaction |= bool(records[ATTRIBUTES_V2_LOW_AT] & TRANSACTIONAL_BIT)
                # Of a producer without an id all bits are set.
                by_id |= records[PRODUCER_AT] != 0xFF
    return in_transaction, by_id
