"""Offset ranges become record batches, gaps and damaged entries."""

import re

import pyarrow as pa
import pytest

from spark_loader.errors import DamagedLog, DataLoss, LoadError
from spark_loader.lake.ledger import Gap
from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.damage import DamagedEntry
from spark_loader.reading.reader import ABORTED, ABSENT, Fetched, RangeReader
from spark_loader.reading.splits import OffsetRange
from tests.support.directory_cluster import DirectoryCluster
from tests.support.loading import damage
from tests.support.transactional import TransactionalLog
from zkbroker.errors import CorruptMessage
from zkbroker.records import Codec, iter_entries


@pytest.fixture
def cluster(tmp_path):
    return DirectoryCluster(str(tmp_path / "cluster"))


def reader(cluster, **options):
    options.setdefault("fetch_bytes", 4096)
    return RangeReader(cluster.fetcher(None), **options)


def rows(pieces):
    return [
        (offset, key, value)
        for piece in pieces
        if isinstance(piece, pa.RecordBatch)
        for offset, key, value in zip(
            piece.column("offset").to_pylist(),
            piece.column("key").to_pylist(),
            piece.column("value").to_pylist(),
            strict=True,
        )
    ]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", list(Codec))
def test_formats_and_codecs_give_same_rows(cluster, magic, codec):
    if magic < codec.first_magic:
        pytest.skip(f"{codec.label} came with magic {codec.first_magic}")
    values = [None if index == 7 else b"value %d" % index for index in range(1000)]
    keys = [None if index % 3 else b"key %d" % index for index in range(1000)]
    cluster.append("t", 0, values, keys=keys, magic=magic, codec=codec)
    found = rows(reader(cluster).read(OffsetRange("t", 0, 5, 990)))
    assert found == [(index, keys[index], values[index]) for index in range(5, 990)]


def test_rows_have_topic_partition_and_timestamp(cluster):
    cluster.append("t", 3, [b"v"], timestamp_ms=1_431_857_103_123)
    cluster.append("t", 3, [b"v"], magic=0)
    first, second = (
        piece.to_pylist()[0]
        for magic in (0, 1)
        for piece in reader(cluster).read(OffsetRange("t", 3, magic, magic + 1))
    )
    assert (first["topic"], first["partition"], first["timestampType"]) == ("t", 3, 0)
    assert first["timestamp"].timestamp() == 1_431_857_103.123
    assert second["timestampType"] == -1
    assert second["timestamp"].timestamp() == -0.001


def test_headers_are_read_when_requested(cluster):
    headers = [(("a", b"1"), ("b", None)), ()]
    cluster.append("t", 0, [b"x", b"y"], headers=headers)
    [batch] = reader(cluster, headers=True).read(OffsetRange("t", 0, 0, 2))
    assert batch.column("headers").to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
    ]


def test_entry_larger_than_fetch_size_is_read(cluster):
    cluster.append("t", 0, [b"x" * 100_000, b"y"])
    found = rows(reader(cluster, fetch_bytes=512).read(OffsetRange("t", 0, 0, 2)))
    assert [len(value) for _, _, value in found] == [100_000, 1]


def test_deleted_offsets_fail_read_with_exact_range(cluster):
    cluster.append("t", 0, [b"v"] * 100)
    cluster.delete_before("t", 0, 40)
    with pytest.raises(DataLoss, match=r"t-0 \[10, 40\)"):
        list(reader(cluster).read(OffsetRange("t", 0, 10, 100)))


@pytest.mark.parametrize(
    ("policy", "until", "loaded"), [("earliest", 40, 60), ("nearest", 40, 60), ("latest", 100, 0)]
)
def test_out_of_range_policies_yield_gap(cluster, policy, until, loaded):
    cluster.append("t", 0, [b"v"] * 100)
    cluster.delete_before("t", 0, 40)
    pieces = list(reader(cluster, on_out_of_range=policy).read(OffsetRange("t", 0, 10, 100)))
    gap = pieces[0]
    assert isinstance(gap, Gap)
    assert (gap.start, gap.until) == (10, until)
    assert "offset 40" in gap.cause
    assert len(rows(pieces)) == loaded


