"""Views of 0.7 that a broker creates, and views that are missing."""

from types import SimpleNamespace

import pytest

from tests.support.instant_session import InstantSession
from tests.support.legacy07 import open_logs
from zkbroker.broker.legacy07 import claims as module
from zkbroker.broker.legacy07.claims import Claims07
from zkbroker.config.legacy07 import Legacy07Config
from zkbroker.errors import StorageError
from zkbroker.records.legacy07 import build_message
from zkbroker.registry import legacy07_views as registry
from zkbroker.registry import topics
from zkbroker.registry.legacy07_views import Shown


class ClaimingBroker:
    """Broker 0, with a view, replicas and a registry that a test sets."""

    def __init__(self, directory):
        self.directory = directory
        self.session = InstantSession()
        self.open = {}
        self.assignments = {}
        self.made = []
        self.start()

    def start(self):
        self.logs = open_logs(self.directory)
        topics = SimpleNamespace(assignments=self.assignments, deleting=frozenset())
        services = SimpleNamespace(
            session=self.session,
            broker_id=0,
            view=SimpleNamespace(topics=topics, assignment=self.assignments.get),
            replicas=SimpleNamespace(get=lambda topic, number: self.open.get((topic, number))),
        )
        config = Legacy07Config(log_dir=str(self.directory), topics="t")
        self.claims = Claims07(
            config, services, self.logs, 7, lambda: self.made.append(len(self.logs.views("t")))
        )

    def restart(self):
        self.logs.close()
        self.start()

    def lead(self, *numbers):
        for number in numbers:
            self.open["t", number] = SimpleNamespace(has_log=True, log_start_offset=10)

    def claim(self):
        due = self.claims.due()
        for topic in due:
            self.claims.claim_due(topic)
        return due


@pytest.fixture
def broker(tmp_path):
    found = ClaimingBroker(tmp_path)
    yield found
    found.logs.close()


def test_views_of_a_topic_are_created_together(broker, monkeypatch):
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    now = 100.0
    broker.assignments["t"] = {0: [0], 1: [1, 0], 2: [0], 3: [0]}
    assert not broker.claims.awaiting
    for led in ((), (0,), (2,)):
        broker.lead(*led)
        assert broker.claim() == []
        assert broker.claims.awaiting
    broker.lead(3)
    assert broker.claim() == ["t"]
    assert not broker.claims.awaiting
    assert broker.made == [3]
    assert broker.claim() == []
    assert {v.partition: n for (_, n), v in broker.logs.views().items()} == {0: 0, 2: 1, 3: 2}
    assert registry.shown(broker.session, "t") == {0: Shown(7, 0), 2: Shown(7, 1), 3: Shown(7, 2)}
    # A partition that is never led delays the others for a bounded time.
    broker.assignments["t"] |= {4: [0], 5: [0]}
    broker.lead(5)
    assert broker.claim() == []
    now += 9
    assert broker.claim() == []
    now += 2
    assert broker.claim() == ["t"]
    assert broker.made == [3, 4]


def test_unfinished_claim_is_completed_later(broker):
    broker.assignments["t"] = {0: [0]}
    registry.claim(broker.session, "t", 0, Shown(7, 0, making=True))
    broker.claims.check()
    broker.lead(0)
    assert broker.claim() == ["t"]
    assert broker.logs.views()["t", 0].next_offset == 10
    # Its files were created, but the claim was not completed.
    broker.session.set("/legacy07/views/t/0", b"7-0 making")
    broker.restart()
    assert broker.claim() == ["t"]
    assert broker.session.get("/legacy07/views/t/0")[0] == b"7-0"


def test_missing_view_with_known_positions_is_not_recreated(broker):
    broker.assignments["t"] = {0: [0], 1: [0]}
    registry.claim(broker.session, "t", 0, Shown(7, 0))
    registry.claim(broker.session, "t", 1, Shown(8, 0))
    registry.claim(broker.session, "deleted", 0, Shown(7, 0))
    with pytest.raises(StorageError, match=r"t-0, is not there\. Bring it back"):
        broker.claims.check()
    broker.lead(0, 1)
    with pytest.raises(StorageError, match="t-0, is not there"):
        broker.claim()
    # A folder without a file gets an empty one at the start, which is no view.
    broker.logs.get_or_make("t", 0)
    with pytest.raises(StorageError, match="t-0, is not there"):
        broker.claims.check()
    broker.logs.get("t", 0).append(build_message(b"x"), 1)
    with pytest.raises(StorageError, match="t-0, has no maps"):
        broker.claims.check()
    broker.logs.close()
    (broker.directory / "t-0" / f"{0:020d}.kafka").rename(
        broker.directory / "t-0" / f"{500:020d}.kafka"
    )
    (broker.directory / "t-0" / f"{500:020d}.kafka").write_bytes(b"")
    broker.start()
    broker.claims.check()
    assert broker.claim() == ["t"]
    view = broker.logs.views()["t", 0]
    assert (view.start, view.end, view.next_offset) == (500, 500, 10)
    broker.restart()
    broker.claims.check()
    assert broker.logs.views()["t", 0].start == 500


def test_topic_with_its_own_0_7_logs_gets_no_views(broker):
    broker.logs.get_or_make("t", 0).append(build_message(b"x"), 1)
    broker.assignments["t"] = {0: [0]}
    broker.lead(0)
    assert broker.claim() == []
    assert broker.logs.views() == {}


def test_partitions_added_by_another_broker_are_kept(broker):
    topics.create_topic(broker.session, "t", {0: [1]})
    services = broker.claims._services
    broker.assignments["t"] = {0: [1]}  # in the view, which may be behind
    seen = []

    def add_partitions(topic, total, assignments):
        known = len(broker.assignments[topic])
        topics.add_partitions(broker.session, topic, {known: assignments[0]})
        broker.assignments[topic] = dict(enumerate([[1], [2], [0]]))
        broker.lead(2)

    def wait_for(condition, _timeout_s):
        if not condition():
            seen.append(len(broker.assignments["t"]))
            broker.assignments["t"] = {0: [1], 1: [2]}
        return condition()

    services.topics = SimpleNamespace(add_partitions=add_partitions)
    services.view.wait_for = wait_for
    services.view.exists = lambda topic: True
    services.view.brokers = (0, 1, 2)
    services.config = SimpleNamespace(default_replication_factor=1)
    topics.add_partitions(broker.session, "t", {1: [2]})
    broker.claims.make_for("t")
    assert seen == [1], "one wait for the view"
    assert topics.assignment(broker.session, "t") == {0: (1,), 1: (2,), 2: (0,)}
    assert registry.shown(broker.session, "t") == {2: Shown(7, 0)}
