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
    the guard           asks the same permissions first (`allowed`); what it would not allow,
                        or ask more of, takes the general way, which asks, refuses and notes
    quotas              none is set: with one the dispatcher reads no request as plain
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
from zkbroker.protocol.plain import fetch_answer, produce_answer
from zkbroker.records.layout import (
    ATTRIBUTES_V2_LOW_AT,
    BATCH_HEADER_BYTES,
    MAGIC_AT,
    PRODUCER_AT,
    TRANSACTIONAL_BIT,
)
from zkbroker.security import Operation, Resource, ResourceType


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
        topics = request[-1]
        # A request that is allowed in part takes the general way, before anything was noted of it.
        return (
            len(topics) == 1
            and not any(_needs_more(records) for _, records in topics[0][1])
            and _allowed(Operation.WRITE, topics[0][0], context)
        )

    def may_fetch(request: Any, context: RequestContext) -> bool:
        # A follower needs another right.
        return (
            request[4] < 0
            and len(request[-1]) == 1
            and _allowed(Operation.READ, request[-1][0][0], context)
        )

    def _allowed(operation: Operation, topic: str, context: RequestContext) -> bool:
        assert permissions is not None
        resource = Resource(ResourceType.TOPIC, topic)
        return permissions.allowed(context, operation, resource, audited=False)

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


def _needs_more(records: memoryview) -> bool:
    """Whether a set needs more than a right to write: an id of a producer, or of transactions."""
    return (
        len(records) >= BATCH_HEADER_BYTES
        and records[MAGIC_AT] == 2
        and (
            records[PRODUCER_AT] != 0xFF or bool(records[ATTRIBUTES_V2_LOW_AT] & TRANSACTIONAL_BIT)
        )
    )