def test_log_ending_before_range_is_data_loss(cluster):
    cluster.append("t", 0, [b"v"] * 10)
    for start in (4, 20):
        with pytest.raises(DataLoss, match="ends at offset 10"):
            list(reader(cluster).read(OffsetRange("t", 0, start, 30)))


@pytest.mark.parametrize("until", [250, 150])
def test_compacted_offsets_are_absent(cluster, until):
    cluster.append("t", 0, [b"v"] * 300, per_batch=100)
    file = cluster._file("t", 0)
    data = file.read_bytes()
    middle = list(iter_entries(data))[1]
    file.write_bytes(data[: middle.position] + data[middle.position + middle.size :])
    pieces = list(reader(cluster).read(OffsetRange("t", 0, 50, until)))
    [gap] = [each for each in pieces if isinstance(each, Gap)]
    assert gap == Gap("t", 0, 100, min(200, until), ABSENT)
    assert [offset for offset, _, _ in rows(pieces)] == [*range(50, 100), *range(200, until)]


def test_damaged_entry_fails_read(cluster):
    cluster.append("t", 0, [b"v"] * 300)
    damage(cluster, "t", 0, 1)
    with pytest.raises(DamagedLog, match=r"t-0 \[100, 200\)"):
        list(reader(cluster).read(OffsetRange("t", 0, 0, 300)))


def test_offset_not_before_next_is_damage(cluster):
    """Otherwise an offset above the requested range would look like compaction."""
    cluster.append("t", 0, [b"v"] * 30, magic=1, per_batch=1)
    file = cluster._file("t", 0)
    data = bytearray(file.read_bytes())
    entry = list(iter_entries(bytes(data)))[7]
    data[entry.position + 7] = 20
    file.write_bytes(bytes(data))
    pieces = list(reader(cluster, keep_damaged=True).read(OffsetRange("t", 0, 5, 10)))
    [damaged] = [each for each in pieces if isinstance(each, DamagedEntry)]
    assert (damaged.start, damaged.until) == (7, 8)
    assert "20 is not before 8" in damaged.reason
    assert [offset for offset, _, _ in rows(pieces)] == [5, 6, 8, 9]


def test_offset_beyond_log_end_in_last_entry_is_damage(cluster):
    cluster.append("t", 0, [b"v"] * 10, magic=1, per_batch=1)
    data = bytearray(cluster._file("t", 0).read_bytes())
    entries = list(iter_entries(bytes(data)))
    data[entries[-1].position + 6] = 1
    fetcher = FixedFetcher(bytes(data), [(e.last_offset, e.position) for e in entries], end=10)
    with pytest.raises(DamagedLog, match=r"t-0 \[9, 10\).*offset 265 is not below"):
        list(RangeReader(fetcher, fetch_bytes=4096).read(OffsetRange("t", 0, 0, 10)))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_damaged_entry_is_kept_verbatim_when_requested(cluster, codec):
    cluster.append("t", 0, [b"v"] * 300, codec=codec)
    raw = damage(cluster, "t", 0, 1)
    pieces = list(reader(cluster, keep_damaged=True).read(OffsetRange("t", 0, 0, 300)))
    [damaged] = [each for each in pieces if isinstance(each, DamagedEntry)]
    assert (damaged.start, damaged.until, damaged.raw) == (100, 200, raw)
    assert [offset for offset, _, _ in rows(pieces)] == [*range(100), *range(200, 300)]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("keep", [False, True])
