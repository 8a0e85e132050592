"""Views of 0.7 that follow the partitions of a broker."""

from types import SimpleNamespace

import pytest

from tests.support.instant_session import InstantSession
from tests.support.legacy07 import open_logs
from tests.support.view_story import Inline
from zkbroker.broker.legacy07.views import Views07
from zkbroker.config.legacy07 import Legacy07Config
from zkbroker.errors import StorageError
from zkbroker.log.legacy07.directory import Claim


class ClosedPartition:
    """A partition whose log cannot be used at the moment."""

    has_log = True

    def __init__(self):
        self.watching = []
        self.waiters = SimpleNamespace(
            watch_high_watermark=self.watching.append, unwatch=self.watching.remove
        )

    @property
    def log(self):
        raise StorageError("closed")


@pytest.fixture
def made(tmp_path):
    """Twenty views, and their partitions."""
    logs = open_logs(tmp_path)
    logs.make_views("t", [Claim(number, number, 0) for number in range(20)])
    partitions = {number: ClosedPartition() for number in range(20)}
    services = SimpleNamespace(
        runtime=Inline(),
        session=InstantSession(),
        dialing=None,
        view=None,
        replicas=SimpleNamespace(get=lambda topic, number: partitions[number]),
    )
    config = Legacy07Config(log_dir=str(tmp_path))
    yield SimpleNamespace(
        logs=logs,
        partitions=partitions,
        runtime=services.runtime,
        views=Views07(config, services, logs, 7),
    )
    logs.close()


def test_view_deleted_while_others_are_attached_is_not_followed(made):
    made.runtime.sleep = lambda seconds: made.logs.delete_view("t", 18)
    made.views._attach()
    assert set(made.views._partitions) == set(made.logs.views().values())
    assert [number for number, each in made.partitions.items() if not each.watching] == [18]


def test_views_attached_again_before_their_deletion_are_let_go(made, monkeypatch):
    made.views._attach()
    delete = made.logs.delete_view

    def delete_late(topic, index):
        made.views._attach()
        delete(topic, index)

    monkeypatch.setattr(made.logs, "delete_view", delete_late)
    made.views._delete("t")
    assert not made.logs.views()
    assert not made.views._partitions
    assert not any(each.watching for each in made.partitions.values())
