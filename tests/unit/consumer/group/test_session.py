"""A group consumer as a member: assignment, commits and release of partitions."""

from typing import Any

import pytest

from tests.support.played_cluster import PlayedCluster
from zkbroker.client.group_offsets import Committed
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer import CommitFailed, RebalanceListener
from zkbroker.consumer.group import session as module
from zkbroker.consumer.group.joining import Share
from zkbroker.consumer.group.session import GroupSession
from zkbroker.errors import ClientError, ProtocolError
from zkbroker.runtime import get_runtime

T0, T1 = ("t", 0), ("t", 1)


class Held:
    def __init__(self) -> None:
        self.partitions: dict[Any, Any] = {}
        self.marked = False

    def add(self, keys: Any, committed: Any) -> list[Any]:
        self.partitions = {key: committed.get(key) for key in keys}
        return list(keys)

    def discard(self) -> None:
        self.partitions = {}

    def keep_only(self, keys: Any) -> None:
        self.partitions = {key: self.partitions[key] for key in self.partitions if key in keys}

    def mark_processed(self) -> None:
        self.marked = True

    def processed(self) -> dict[Any, int]:
        return dict.fromkeys(self.partitions, 7)

    positions = processed


class Offsets:
    busy = False

    def __init__(self) -> None:
        self.commits: list[Any] = []
        self.error: Exception | None = None

    def fetch(self, keys: Any) -> dict[Any, Any]:
        return {key: Committed(5) for key in keys}

    def commit(self, offsets: Any, share: Any, timeout_s: float) -> None:
        if self.error is not None:
            raise self.error
        self.commits.append((offsets, share))

    def commit_async(self, offsets: Any, share: Any, on_commit: Any) -> None:
        self.commits.append((offsets, share))

    def report(self) -> None:
        pass


class Member:
    lost = ending = False

    def __init__(self) -> None:
        self.shares: list[Share] = []
        self.error: Exception | None = None
        self.calls: list[str] = []

    def polled(self) -> None:
        self.calls.append("polled")

    def take_error(self) -> Exception | None:
        return self.error

    def take(self) -> Share | None:
        return self.shares.pop() if self.shares else None

    def request_rejoin(self) -> None:
        self.calls.append("rejoin")

    def released(self) -> None:
        self.ending = False
        self.calls.append("released")


class Listener(RebalanceListener):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_partitions_assigned(self, partitions: Any) -> None:
        self.calls.append(("assigned", list(partitions)))

    def on_partitions_revoked(self, partitions: Any) -> None:
        self.calls.append(("revoked", list(partitions)))

    def on_partitions_lost(self, partitions: Any) -> None:
        self.calls.append(("lost", list(partitions)))


class Fetchers:
    def start(self, opened: Any) -> None:
        pass


