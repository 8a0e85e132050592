"""The mirrored position of each partition of a source, kept in the target beside the messages.

    topic mirror-positions, one partition, compacted, written in the transactions of the mirror:
    key    {"source": ID, "topic": T, "partition": P}
    value  {"offset": next offset in the source}

Invariant: a position is read only when no earlier writer can change it: the reader has fenced that
    writer, and waits until the topic has no open transaction from before.
"""

import json
import time

from zkbroker.client import Cluster
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_or_end
from zkbroker.config.fetching import FetchSettings
from zkbroker.consumer import AssignedConsumer, ConsumerTimeout, MessageAndMetadata
from zkbroker.errors import ConfigError, RequestTimedOut
from zkbroker.mirror.state_keys import encode_key, parse_key, parse_offset
from zkbroker.producer import KeyedMessage
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

_AGAIN_S = 0.05
_LEADER_S = 10.0
_MESSAGE_S = 30.0


class Positions:
    """The positions of one source.

    Args:
        cluster: the target, started; the topic exists.
        topic: in which they are.
        source: whose.
        runtime: concurrency.
    """

    def __init__(self, cluster: Cluster, topic: str, source: str, runtime: Runtime) -> None:
        self._cluster = cluster
        self._log = (topic, 0)
        self._source = source
        self._runtime = runtime
        self._lock = runtime.lock()
        self._next: int | None = None
        self._found: dict[PartitionKey, int] = {}
        self._unreadable: dict[PartitionKey, int] = {}
        """Partition → offset of its latest position message, if that cannot be read."""

    def message(self, key: PartitionKey, offset: int) -> KeyedMessage:
        """Return the message of a position."""
        return KeyedMessage(
            self._log[0],
            json.dumps({"offset": offset}).encode(),
            key=encode_key(self._source, key),
            partition=0,
        )

    def read(self, timeout_s: float) -> dict[PartitionKey, int]:
        """Return the committed positions.

        Args:
            timeout_s: how long to wait for open transactions; those of a dead mirror stay open
                until another one takes its partitions, or they time out.

        Raises:
            RequestTimedOut: one is still open, or no message came for some time.
            ConfigError: the latest message of a partition's key has no position.
            ZkbrokerError: the target does not answer.
        """
        deadline = time.monotonic() + timeout_s
        with self._lock:
            end = self._end(read_committed=False)
            while self._end(read_committed=True) < end:
                if time.monotonic() > deadline:
                    raise RequestTimedOut(
                        f"a transaction on {self._log[0]} of the target has been open for "
                        f"{timeout_s:g} s: the mirrored position of the source is not known yet"
                    )
                self._runtime.sleep(_AGAIN_S)
            self._read_to(end)
            self._check()
            return dict(self._found)

    def _end(self, *, read_committed: bool) -> int:
        return resolve_or_end(
            self._cluster,
            {self._log: LATEST_TIME},
            read_committed=read_committed,
            timeout_s=_LEADER_S,
        )[self._log]

    def _read_to(self, end: int) -> None:
        start = resolve_or_end(self._cluster, {self._log: EARLIEST_TIME}, timeout_s=_LEADER_S)
        begin = max(self._next or 0, start[self._log])
        if begin < end:
            with AssignedConsumer(
                self._cluster,
                {self._log: begin},
                stop={self._log: end},
                settings=FetchSettings(read_committed=True),
                timeout_ms=round(_MESSAGE_S * 1000),
                runtime=self._runtime,
            ) as consumer:
                try:
                    for message in consumer:
                        self._keep(message)
                except ConsumerTimeout:
                    raise RequestTimedOut(
                        f"no message of {self._log[0]} of the target came for {_MESSAGE_S:g} s: "
                        "the mirrored position of the source is not known yet"
                    ) from None
        self._next = end

    def _keep(self, message: MessageAndMetadata) -> None:
        partition = parse_key(message.key, self._source)
        if partition is None:
            return
        self._unreadable.pop(partition, None)
        self._found.pop(partition, None)
        if message.value is None:
            return  # a tombstone: the mirror starts over with this partition
        offset = parse_offset(message.value, "offset")
        if offset is None:
            self._unreadable[partition] = message.offset
        else:
            self._found[partition] = offset

    def _check(self) -> None:
        for (topic, number), at in self._unreadable.items():
            raise ConfigError(
                f"the message at offset {at} of {self._log[0]} in the target has no position of "
                f"{topic}-{number} of {self._source}: its mirrored position is unknown; publish "
                'one with the same key and {"offset": N} as its value, or without a value to '
                "start over"
            )
