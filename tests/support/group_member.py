"""One consumer process of a group, for fault tests: it records all messages and assignments.

    python -m tests.support.group_member '{"zookeeper": ..., "topic": ..., "log": ...}'

The log is a row of 25-byte entries: kind, partition, offset, seconds (CLOCK_MONOTONIC, which all
processes of a machine share). An entry is written before the next message is asked for, and
outlives a kill of the process.
"""

import json
import logging
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

ENTRY = struct.Struct("<cqqd")
ASSIGNED = b"a"
"""The partition was claimed; the offset is the committed one, -1 for none, or UNKNOWN."""
DELIVERED = b"d"
UNKNOWN = -2


class Entry(NamedTuple):
    kind: bytes
    partition: int
    offset: int
    at: float


def read_log(path: str) -> list[Entry]:
    """Read a member's log; an entry that was cut off by a kill is left out."""
    with open(path, "rb") as file:
        data = file.read()
    whole = len(data) - len(data) % ENTRY.size
    return [Entry(*fields) for fields in ENTRY.iter_unpack(data[:whole])]


def main(options: Mapping[str, Any]) -> None:
    from zkbroker.config.consumer import ConsumerConfig
    from zkbroker.consumer import Consumer
    from zkbroker.errors import RegistryError
    from zkbroker.registry import group_offsets
    from zkbroker.runtime import get_runtime
    from zkbroker.zookeeper import ZkSession

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    topic = options["topic"]
    log = os.open(options["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    config = ConsumerConfig.from_properties(options["properties"])
    connector = Consumer.create(config, runtime=options["runtime"])
    # A separate session reads the committed offsets, without the consumer.
    own = ZkSession(
        config.zookeeper_connect, session_timeout_ms=6000, runtime=options["runtime"]
    ).start()

    class Listener:
        def before_releasing_partitions(self, owned: Mapping[tuple[str, int], int]) -> None:
            pass

        def before_starting_fetchers(
            self, consumer_id: str, owned: Mapping[tuple[str, int], int]
        ) -> None:
            try:
                found = group_offsets.read_offsets(own, config.group_id, list(owned))
                none = -1
            except RegistryError:
                found, none = {}, UNKNOWN
            for key in owned:
                offset = found.get(key, (none, 0))[0]
                os.write(log, ENTRY.pack(ASSIGNED, key[1], offset, time.monotonic()))

    def leave() -> None:
        connector.shutdown()

    if options["runtime"] == "gevent":
        import gevent

        gevent.signal_handler(signal.SIGTERM, leave)
    else:
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=leave).start())
    connector.add_rebalance_listener(Listener())
    stream = connector.create_message_streams({topic: 1})[topic][0]
    print(connector.consumer_id, flush=True)
    write, pack, now = os.write, ENTRY.pack, time.monotonic
    sleep = get_runtime(options["runtime"]).sleep
    for message in stream:
        write(log, pack(DELIVERED, message.partition, message.offset, now()))
        if options["slow"] and message.offset % 500 == 0:
            sleep(0.1)
    connector.shutdown()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
