"""The second listener: clients of Kafka 0.7, with logs of Kafka 0.7 and a registry of their own.

    server (bounds of the first listener) -> handlers -> Legacy07Logs
    registry in its own chroot and session, ephemeral

`Legacy07Broker` is the whole listener; the broker node starts and closes it.
"""

from zkbroker.broker.legacy07.listener import Legacy07Broker

__all__ = ["Legacy07Broker"]
