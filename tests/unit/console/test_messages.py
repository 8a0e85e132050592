"""Messages of topics without any."""

from zkbroker.console.messages import Search, browse
from zkbroker.console.start_positions import parse_start
from zkbroker.runtime import get_runtime


def test_topic_without_partitions_has_no_messages():
    search = Search(start=parse_start("earliest"), at={}, limit=10)
    found = browse(lambda partition, chunk: None, "t", [], search, get_runtime("threads"))
    assert found == {"messages": [], "next": {}, "scanned": 0, "ended": True}
