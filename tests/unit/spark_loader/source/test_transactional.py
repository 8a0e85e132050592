"""A task commits its rows once per epoch, also after failures."""

import contextlib
import json

import pytest

from spark_loader.source import transactional
from spark_loader.source.transactional import Digest, EpochNote, EpochWriter, TaskEpoch
from zkbroker.errors import ClientError
from zkbroker.producer import KeyedMessage

PROPERTIES = {"metadata.broker.list": "b:1"}


class FakeTopic:
    """Committed messages, and committed offsets with their metadata."""

    def __init__(self):
        self.messages = []
        self.offsets = {}
        self.ids = []
        self.fail_at_commit = False
        self.hidden = 0

    @contextlib.contextmanager
    def producer(self, config):
        self.ids.append(config.transactional_id)
        yield FakeProducer(self)

    @contextlib.contextmanager
    def notes(self, config):
        yield FakeNotes(self, config.transactional_id)


class FakeProducer:
    def __init__(self, topic):
        self._topic = topic
        self.ready = False

    def init_transactions(self):
        self.ready = True

    @contextlib.contextmanager
    def transaction(self):
        assert self.ready
        self._sent, self._offsets = [], {}
        yield
        if self._topic.fail_at_commit:
            raise ClientError("fenced")
        self._topic.messages += self._sent
        self._topic.offsets.update(self._offsets)

    def send(self, messages):
        self._sent += messages

    def send_offsets(self, offsets, group):
        self._offsets.update({(group, key): each for key, each in offsets.items()})


class FakeNotes:
    def __init__(self, topic, group):
        self._topic = topic
        self._group = group

    def last(self, query):
        if self._topic.hidden:
            self._topic.hidden -= 1
            return None
        found = [
            EpochNote.parse(each.metadata, group)
            for (group, _), each in self._topic.offsets.items()
            if group == self._group
        ]
        return max((n for n in found if n.query == query), key=lambda n: n.epoch, default=None)


@pytest.fixture
def topic(monkeypatch):
    topic = FakeTopic()
    monkeypatch.setattr(transactional, "Producer", topic.producer)
    monkeypatch.setattr(transactional, "EpochNotes", topic.notes)
    return topic


def messages(*values, to="out"):
    return [KeyedMessage(to, value=value) for value in values]


def write(epoch, *chunks, partition=2, query="q"):
    writer = EpochWriter(TaskEpoch(query, epoch, partition), PROPERTIES, "copy")
    return writer.write(iter(list(chunks)))


def sent(topic):
    return [each.value for each in topic.messages]


def test_rows_and_note_commit_together(topic):
    assert write(4, messages(b"a"), messages(b"b", b"c")) == 3
    assert (sent(topic), topic.ids) == ([b"a", b"b", b"c"], ["copy-2"])
    [((group, key), committed)] = topic.offsets.items()
    assert (group, key, committed.offset) == ("copy-2", ("out", 0), 5)
    found = EpochNote.parse(committed.metadata, group)
    assert (found.query, found.epoch, found.rows) == ("q", 4, 3)


def test_repeated_epoch_sends_nothing(topic):
    write(4, messages(b"a", b"b"))
    assert write(4, messages(b"b"), messages(b"a")) == 2
    assert sent(topic) == [b"a", b"b"]
    assert write(5, messages(b"c")) == 1
    assert sent(topic) == [b"a", b"b", b"c"]


def test_failed_epoch_is_written_by_next_attempt(topic):
    topic.fail_at_commit = True
    with pytest.raises(ClientError, match="fenced"):
        write(0, messages(b"a"))
    topic.fail_at_commit = False
    assert write(0, messages(b"a")) == 1
    assert sent(topic) == [b"a"]


@pytest.mark.parametrize("rows", [(b"a",), (b"a", b"x"), (b"a", b"b", b"c")])
def test_repeated_epoch_with_different_rows_is_refused(topic, rows):
    write(4, messages(b"a", b"b"))
    with pytest.raises(ClientError, match="committed with 2 other rows"):
        write(4, messages(*rows))
    assert sent(topic) == [b"a", b"b"]


def test_older_epoch_is_refused(topic):
    write(7, messages(b"a"))
    with pytest.raises(ClientError, match="epoch 7 is committed under copy"):
        write(6, messages(b"a"))


def test_new_query_ignores_notes_of_earlier_query(topic):
    write(7, messages(b"a"))
    assert write(0, messages(b"b"), query="other") == 1
    assert sent(topic) == [b"a", b"b"]


def test_late_note_is_seen_before_commit(topic):
    write(4, messages(b"a"))
    topic.hidden = 1
    with pytest.raises(ClientError, match="committed meanwhile"):
        write(4, messages(b"a"))
    assert sent(topic) == [b"a"]


def test_task_without_rows_sends_no_request(topic):
    assert write(4) == 0
    assert topic.ids == []


def test_foreign_group_metadata_is_refused():
    for metadata in ("", "mine", "[]", json.dumps({"query": "q"})):
        with pytest.raises(ClientError, match="the group copy-2 has offsets"):
            EpochNote.parse(metadata, "copy-2")
    note = EpochNote("q", 4, 3, "00ff")
    assert EpochNote.parse(note.committed().metadata, "g") == note


def test_digest_depends_on_rows_but_not_on_order():
    def digest(*rows):
        found = Digest()
        for row in rows:
            found.add([row])
        return str(found)

    one = KeyedMessage("t", key=b"k", value=b"v", headers=(("h", b"1"),))
    others = [
        KeyedMessage("u", key=b"k", value=b"v", headers=(("h", b"1"),)),
        KeyedMessage("t", key=None, value=b"kv", headers=(("h", b"1"),)),
        KeyedMessage("t", key=b"k", value=None, headers=(("h", b"1"),)),
        KeyedMessage("t", key=b"kv", value=b"", headers=(("h", b"1"),)),
        KeyedMessage("t", key=b"k", value=b"v", headers=(("h", None),)),
        KeyedMessage("t", key=b"k", value=b"v", partition=1, headers=(("h", b"1"),)),
    ]
    assert len({digest(each) for each in [one, *others]}) == 7
    assert digest(one, others[0]) == digest(others[0], one) != digest(one, one)


def test_task_outside_streaming_query_is_refused(monkeypatch):
    properties = {}

    class Context:
        def getLocalProperty(self, name):
            return properties.get(name)

        def partitionId(self):
            return 3

    with pytest.raises(ClientError, match="writeStream"):
        TaskEpoch.of_task()
    monkeypatch.setattr(transactional.TaskContext, "get", classmethod(lambda cls: Context()))
    with pytest.raises(ClientError, match="writeStream"):
        TaskEpoch.of_task()
    properties.update({"streaming.sql.batchId": "12", "sql.streaming.queryId": "q"})
    assert TaskEpoch.of_task() == TaskEpoch("q", 12, 3)
