"""Logs of Kafka 0.7: offsets are positions in bytes, and only flushed bytes can be read.

    <log.dir>/<topic>-<partition>/%020d.kafka   messages; the number is the position of the first
                                  <file>.corrupt-<ms>   bytes that a recovery cut off
    <log.dir>/.kafka_cleanshutdown              made by a clean stop, removed by a start

`Legacy07Logs` opens such a directory and hands out a `Legacy07Log` for each partition. A genuine
0.7 broker opens the directory again after a clean stop.
"""

from zkbroker.log.legacy07.directory import Legacy07Logs
from zkbroker.log.legacy07.log import Legacy07Log

__all__ = ["Legacy07Log", "Legacy07Logs"]
