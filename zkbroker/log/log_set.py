"""The logs of a broker.

Invariant: a partition has at most one log here, open or unopened. Logs of an offline directory
stay, and refuse every call.
"""

from pathlib import Path
from typing import NamedTuple

from zkbroker.log.directory import DataDirectory
from zkbroker.log.log import Log
from zkbroker.log.names import TopicPartition
from zkbroker.log.results import LogState


class UnopenedLog(NamedTuple):
    """A recovered log that was not opened because no more files may be open."""

    directory: DataDirectory
    path: Path
    state: LogState


class LogSet:
    """Open and unopened logs by partition."""

    def __init__(self) -> None:
        self.open: dict[TopicPartition, Log] = {}
        self.unopened: dict[TopicPartition, UnopenedLog] = {}

    def all(self) -> list[tuple[TopicPartition, Log]]:
        """Return the open logs, as a copy."""
        return list(self.open.items())

    def online(self) -> list[Log]:
        """Return the open logs whose data directory works."""
        return [log for _, log in self.all() if log.directory.offline is None]

    def of(self, directory: DataDirectory) -> dict[TopicPartition, Log]:
        """Return the open logs of a data directory."""
        return {tp: log for tp, log in self.all() if log.directory is directory}

    def unopened_of(self, directory: DataDirectory) -> dict[TopicPartition, LogState]:
        """Return the recovered states of the unopened logs of a data directory."""
        return {
            tp: found.state for tp, found in self.unopened.items() if found.directory is directory
        }

    def partitions_beside(self, log: Log) -> set[TopicPartition]:
        """Return the partitions of a log's data directory."""
        return {*self.of(log.directory), *self.unopened_of(log.directory)}

    def highest_producer_id(self) -> int:
        """Return the highest producer id in the logs, -1 if there is none."""
        known = [log.producers for _, log in self.all()]
        known += [found.state.producers for found in self.unopened.values()]
        return max((each for producers in known for each in producers.producer_ids()), default=-1)
