"""Reads starts and ends of partitions from their leaders, as many at once as `sampling` allows."""

from collections.abc import Collection

from zkbroker.client import Cluster
from zkbroker.client.list_offsets import (
    EARLIEST_TIME,
    LATEST_TIME,
    listed_offsets,
    send_list_offsets,
)
from zkbroker.console.cluster_state import ClusterState
from zkbroker.console.sampling import choose, choose_starts
from zkbroker.errors import ProtocolError, ZkbrokerError
from zkbroker.network.client.connection import Pending
from zkbroker.types import PartitionKey

ENDS_AT_ONCE = 1000
STARTS_AT_ONCE = 250
_FIRST_STARTS_AT_ONCE = 1000


class Offsets:
    """Reads the offsets of the partitions in `seen`, and fills it."""

    def __init__(self, seen: ClusterState) -> None:
        self._seen = seen

    def look(self, cluster: Cluster, now_ms: int) -> None:
        """Ask for the offsets that are due; a leader that does not answer becomes a trouble."""
        seen = self._seen
        led = seen.led()
        served = set(led)
        for key, look in seen.looks.items():
            if key not in served:
                look.rate = None
        fresh = any(not seen.looks[key].start_seen_ms for key in led)
        starts = choose_starts(
            seen.looks, led, now_ms, _FIRST_STARTS_AT_ONCE if fresh else STARTS_AT_ONCE
        )
        ends = choose(seen.looks, led, now_ms, ENDS_AT_ONCE)
        failed: dict[str, None] = {}
        for key, offset in self._ask(cluster, starts, EARLIEST_TIME, failed).items():
            seen.looks[key].saw_start(offset, now_ms)
        for key, offset in self._ask(cluster, ends, LATEST_TIME, failed).items():
            seen.looks[key].saw_end(offset, now_ms)
        seen.note_trouble("offsets", failed, "offsets cannot be read")

    def _ask(
        self,
        cluster: Cluster,
        keys: Collection[PartitionKey],
        time_ms: int,
        failed: dict[str, None],
    ) -> dict[PartitionKey, int | None]:
        """Return the offset of each partition, None if its leader does not give it."""
        seen = self._seen
        found: dict[PartitionKey, int | None] = dict.fromkeys(keys)
        leaders = {
            (name, each.partition): each.leader
            for name in {topic for topic, _ in keys}
            for each in seen.topics[name].partitions
        }
        by_leader: dict[int, list[PartitionKey]] = {}
        for key in keys:
            leader = leaders[key]
            if leader is not None:
                by_leader.setdefault(leader, []).append(key)
        asked: list[Pending] = []
        for leader, wanted in by_leader.items():
            epochs = {key: seen.epochs.get(key, -1) for key in wanted}
            try:
                connection = cluster.connection(leader)
                asked.append(
                    send_list_offsets(connection, dict.fromkeys(wanted, time_ms), epochs=epochs)
                )
            except ZkbrokerError as error:
                failed[str(error)] = None
        for pending in asked:
            try:
                answers = listed_offsets(pending)
            except ZkbrokerError as error:
                failed[str(error)] = None
                continue
            for key, offsets in answers.items():
                # The next reading of topics finds a leader that moved.
                if not isinstance(offsets, ProtocolError) and key in found:
                    found[key] = offsets[0] if offsets else None
        return found
