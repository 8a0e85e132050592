"""Which views a broker makes, when, and which it misses."""

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


class Cluster:
    """A broker 0 whose view, replicas and registry are what a test says."""

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
def cluster(tmp_path):
    found = Cluster(tmp_path)
    yield found
    found.logs.close()


def test_views_of_a_topic_are_created_together(cluster, monkeypatch):
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    now = 100.0
    cluster.assignments["t"] = {0: [0], 1: [1, 0], 2: [0], 3: [0]}
    assert not cluster.claims.awaiting
    for led in ((), (0,), (2,)):
        cluster.lead(*led)
        assert cluster.claim() == []
        assert cluster.claims.awaiting
    cluster.lead(3)
    assert cluster.claim() == ["t"]
    assert not cluster.claims.awaiting
    assert cluster.made == [3]
    assert cluster.claim() == []
    assert {v.partition: n for (_, n), v in cluster.logs.views().items()} == {0: 0, 2: 1, 3: 2}
    assert registry.shown(cluster.session, "t") == {0: Shown(7, 0), 2: Shown(7, 1), 3: Shown(7, 2)}
    # One that the controller never tells of keeps the others waiting for some time only.
    cluster.assignments["t"] |= {4: [0], 5: [0]}
    cluster.lead(5)
    assert cluster.claim() == []
    now += 9
    assert cluster.claim() == []
    now += 2
    assert cluster.claim() == ["t"]
    assert cluster.made == [3, 4]


def test_unfinished_claim_is_completed_later(cluster):
    cluster.assignments["t"] = {0: [0]}
    registry.claim(cluster.session, "t", 0, Shown(7, 0, making=True))
    cluster.claims.check()
    cluster.lead(0)
    assert cluster.claim() == ["t"]
    assert cluster.logs.views()["t", 0].next_offset == 10
    # Its files were made, and that was not noted.
    cluster.session.set("/legacy07/views/t/0", b"7-0 making")
    cluster.restart()
    assert cluster.claim() == ["t"]
    assert cluster.session.get("/legacy07/views/t/0")[0] == b"7-0"


def test_missing_view_with_known_positions_is_not_recreated(cluster):
    cluster.assignments["t"] = {0: [0], 1: [0]}
    registry.claim(cluster.session, "t", 0, Shown(7, 0))
    registry.claim(cluster.session, "t", 1, Shown(8, 0))
    registry.claim(cluster.session, "deleted", 0, Shown(7, 0))
    with pytest.raises(StorageError, match=r"t-0, is not there\. Bring it back"):
        cluster.claims.check()
    cluster.lead(0, 1)
    with pytest.raises(StorageError, match="t-0, is not there"):
        cluster.claim()
    # A folder without a file gets an empty one at the start, which says nothing.
    cluster.logs.get_or_make("t", 0)
    with pytest.raises(StorageError, match="t-0, is not there"):
        cluster.claims.check()
    cluster.logs.get("t", 0).append(build_message(b"x"), 1)
    with pytest.raises(StorageError, match="t-0, has no maps"):
        cluster.claims.check()
    cluster.logs.close()
    (cluster.directory / "t-0" / f"{0:020d}.kafka").rename(
        cluster.directory / "t-0" / f"{500:020d}.kafka"
    )
    (cluster.directory / "t-0" / f"{500:020d}.kafka").write_bytes(b"")
    cluster.start()
    cluster.claims.check()
    assert cluster.claim() == ["t"]
    view = cluster.logs.views()["t", 0]
    assert (view.start, view.end, view.next_offset) == (500, 500, 10)
    cluster.restart()
    cluster.claims.check()
    assert cluster.logs.views()["t", 0].start == 500


def test_topic_with_its_own_0_7_logs_gets_no_views(cluster):
    cluster.logs.get_or_make("t", 0).append(build_message(b"x"), 1)
    cluster.assignments["t"] = {0: [0]}
    cluster.lead(0)
    assert cluster.claim() == []
    assert cluster.logs.views() == {}


def test_partitions_added_by_another_broker_are_kept(cluster):
    topics.create_topic(cluster.session, "t", {0: [1]})
    services = cluster.claims._services
    cluster.assignments["t"] = {0: [1]}  # what the view shows, which may be behind
    seen = []

    def add_partitions(topic, total, assignments):
        known = len(cluster.assignments[topic])
        topics.add_partitions(cluster.session, topic, {known: assignments[0]})
        cluster.assignments[topic] = dict(enumerate([[1], [2], [0]]))
        cluster.lead(2)

    def wait_for(condition, _timeout_s):
        if not condition():
            seen.append(len(cluster.assignments["t"]))
            cluster.assignments["t"] = {0: [1], 1: [2]}
        return condition()

    services.topics = SimpleNamespace(add_partitions=add_partitions)
    services.view.wait_for = wait_for
    services.view.exists = lambda topic: True
    services.view.brokers = (0, 1, 2)
    services.config = SimpleNamespace(default_replication_factor=1)
    topics.add_partitions(cluster.session, "t", {1: [2]})
    cluster.claims.make_for("t")
    assert seen == [1], "the view was waited for, once"
    assert topics.assignment(cluster.session, "t") == {0: (1,), 1: (2,), 2: (0,)}
    assert registry.shown(cluster.session, "t") == {2: Shown(7, 0)}
