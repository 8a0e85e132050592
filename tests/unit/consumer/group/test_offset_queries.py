"""Offsets by time, and log starts and ends."""

import pytest

from tests.support.logs_cluster import LeaderLog, LogsCluster
from tests.support.message_sets import message_set
from zkbroker.consumer.group.offset_queries import OffsetQueries
from zkbroker.runtime import get_runtime

KEY = ("t", 0)


@pytest.mark.parametrize(("read_committed", "end"), [(False, 5), (True, 3)])
def test_end_offset_depends_on_isolation_level(read_committed: bool, end: int) -> None:
    log = LeaderLog(start=2)
    log.append(message_set(2, 3, base=2))
    log.stable = 3
    cluster = LogsCluster(get_runtime("threads"), {KEY: log})
    queries = OffsetQueries(cluster, read_committed=read_committed, timeout_s=5)  # type: ignore[arg-type]
    assert queries.beginnings([KEY]) == {KEY: 2}
    assert queries.ends([KEY]) == {KEY: end}
    assert queries.at_times({KEY: 1_000}) == {KEY: None}
