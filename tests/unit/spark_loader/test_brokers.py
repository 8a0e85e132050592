"""Requests of driver and workers to brokers while leaders move."""

import pytest

from spark_loader.brokers import BrokerClient, BrokerView, RangeFetcher
from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.positions import EARLIEST, LATEST, TopicPartition
from tests.support.logs_cluster import LeaderLog, LogsCluster
from tests.support.message_sets import message_set
from zkbroker.errors import ErrorCode, OffsetOutOfRange
from zkbroker.records import iter_records
from zkbroker.runtime import get_runtime

SOURCE = TopicPartition("t", 0)


def log_with(count: int, start: int = 0) -> LeaderLog:
    log = LeaderLog(0, start)
    log.append(message_set(2, count, base=start))
    return log


def client_of(log: LeaderLog, **options: int | bool) -> BrokerClient:
    client = BrokerClient.__new__(BrokerClient)
    given = {"retry_for_ms": 20_000, "retry_interval_ms": 1, "max_wait_ms": 1} | options
    client.connect = ConnectOptions(bootstrap=("b:1",), **given)  # type: ignore[arg-type]
    client.cluster = LogsCluster(get_runtime("threads"), {SOURCE: log})  # type: ignore[assignment]
    return client


def fetch(client: BrokerClient, offset: int) -> list[int]:
    fetcher = RangeFetcher.__new__(RangeFetcher)
    fetcher._client = client
    fetched = fetcher.send(SOURCE, offset, 100_000)()
    return [record.offset for record in iter_records(fetched.records, start_offset=offset)]


def test_fetch_follows_new_leader():
    log = log_with(4)
    client = client_of(log)
    log.leader, log.epoch = 1, 1
    assert fetch(client, 2) == [2, 3]


def test_former_leader_with_shorter_log_loses_no_records():
    log = log_with(6)
    log.deposed[0] = log_with(3)
    client = client_of(log)
    log.leader, log.epoch = 1, 1
    assert fetch(client, 5) == [5]


@pytest.mark.parametrize("offset", [2, 100])
def test_offset_out_of_log_fails_with_log_range(offset):
    with pytest.raises(OffsetOutOfRange) as raised:
        fetch(client_of(log_with(3, start=5)), offset)
    assert (raised.value.earliest, raised.value.latest) == (5, 8)


def test_wrong_out_of_range_answer_is_retried():
    log = log_with(6)
    log.error = ErrorCode.OFFSET_OUT_OF_RANGE
    client = client_of(log)

    def recover() -> None:
        if client.cluster.refreshed == 3:
            log.error = 0

    client.cluster.on_refresh = recover
    assert fetch(client, 4) == [4, 5]


def test_fetch_waits_for_high_watermark_of_new_leader():
    log = log_with(6)
    log.shown_to = 3
    log.list_offsets_error = ErrorCode.LEADER_NOT_AVAILABLE
    client = client_of(log)

    def catch_up() -> None:
        log.list_offsets_error = 0
        if client.cluster.refreshed == 3:
            log.shown_to = None

    client.cluster.on_refresh = catch_up
    assert fetch(client, 4) == [4, 5]


def test_fetch_at_log_end_returns_no_records():
    client = client_of(log_with(6))
    assert fetch(client, 6) == []
    assert client.cluster.refreshed == 0


def test_offset_lookup_follows_new_leader():
    log = log_with(6)
    client = client_of(log)
    log.leader, log.epoch = 1, 1
    assert client.ends([SOURCE], LATEST) == {SOURCE: 6}
    assert client.ends([SOURCE], EARLIEST) == {SOURCE: 0}
    assert client.offsets({SOURCE: 99}) == {SOURCE: None}


def view_of(log: LeaderLog, *, read_committed: bool) -> BrokerView:
    view = BrokerView.__new__(BrokerView)
    view._client = client_of(log, read_committed=read_committed)
    return view


def test_only_read_committed_ends_at_open_transaction():
    log = log_with(6)
    log.stable = 4
    for read_committed, end in ((True, 4), (False, 6)):
        view = view_of(log, read_committed=read_committed)
        assert view.latest([SOURCE]) == {SOURCE: end}
        assert view.log_ends([SOURCE]) == {SOURCE: 6}


def test_fetch_returns_aborted_transactions():
    log = log_with(6)
    log.stable, log.aborted = 4, [(7, 2)]
    for read_committed, aborted, stable in ((True, [(7, 2)], 4), (False, [], None)):
        fetcher = RangeFetcher.__new__(RangeFetcher)
        fetcher._client = client_of(log, read_committed=read_committed)
        fetched = fetcher.send(SOURCE, 0, 100_000)()
        assert (list(fetched.aborted), fetched.stable) == (aborted, stable)


def test_compaction_below_stable_offset_is_confirmed_by_next_entry():
    log = log_with(3)
    log.data += message_set(2, 1, base=8)
    log.end, log.stable = 9, 8
    client = client_of(log, read_committed=True)
    assert fetch(client, 5) == [8]
    log.stable = 7
    assert fetch(client, 5) == [8]


def test_empty_answer_below_stable_offset_is_retried():
    log = log_with(6)
    client = client_of(log, read_committed=True)
    whole, shown = log.read, []

    def hiding(offset: int, max_bytes: int, *, read_committed: bool = False) -> bytes:
        hidden = read_committed and False not in shown
        shown.append(read_committed)
        return b"" if hidden else whole(offset, max_bytes, read_committed=read_committed)

    log.read = hiding  # type: ignore[method-assign]
    assert fetch(client, 2) == [2, 3, 4, 5]
    assert shown[-2:] == [False, True]
