import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import UnreplicatedLog, started
from tests.support.memory_log import MemoryLog
from tests.support.transactional import TransactionalLog
from zkbroker.coordinator.groups.offsets import OffsetsStore, StoreSettings
from zkbroker.errors import MessageSizeTooLarge, RequestTimedOut, StorageError
from zkbroker.log import TopicPartition
from zkbroker.protocol.offsets_topic import (
    GroupKey,
    GroupMemberValue,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_key,
    decode_offset,
    encode_key,
    encode_offset,
)
from zkbroker.records import Codec, iter_entries, iter_records

GROUP = GroupValue("consumer", 3, "range", "m", 5, [GroupMemberValue("m", None, "c", "/h", 1, 2)])


def value(offset):
    return OffsetValue(offset=offset, metadata="", commit_timestamp_ms=1)


def state(store):
    return {
        group: (dict(store.offsets(group)), store.group(group))
        for group in sorted(store.group_ids())
    }


def reloaded(log, **settings):
    store = OffsetsStore(log, StoreSettings(**settings))
    store.load()
    return store


@pytest.fixture
def log():
    return MemoryLog()


@pytest.fixture
def store(log):
    return OffsetsStore(log)


def test_committed_offsets_survive_restart(log, store):
    store.commit("g", {("t", 0): value(5), ("t", 1): value(6)}, 1)
    store.commit("g", {("t", 0): value(7)}, 2)
    store.store_group("g", GROUP, 3)
    assert store.offsets("g") == {("t", 0): value(7), ("t", 1): value(6)}
    assert state(reloaded(log)) == state(store)
    assert reloaded(log).group("g") == GROUP


def test_transactional_offsets_take_effect_at_commit(tmp_path):
    topic = TopicPartition("__consumer_offsets", 0)
    log = TransactionalLog(tmp_path, topic)
    for group, producer in (("plain", None), ("aborted", 1), ("committed", 2), ("open", 3)):
        for partition in range(2):
            log.send(
                producer,
                key=encode_key(OffsetKey(group, "t", partition)),
                value=encode_offset(value(5)),
            )
    log.abort(1)
    log.commit(2)
    log.send(1, key=encode_key(OffsetKey("later", "t", 0)), value=encode_offset(value(6)))
    log.commit(1)
    log.store()
    with started(tmp_path) as manager:
        for load_bytes in (1, 300, 1 << 20):
            store = reloaded(UnreplicatedLog(manager.get(topic)), load_bytes=load_bytes)
            assert store.group_ids() == {"plain", "committed", "later"}
            assert store.offsets("committed") == {("t", 0): value(5), ("t", 1): value(5)}


PRODUCER = 7
KEY = ("t", 0)


def pending(store, offset, *, producer=PRODUCER, group="g", key=KEY):
    asked = store.begin_verification(producer, 0)
    store.commit_pending(group, (producer, 0), {key: value(offset)}, 1, asked)


@pytest.fixture
def topic_log(tmp_path):
    with started(tmp_path) as manager:
        yield UnreplicatedLog(manager.get_or_create(TopicPartition("__consumer_offsets", 0)))


def mark(log, stores, *, producer=PRODUCER, commit=True):
    """Write a marker to the log, and apply it to the stores."""
    offset = log.end_transaction(
        producer, 0, commit=commit, coordinator_epoch=0, leader_epoch=0
    ).base_offset
    for store in stores:
        store.end_transaction(producer, offset, commit=commit)


def same_after_loading(log, store):
    for load_bytes in (1, 200, 1 << 20):
        assert state(reloaded(log, load_bytes=load_bytes)) == state(store)


def test_offsets_of_open_transaction_are_hidden_until_commit(topic_log):
    store = OffsetsStore(topic_log)
    store.commit("g", {KEY: value(1)}, 1)
    pending(store, 5)
    # A second commit in the same transaction replaces the first.
    pending(store, 6)
    assert store.offsets("g") == {KEY: value(1)}
    assert store.has_pending("g")
    assert not store.has_pending("other")
    again = reloaded(topic_log)
    assert again.pending_group_ids() == {"g"}
    mark(topic_log, [store, again])
    assert store.offsets("g") == again.offsets("g") == {KEY: value(6)}
    assert not store.has_pending("g")
    same_after_loading(topic_log, store)


def test_offsets_of_aborted_transaction_are_dropped(topic_log):
    store = OffsetsStore(topic_log)
    pending(store, 5)
    mark(topic_log, [store], commit=False)
    assert state(store) == {}
    same_after_loading(topic_log, store)


def test_later_commit_wins(topic_log):
    store = OffsetsStore(topic_log)
    pending(store, 5)
    store.commit("g", {KEY: value(9)}, 1)
    mark(topic_log, [store])
    assert store.offsets("g") == {KEY: value(9)}
    pending(store, 10, producer=1)
    pending(store, 20, producer=2)
    mark(topic_log, [store], producer=2)
    mark(topic_log, [store], producer=1)
    assert store.offsets("g") == {KEY: value(20)}
    pending(store, 30)
    store.remove("g", [KEY], 1)
    mark(topic_log, [store])
    assert state(store) == {}
    same_after_loading(topic_log, store)


