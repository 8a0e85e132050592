"""A `logging.Handler` that publishes log records, as the old log4j appender did.

Invariant: logging never waits for a broker and never raises into the program: a record that cannot
be queued goes to `logging.Handler.handleError`, as with every handler. Records of this library's
own and of the ZooKeeper client are left out, since sending them would make more of them.
"""

import logging
from typing import Any

from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ConfigError, ZkbrokerError
from zkbroker.producer.message import KeyedMessage
from zkbroker.producer.producer import Producer

_OWN = ("zkbroker", "kazoo")


class ZkbrokerHandler(logging.Handler):
    """Publishes formatted records to a topic.

    Args:
        topic: its name.
        config: of a producer in async mode; or its properties.
        level: least level that is published.
        key: attribute of the record whose text becomes the key, such as `name`; None for no key.
        encoding: of the text.
        producer: one to use instead of one made from `config`; it is not closed here.
        runtime: of the producer made here.

    Raises:
        ConfigError: the producer is not in async mode, or neither it nor a config was given.
    """

    def __init__(
        self,
        topic: str,
        config: ProducerConfig | dict[str, str] | None = None,
        *,
        level: int | str = logging.NOTSET,
        key: str | None = None,
        encoding: str = "utf-8",
        producer: Producer | None = None,
        runtime: str = "threads",
    ) -> None:
        super().__init__(level)
        self.topic = topic
        self._key = key
        self._encoding = encoding
        self._owned = producer is None
        if producer is None:
            producer = _producer(config, runtime)
        if producer.config.producer_type != "async":
            raise ConfigError(
                "a logging handler needs producer.type=async: logging must not wait for a broker"
            )
        self._producer: Producer | None = producer

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record; report one that cannot be queued by `handleError`."""
        if record.name.partition(".")[0] in _OWN or self._producer is None:
            return
        try:
            key: Any = None if self._key is None else getattr(record, self._key, None)
            self._producer.send(
                KeyedMessage(
                    self.topic,
                    self.format(record).encode(self._encoding, "backslashreplace"),
                    key=None if key is None else str(key).encode(self._encoding),
                    timestamp_ms=int(record.created * 1000),
                )
            )
        # As handlers of the standard library do with all their errors.
        except Exception:  # noqa: BLE001
            self.handleError(record)

    def flush(self) -> None:
        """Wait until the published records are acknowledged or have failed."""
        if self._producer is not None:
            try:
                self._producer.flush()
            except ZkbrokerError:
                # The producer has logged the failures; `logging` calls flush at exit.
                return

    def close(self) -> None:
        """Publish the queued records, and close the producer made here."""
        producer, self._producer = self._producer, None
        try:
            if producer is not None and self._owned:
                producer.close()
        finally:
            super().close()


def _producer(config: ProducerConfig | dict[str, str] | None, runtime: str) -> Producer:
    if config is None:
        raise ConfigError("give a config or a producer")
    if isinstance(config, dict):
        # A record must not make the program wait, as full queues do by default.
        given = {"producer.type": "async", "queue.enqueue.timeout.ms": "0", **config}
        config = ProducerConfig.from_properties(given)
    return Producer(config, runtime=runtime)
