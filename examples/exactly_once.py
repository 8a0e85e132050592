"""Exactly once: results and offsets are stored in one transaction of a database.

    python -m examples.exactly_once --zookeeper 127.0.0.1:2181 --topic clicks --database counts.db

Counts messages by value in an SQLite database. The group's offsets are not used: the database holds
the offset of each partition beside the counts, so that a crash at any moment loses nothing and
counts nothing twice. When partitions change hands, the new owner goes on at the database's offset.

The update of the offset is conditional. If a member lost its partition without knowing it (it was
paused, its session ended), its successor has moved the offset, and the member's transaction is
rolled back.
"""

import argparse
import signal
import sqlite3
import threading
from collections.abc import Mapping

from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer import Consumer, ConsumerConnector, MessageAndMetadata

SCHEMA = """
CREATE TABLE IF NOT EXISTS counts (value BLOB PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (
    topic TEXT, partition INTEGER, next_offset INTEGER NOT NULL, PRIMARY KEY (topic, partition)
);
"""


class Store:
    """Counts and offsets in one database."""

    def __init__(self, path: str) -> None:
        # The rebalance reads offsets in another task; SQLite serialises the two.
        self.database = sqlite3.connect(path, timeout=30, check_same_thread=False)
        self.database.execute("PRAGMA journal_mode=WAL")
        # A power cut may undo the last transactions, but always count and offset together.
        self.database.execute("PRAGMA synchronous=NORMAL")
        self.database.executescript(SCHEMA)
        self.lock = threading.Lock()

    def next_offset(self, topic: str, partition: int) -> int:
        """Return the next offset, and create its row if needed."""
        key = topic, partition
        with self.lock, self.database:
            self.database.execute("INSERT OR IGNORE INTO offsets VALUES (?, ?, 0)", key)
            row = self.database.execute(
                "SELECT next_offset FROM offsets WHERE topic = ? AND partition = ?", key
            ).fetchone()
        return int(row[0])

    def add(self, message: MessageAndMetadata) -> bool:
        """Count a message and advance its partition's offset; False if another consumer has
        advanced it.
        """
        with self.lock, self.database:
            moved = self.database.execute(
                "UPDATE offsets SET next_offset = ?"
                " WHERE topic = ? AND partition = ? AND next_offset <= ?",
                (message.offset + 1, message.topic, message.partition, message.offset),
            ).rowcount
            if moved:
                self.database.execute(
                    "INSERT INTO counts VALUES (?, 1)"
                    " ON CONFLICT (value) DO UPDATE SET count = count + 1",
                    (message.value,),
                )
        return bool(moved)


class StartAtStore:
    """Starts every partition at the database's offset."""

    def __init__(self, connector: ConsumerConnector, store: Store) -> None:
        self._connector = connector
        self._store = store

    def before_releasing_partitions(self, owned: Mapping[tuple[str, int], int]) -> None:
        """Nothing to do: each message was stored with its offset."""

    def before_starting_fetchers(
        self, consumer_id: str, owned: Mapping[tuple[str, int], int]
    ) -> None:
        """Seek before the first message is fetched."""
        for topic, partition in owned:
            self._connector.seek(topic, partition, self._store.next_offset(topic, partition))


def count(config: ConsumerConfig, topic: str, database: str) -> None:
    """Count the messages of a topic until SIGTERM."""
    store = Store(database)
    connector = Consumer.create(config)
    connector.add_rebalance_listener(StartAtStore(connector, store))
    stream = connector.create_message_streams({topic: 1})[topic][0]
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=connector.shutdown).start())
    for message in stream:
        store.add(message)
    connector.shutdown()


def main() -> None:
    """Parse the command line and count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--group", default="exactly-once")
    parser.add_argument("--session-timeout-ms", type=int, default=6000)
    options = parser.parse_args()
    config = ConsumerConfig(
        group_id=options.group,
        zookeeper_connect=options.zookeeper,
        zookeeper_session_timeout_ms=options.session_timeout_ms,
        auto_commit_enable=False,
        auto_offset_reset="smallest",
    )
    count(config, options.topic, options.database)


if __name__ == "__main__":
    main()