def test_marker_ends_only_earlier_offsets(topic_log):
    store = OffsetsStore(topic_log)
    pending(store, 5)
    offset = topic_log.end_transaction(
        PRODUCER, 0, commit=True, coordinator_epoch=0, leader_epoch=0
    ).base_offset
    pending(store, 6, key=("t", 1))
    store.end_transaction(PRODUCER, offset, commit=True)
    assert store.offsets("g") == {KEY: value(5)}
    assert store.has_pending("g")
    same_after_loading(topic_log, store)


def test_removed_offsets_stay_removed_after_load(log, store):
    store.commit("g", {("t", 0): value(5), ("t", 1): value(6)}, 1)
    store.store_group("g", GROUP, 1)
    store.remove("g", [("t", 0)], 2)
    assert state(reloaded(log)) == {"g": ({("t", 1): value(6)}, GROUP)}
    store.remove("g", [("t", 1)], 3, metadata=True)
    assert state(reloaded(log)) == state(store) == {}


def test_log_has_genuine_keys_and_values(log, store):
    store.commit("g", {("t", 0): value(5)}, 77)
    store.store_group("g", GROUP, 78)
    store.remove("g", [("t", 0)], 79)
    records = list(iter_records(log.read_bytes(0, 10_000)))
    assert [decode_key(r.key) for r in records] == [
        OffsetKey("g", "t", 0),
        GroupKey("g"),
        OffsetKey("g", "t", 0),
    ]
    assert decode_offset(records[0].value).offset == 5
    assert records[2].value is None
    assert [r.timestamp for r in records] == [77, 78, 79]


def test_load_skips_unknown_and_malformed_records(log, store):
    store.commit("g", {("t", 0): value(5)}, 1)
    from zkbroker.records import encode_message_set

    malformed = [
        (b"\0\7later", b"x", 1, ()),
        (b"\0\1broken", b"x", 1, ()),
        (None, b"x", 1, ()),
    ]
    log.append(bytearray(encode_message_set(malformed, magic=2)))
    store.commit("g", {("t", 1): value(6)}, 1)
    assert state(reloaded(log)) == {"g": ({("t", 0): value(5), ("t", 1): value(6)}, None)}


def test_unreadable_log_raises(log, store):
    store.commit("g", {("t", 0): value(5)}, 1)
    store.commit("g", {("t", 0): value(6)}, 1)
    base, last, entry = log.segments[0][1]
    log.segments[0][1] = (base, last, entry[:-1] + bytes([entry[-1] ^ 1]))
    with pytest.raises(StorageError, match="unreadable at offset 1"):
        reloaded(log)


def test_repeated_load_keeps_nothing_of_a_failed_one(log, store):
    store.commit("compacted", {("t", 0): value(5)}, 1)
    store.commit("g", {("t", 0): value(6)}, 1)
    again = OffsetsStore(log, StoreSettings(load_bytes=1))

    def fail():
        raise StorageError("no free file descriptor")

    with pytest.raises(StorageError, match="descriptor"):
        again.load(fail)
    assert again.group_ids() == {"compacted"}
    del log.segments[0][0]
    again.load()
    assert again.group_ids() == {"g"}


def test_failed_append_changes_no_offset(log, store):
    store.commit("g", {("t", 0): value(5)}, 1)
    log.fail_with = MessageSizeTooLarge()
    with pytest.raises(MessageSizeTooLarge):
        store.commit("g", {("t", 0): value(6)}, 1)
    assert store.offsets("g") == {("t", 0): value(5)}


def test_acknowledged_commit_survives_power_cut_with_flush_per_append():
    log = MemoryLog()
    log.flush_every_append = True
    store = OffsetsStore(log)
    store.wait_durable(store.commit("g", {("t", 0): value(5)}, 1))
    log.cut()
    assert reloaded(log).offsets("g") == {("t", 0): value(5)}


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("commit"), st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 2**40)
        ),
        st.tuples(st.just("remove"), st.sampled_from("ab"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("group"), st.sampled_from("ab"), st.integers(1, 9), st.just(0)),
    ),
    max_size=30,
)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(OPERATIONS, st.integers(50, 400))
def test_cache_equals_state_read_from_log(operations, load_bytes):
    log = MemoryLog()
    store = OffsetsStore(log)
    for what, group, number, extra in operations:
        if what == "commit":
            store.commit(group, {("t", number): value(extra)}, 1)
        elif what == "remove":
            store.remove(group, [("t", number)], 1, metadata=bool(extra))
        else:
            store.store_group(group, GroupValue("consumer", number), 1)
    again = reloaded(log, load_bytes=load_bytes)
    assert state(again) == state(store)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_records_use_configured_codec(codec):
    log = MemoryLog()
    store = OffsetsStore(log, StoreSettings(codec=codec))
    store.commit("g", {("t", n): value(n) for n in range(20)}, 1)
    assert {entry.codec for entry in iter_entries(log.read_bytes(0, 10_000))} == {codec}
    assert state(reloaded(log)) == state(store)


def test_wait_for_durability_is_bounded():
    class Slow(MemoryLog):
        asked = ()

        def wait_durable(self, last_offset, timeout_s=None, park=None):
            self.asked += (timeout_s,)
            raise RequestTimedOut("not on disk")

    log = Slow()
    store = OffsetsStore(log, StoreSettings(wait_s=0.25))
    with pytest.raises(RequestTimedOut):
        store.wait_durable(store.commit("g", {("t", 0): value(1)}, 1))
    with pytest.raises(RequestTimedOut):
        store.wait_durable(store.remove("g", [("t", 0)], 1))
    assert log.asked == (0.25, 0.25)
