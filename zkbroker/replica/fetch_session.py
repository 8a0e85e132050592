"""The follower's side of a fetch session (KIP-227): each fetch names only what changed.

    FULL: epoch 0, every partition named
      answered with an id  --> INCREMENTAL: epoch 1, 2, ...; changed and forgotten partitions
      answered with id 0   --> FULL
    error, wrong answer, no answer       --> FULL: epoch 0 under the old id ends that session
    the leader does not know the id (70) --> FULL, no id

Invariant: once the pending answer has arrived, the leader's session holds exactly the partitions
in `asked`. An answer with any other partition, or a full answer that lacks one of them, is dropped
as a whole. Before Fetch version 7 there are no sessions, and every fetch names every partition.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from zkbroker.errors import ErrorCode
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages import FetchRequest
from zkbroker.protocol.messages.fetch import (
    FetchRequestPartition,
    FetchRequestTopic,
    ForgottenTopic,
)

SESSIONS_SINCE = 7
NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1


class PartitionFetch(NamedTuple):
    """What a fetch asks for one partition; if any field changes, the partition is sent again."""

    offset: int
    leader_epoch: int
    log_start_offset: int
    max_bytes: int


class FollowerFetchSession:
    """The session of one fetcher with one leader. Args: version of its Fetch requests."""

    def __init__(self, version: int) -> None:
        self._sessions = version >= SESSIONS_SINCE
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH if self._sessions else FINAL_EPOCH
        self.asked: dict[TopicPartition, PartitionFetch] = {}
        """What the leader was last asked for, in the order in which it serves the partitions."""

    @property
    def incremental(self) -> bool:
        return self._epoch > INITIAL_EPOCH

    def next(self, wanted: Mapping[TopicPartition, PartitionFetch]) -> FetchRequest:
        """Return a request that asks the leader for these partitions, without its limits."""
        request = FetchRequest(session_id=self._id, session_epoch=self._epoch)
        if not self.incremental:
            self.asked = dict(wanted)
            request.topics = _topics(self.asked)
            return request
        forgotten = [key for key in self.asked if key not in wanted]
        for key in forgotten:
            del self.asked[key]
        changed = {key: each for key, each in wanted.items() if self.asked.get(key) != each}
        self.asked.update(changed)
        request.topics, request.forgotten_topics = _topics(changed), _forgotten(forgotten)
        return request

    def answered(
        self, error: int, session_id: int, partitions: Collection[TopicPartition]
    ) -> str | None:
        """Process an answer; None when its partitions may be used, else why they may not.

        Args:
            error: of the whole answer.
            session_id: in the answer.
            partitions: in the answer.
        """
        if error:
            wrong = f"error {error} of session {self._id}"
            self._close(known=error != ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return wrong
        extra = [key for key in partitions if key not in self.asked]
        missing = not self.incremental and len(partitions) - len(extra) < len(self.asked)
        if extra or missing:
            wrong = f"{extra[0]} was not asked for" if extra else "partitions are missing"
            self._close(known=self.incremental)
            return wrong
        if session_id == NO_SESSION or not self._sessions:
            self._close(known=False)
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1
        return None

    def failed(self) -> None:
        """Begin a new session: without an answer the state of the leader's one is unknown."""
        self._close(known=True)

    def _close(self, *, known: bool) -> None:
        if not known:
            self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH if self._sessions else FINAL_EPOCH


def _topics(wanted: Mapping[TopicPartition, PartitionFetch]) -> list[FetchRequestTopic]:
    topics: dict[str, FetchRequestTopic] = {}
    for key, each in wanted.items():
        item = topics.get(key.topic)
        if item is None:
            item = topics[key.topic] = FetchRequestTopic(key.topic, [])
        item.partitions.append(
            FetchRequestPartition(
                partition=key.partition,
                current_leader_epoch=each.leader_epoch,
                fetch_offset=each.offset,
                log_start_offset=each.log_start_offset,
                max_bytes=each.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(keys: list[TopicPartition]) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for key in keys:
        topics.setdefault(key.topic, ForgottenTopic(key.topic, [])).partitions.append(key.partition)
    return list(topics.values())