def test_damaged_header_byte_fails_read_or_is_kept(cluster, magic, codec, keep):
    """With any damaged byte each offset is once a row, in a damaged entry or absent."""
    for _ in range(3):
        cluster.append("t", 0, [b"value"] * 5, magic=magic, codec=codec, per_batch=5)
    sound = cluster._file("t", 0).read_bytes()
    entries = list(iter_entries(sound))
    middle = entries[len(entries) // 2]
    for at in range(min(middle.size, 70)):
        for bit in (0x01, 0x80):
            data = bytearray(sound)
            data[middle.position + at] ^= bit
            fetcher = FixedFetcher(bytes(data), [(e.last_offset, e.position) for e in entries])
            found = RangeReader(fetcher, fetch_bytes=4096, keep_damaged=keep)
            message = ""
            try:
                pieces = list(found.read(OffsetRange("t", 0, 0, 15)))
            except DamagedLog as error:
                message = str(error)
            if message:
                assert not keep
                assert re.match(r"t-0 \[\d+, \d+\): the entry of the log is damaged", message)
                continue
            covered = [offset for offset, _, _ in rows(pieces)]
            for each in pieces:
                if not isinstance(each, pa.RecordBatch):
                    covered.extend(range(each.start, each.until))
            assert sorted(covered) == [*range(15)]
            # No checksum covers the offset, but a distant one is damage. (The offset of a wrapper
            # of magic 0 is not used: its records have their own offsets.)
            if at < 7 and (magic, codec) != (0, Codec.GZIP):
                assert any(isinstance(each, DamagedEntry) for each in pieces)
            # An impossibly large entry does not increase the fetch size again and again.
            assert fetcher.largest <= 8192


class FixedFetcher:
    """Serves bytes from the entry that had an offset before the bytes were damaged."""

    largest = 0

    def __init__(self, data, index, end=15):
        self._data = data
        self._end = end
        self._index = index

    def send(self, source, offset, max_bytes):
        self._at = next(position for last, position in self._index if last >= offset)
        self._most = max_bytes
        self.largest = max(self.largest, max_bytes)
        return self.result

    def result(self):
        return Fetched(self._data[self._at : self._at + self._most], self._end)


@pytest.mark.parametrize("keep", [False, True])
def test_corrupt_message_from_broker_fails_read_or_is_kept(cluster, keep):
    cluster.append("t", 0, [b"v"] * 30, per_batch=10)
    inner = cluster.fetcher(None)

    class CorruptingFetcher:
        def send(self, source, offset, max_bytes):
            return self.refuse if 10 <= offset < 20 else inner.send(source, offset, max_bytes)

        def refuse(self):
            raise CorruptMessage("fetch of t-0: CORRUPT_MESSAGE (2)")

    found = RangeReader(CorruptingFetcher(), fetch_bytes=100, keep_damaged=keep)
    pieces = found.read(OffsetRange("t", 0, 0, 30))
    if not keep:
        with pytest.raises(DamagedLog, match=r"t-0 \[10, 11\).*CORRUPT_MESSAGE"):
            list(pieces)
        return
    pieces = list(pieces)
    assert [offset for offset, _, _ in rows(pieces)] == [*range(10), *range(20, 30)]
    damaged = [(each.start, each.until) for each in pieces if isinstance(each, DamagedEntry)]
    assert damaged == [(offset, offset + 1) for offset in range(10, 20)]


def test_timestamps_out_of_range_are_clamped(cluster):
    for unit in (1, 1000, 1_000_000):
        cluster.append("t", 0, [b"v"], timestamp_ms=1_431_857_103_000 * unit)
    pieces = list(reader(cluster).read(OffsetRange("t", 0, 0, 3)))
    times = [t for piece in pieces for t in piece.column("timestamp").cast(pa.int64()).to_pylist()]
    assert times == [1_431_857_103_000_000, 1_431_857_103_000_000_000, (2**63 - 1) // 1000 * 1000]


COMMITTED = ConnectOptions(bootstrap=("b:1",), read_committed=True)


def committed_reader(cluster, **options):
    options.setdefault("fetch_bytes", 4096)
    return RangeReader(cluster.fetcher(COMMITTED), **options)


def accounted(pieces):
    """Return the offsets of rows, the absent ones and the aborted ones."""
    found = {ABSENT: [], ABORTED: []}
    pieces = list(pieces)
    for each in pieces:
        if isinstance(each, Gap):
            found[each.cause].extend(range(each.start, each.until))
    return [offset for offset, _, _ in rows(pieces)], found[ABSENT], found[ABORTED]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("fetch_bytes", [150, 700, 100_000])
def test_offsets_below_stable_offset_are_rows_absent_or_aborted(
    cluster, tmp_path, seed, fetch_bytes
):
    log = TransactionalLog(tmp_path / "log")
    log.play(seed)
    cluster.store("t", 0, log)
    markers = sorted(set(range(log.stable)) - set(log.values))
    left_out = sorted(set(log.values) - set(log.committed))
    for start in (0, log.stable // 3):
        found = committed_reader(cluster, fetch_bytes=fetch_bytes).read(
            OffsetRange("t", 0, start, log.stable)
        )
        loaded, absent, aborted = accounted(found)
        assert loaded == [each for each in log.committed if each >= start]
        assert sorted(absent) == [each for each in markers if each >= start]
        assert sorted(aborted) == [each for each in left_out if start <= each < log.stable]


def test_read_uncommitted_returns_aborted_records(cluster, tmp_path):
    log = TransactionalLog(tmp_path / "log")
    log.play(3)
    cluster.store("t", 0, log)
    loaded, absent, aborted = accounted(reader(cluster).read(OffsetRange("t", 0, 0, log.offset)))
    assert (loaded, aborted) == (sorted(log.values), [])
    assert sorted([*loaded, *absent]) == [*range(log.offset)]


@pytest.mark.parametrize("number", range(8))
def test_damage_does_not_hide_committed_records(cluster, tmp_path, number):
    """Entries 1 and 3 are aborted by 4; 0 is committed by 2, and 6 by 7; 5 is of no transaction."""
    log = TransactionalLog(tmp_path / "log")
    log.send(1, 2)
    log.send(2, 2)
    log.commit(1)
    log.send(2, 2)
    log.abort(2)
    log.send(None, 2)
    log.send(2, 2)
    log.commit(2)
    cluster.store("t", 0, log)
    damage(cluster, "t", 0, number)
    pieces = list(committed_reader(cluster, keep_damaged=True).read(OffsetRange("t", 0, 0, 13)))
    [damaged] = [each for each in pieces if isinstance(each, DamagedEntry)]
    harmed = set(range(damaged.start, damaged.until))
    assert log.entries[number][0] in harmed
    loaded, absent, aborted = accounted([p for p in pieces if not isinstance(p, DamagedEntry)])
    assert loaded == sorted(set(log.committed) - harmed)
    assert sorted([*loaded, *absent, *aborted, *harmed]) == [*range(13)]


def test_range_beyond_stable_offset_fails_with_reason(cluster, tmp_path):
    log = TransactionalLog(tmp_path / "log")
    log.send(1, 2)
    cluster.store("t", 0, log)
    with pytest.raises(LoadError, match=r"\[0, 2\) are not stable yet"):
        list(committed_reader(cluster).read(OffsetRange("t", 0, 0, 2)))


def test_small_batches_are_joined_into_large_ones(cluster, tmp_path):
    """Each marker leaves a gap; decoding entry by entry would be slow."""
    log = TransactionalLog(tmp_path / "log")
    for number in range(300):
        log.send(1)
        log.end(1, number % 2)
    cluster.store("t", 0, log)
    found = committed_reader(cluster, fetch_bytes=1 << 20).read(OffsetRange("t", 0, 0, 600))
    assert len([each for each in found if isinstance(each, pa.RecordBatch)]) == 1