class SessionSetup:
    """A session whose collaborators are fakes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.offsets, self.held, self.listener, self.member = (
            Offsets(),
            Held(),
            Listener(),
            Member(),
        )
        monkeypatch.setattr(module, "MemberOffsets", lambda *_: self.offsets)
        config = GroupConsumerConfig(
            bootstrap_servers=("b:1",),
            **{"group_id": "g", "auto_commit_interval_ms": 1, **settings},
        )
        parts: Any = {"held": self.held, "fetchers": Fetchers()}
        self.cluster = PlayedCluster()
        cluster: Any = self.cluster
        self.session = GroupSession(
            config, cluster, [], runtime=get_runtime("threads"), notify=lambda: None, **parts
        )
        self.session.listener = self.listener
        self.session.membership = self.member  # type: ignore[assignment]

    def hold(self, *keys: Any, shared_out: Any = None) -> Share:
        share = Share(3, "me", keys, shared_out)
        self.member.shares.append(share)
        self.session.serve()
        return share


def test_assigned_partitions_start_at_committed_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = SessionSetup(monkeypatch, enable_auto_commit=False)
    share = setup.hold(T0, T1)
    assert setup.session.share is share
    assert setup.held.partitions == {T0: Committed(5), T1: Committed(5)}
    assert setup.listener.calls == [("assigned", [T0, T1])]
    assert setup.session.rebalances == 1


@pytest.mark.parametrize("offset", [-1, -1001, "5", Committed(-5)])
def test_invalid_offset_is_not_committed(monkeypatch: pytest.MonkeyPatch, offset: Any) -> None:
    setup = SessionSetup(monkeypatch, enable_auto_commit=False)
    setup.hold(T0)
    with pytest.raises(ClientError, match="no offset"):
        setup.session.commit({T0: offset}, 1.0)
    with pytest.raises(ClientError, match="no offset"):
        setup.session.commit_async({T0: offset}, None)
    assert setup.offsets.commits == []


def test_changed_partitions_that_could_not_be_read_are_read_again_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = SessionSetup(monkeypatch, enable_auto_commit=False)
    setup.cluster.leaders["t"] = (0,)
    setup.hold(T0, shared_out={"t": 1})
    setup.cluster.leaders["t"] = (0, 1)
    setup.cluster.watchers[0]()

    def refuse(topic: str) -> Any:
        raise ProtocolError("no broker answers")

    with monkeypatch.context() as patch:
        patch.setattr(setup.cluster, "partitions", refuse)
        setup.session.serve()
    assert setup.session.seconds_to_next_task() < 60
    monkeypatch.setattr(setup.session.topics, "due_at", 0.0)
    setup.session.serve()
    assert setup.member.calls.count("rejoin") == 1


def test_poll_within_a_listener_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = SessionSetup(monkeypatch, enable_auto_commit=False)
    refused: list[ClientError] = []

    def poll(partitions: Any) -> None:
        with pytest.raises(ClientError, match="must not poll") as error:
            setup.session.serve()
        refused.append(error.value)

    monkeypatch.setattr(setup.listener, "on_partitions_assigned", poll)
    setup.hold(T0)
    assert len(refused) == 1
    setup.session.serve()


@pytest.mark.parametrize("automatic", [True, False])
def test_ending_share_is_committed_then_released(
    monkeypatch: pytest.MonkeyPatch, automatic: bool
) -> None:
    setup = SessionSetup(monkeypatch, enable_auto_commit=automatic, auto_commit_interval_ms=10**9)
    share = setup.hold(T0)
    setup.member.ending = True
    setup.session.serve()
    assert setup.offsets.commits == ([({T0: Committed(7)}, share)] if automatic else [])
    assert setup.listener.calls[-1] == ("revoked", [T0])
    assert (setup.session.share, setup.held.partitions) == (None, {})
    assert setup.member.calls[-1] == "released"


def test_lost_share_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = SessionSetup(monkeypatch, auto_commit_interval_ms=10**9)
    setup.hold(T0)
    setup.member.ending = setup.member.lost = True
    setup.session.serve()
    assert setup.offsets.commits == []
    assert setup.listener.calls[-1] == ("lost", [T0])


@pytest.mark.parametrize("in_hand", [True, False])
def test_messages_in_hand_count_as_processed_at_the_end_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, in_hand: bool
) -> None:
    setup = SessionSetup(monkeypatch, auto_commit_interval_ms=10**9)
    share = setup.hold(T0)
    setup.session.give_up_all(in_hand=in_hand)
    assert setup.held.marked == in_hand
    assert setup.offsets.commits == [({T0: Committed(7)}, share)]


def test_failed_final_commit_still_releases_partitions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    setup = SessionSetup(monkeypatch, auto_commit_interval_ms=10**9)
    setup.hold(T0)
    setup.offsets.error = ProtocolError("no coordinator")
    setup.session.give_up_all()
    assert setup.held.partitions == {}
    assert "offsets not committed group=g error=no coordinator" in caplog.text


def test_share_without_offsets_ends_with_its_membership(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = SessionSetup(monkeypatch, enable_auto_commit=False)

    def refuse(keys: Any) -> Any:
        raise ProtocolError("the coordinator loads")

    with monkeypatch.context() as patch:
        patch.setattr(setup.offsets, "fetch", refuse)
        with pytest.raises(ProtocolError):
            setup.hold(T0)
    setup.session.give_up_all()  # as `unsubscribe` does
    setup.session.membership = Member()  # type: ignore[assignment]
    setup.session.serve()
    assert (setup.session.share, setup.held.partitions) == (None, {})
    assert setup.listener.calls == []


@pytest.mark.parametrize("automatic", [True, False])
def test_partition_that_an_assignment_gives_up_is_committed(
    monkeypatch: pytest.MonkeyPatch, automatic: bool
) -> None:
    setup = SessionSetup(monkeypatch, enable_auto_commit=automatic)
    setup.session.membership = None
    setup.held.add([T0, T1], {})
    setup.session.keep_only([T1])
    assert setup.held.partitions.keys() == {T1}
    assert setup.offsets.commits == ([({T0: Committed(7)}, None)] if automatic else [])


def test_unchanged_positions_are_committed_automatically_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = SessionSetup(monkeypatch)
    setup.hold(T0)
    for _ in range(2):
        setup.session._commit_due = 0.0
        setup.session.serve()
    assert [offsets for offsets, _ in setup.offsets.commits] == [{T0: Committed(7)}]


def test_commit_without_share_or_group_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = SessionSetup(monkeypatch)
    with pytest.raises(CommitFailed, match="holds nothing at the moment"):
        setup.session.commit({T0: 5}, 1.0)
    with pytest.raises(ClientError, match=r"needs a group\.id"):
        SessionSetup(monkeypatch, group_id="", enable_auto_commit=False).session.commit(None, 1.0)


def test_membership_error_raises_in_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = SessionSetup(monkeypatch)
    setup.member.error = ClientError("not allowed")
    with pytest.raises(ClientError, match="not allowed"):
        setup.session.serve()
