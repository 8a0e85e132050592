import threading

import pytest

from tests.support.zookeeper import expire, until
from zkbroker.registry import group_offsets, groups, paths
from zkbroker.registry.groups import StreamSubscription
from zkbroker.zookeeper import BadVersion, ClaimBlocked, SessionLost, ZkSession


def test_members_and_subscriptions_are_read_and_watched(zk: ZkSession, chroot: str) -> None:
    assert groups.members(zk, "g") == []
    assert groups.list_groups(zk) == []
    changed = zk.runtime.event()
    assert groups.subscriptions(zk, "g", changed) == {}
    with ZkSession(chroot) as other:
        groups.register_consumer(other, "g", "c1", StreamSubscription({"t": 2}))
        assert changed.wait(60)
        groups.register_consumer(other, "g", "c1", StreamSubscription({"t": 3}))
        # As kafka-node does: created empty, filled after.
        other.create(paths.consumer("g", "c2"), b"", ephemeral=True)
        late = zk.runtime.event()
        assert groups.subscriptions(zk, "g", late) == {
            "c1": StreamSubscription({"t": 3}),
            "c2": None,
        }
        other.set(paths.consumer("g", "c2"), StreamSubscription({"a.*": 1}, "white_list").to_json())
        assert late.wait(60)
        assert groups.subscriptions(zk, "g")["c2"] == StreamSubscription({"a.*": 1}, "white_list")
        groups.unregister_consumer(other, "g", "c1")
        assert groups.members(zk, "g") == ["c2"]
    assert groups.members(zk, "g") == []
    assert groups.subscriptions(zk, "g") == {}
    assert groups.list_groups(zk) == ["g"]


def test_claim_is_atomic_and_names_blocking_owner(zk: ZkSession, chroot: str) -> None:
    groups.register_consumer(zk, "g", "me", StreamSubscription({"t": 1}))
    with ZkSession(chroot) as other:
        groups.register_consumer(other, "g", "it", StreamSubscription({"t": 1}))
        groups.claim(other, "g", "it", {("t", 2): "it-0"})
        with pytest.raises(ClaimBlocked) as blocked:
            groups.claim(zk, "g", "me", {("t", n): "me-0" for n in range(4)})
        assert (blocked.value.path, blocked.value.owner) == (paths.owner("g", "t", 2), "it-0")
        assert groups.owners(zk, "g", "t") == {2: "it-0"}
        groups.release(zk, "g", "me", [("t", 2)])
        assert groups.owner(zk, "g", "t", 2) == "it-0", "another's is never released"
        groups.release(other, "g", "it", [("t", 2)])
    groups.claim(zk, "g", "me", {("t", n): "me-0" for n in range(4)})
    groups.claim(zk, "g", "me", {("t", n): "me-1" for n in range(4)})
    assert groups.owners(zk, "g", "t") == dict.fromkeys(range(4), "me-1")
    groups.claim(zk, "g", "me", {})
    assert groups.owned_topics(zk, "g") == ["t"]


def test_claim_needs_registration(zk: ZkSession) -> None:
    with pytest.raises(SessionLost, match="register again"):
        groups.claim(zk, "g", "me", {("t", 0): "me-0"})
    groups.register_consumer(zk, "g", "me", StreamSubscription({"t": 1}))
    groups.claim(zk, "g", "me", {("t", 0): "me-0"})
    expire(zk)
    until(lambda: zk.generation == 1 and zk.wait_connected(10))
    with pytest.raises(SessionLost):
        groups.claim(zk, "g", "me", {("t", 0): "me-0"})
    groups.register_consumer(zk, "g", "me", StreamSubscription({"t": 1}))
    groups.claim(zk, "g", "me", {("t", 0): "me-0"})


def test_large_claim_is_atomic(zk: ZkSession, chroot: str) -> None:
    groups.register_consumer(zk, "g", "me", StreamSubscription({"t": 1}))
    wanted = {("t", n): "me-0" for n in range(2500)}
    with ZkSession(chroot) as other:
        groups.register_consumer(other, "g", "it", StreamSubscription({"t": 1}))
        groups.claim(other, "g", "it", {("t", 2400): "it-0"})
        with pytest.raises(ClaimBlocked):
            groups.claim(zk, "g", "me", wanted)
        assert groups.owners(zk, "g", "t") == {2400: "it-0"}
    groups.claim(zk, "g", "me", wanted)
    assert len(groups.owners(zk, "g", "t")) == 2500


def test_one_of_two_concurrent_claims_wins(zk: ZkSession, chroot: str) -> None:
    wanted = [("t", n) for n in range(20)]
    with ZkSession(chroot) as other:
        outcomes: dict[str, bool] = {}

        def claim(session: ZkSession, name: str) -> None:
            groups.register_consumer(session, "g", name, StreamSubscription({"t": 1}))
            try:
                groups.claim(session, "g", name, dict.fromkeys(wanted, f"{name}-0"))
                outcomes[name] = True
            except ClaimBlocked:
                outcomes[name] = False

        tasks = [threading.Thread(target=claim, args=a) for a in ((zk, "a"), (other, "b"))]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
        assert sorted(outcomes.values()) == [False, True]
        assert len(set(groups.owners(zk, "g", "t").values())) == 1


def test_offsets_are_committed_and_read(zk: ZkSession) -> None:
    assert group_offsets.read_offset(zk, "g", "t", 0) is None
    assert group_offsets.commit_offset(zk, "g", "t", 0, 42) == 0
    assert group_offsets.commit_offset(zk, "g", "t", 0, 43) == 1
    assert group_offsets.read_offset(zk, "g", "t", 0) == (43, 1)
    assert zk.get(paths.offset("g", "t", 0))[0] == b"43"
    zk.create(paths.offset("g", "t", 1), b"junk")
    assert group_offsets.read_offsets(zk, "g", [("t", 0), ("t", 1), ("t", 2)]) == {
        ("t", 0): (43, 1)
    }
    assert group_offsets.committed_topics(zk, "g") == ["t"]
    assert group_offsets.committed_partitions(zk, "g", "t") == [0, 1]


def test_commit_with_old_version_is_refused(zk: ZkSession) -> None:
    first = group_offsets.commit_offset(zk, "g", "t", 0, 10, version=-1)
    group_offsets.commit_offset(zk, "g", "t", 0, 20)
    with pytest.raises(BadVersion, match="offset 20"):
        group_offsets.commit_offset(zk, "g", "t", 0, 11, version=first)
    with pytest.raises(BadVersion):
        group_offsets.commit_offset(zk, "g", "t", 0, 11, version=-1)
    assert group_offsets.read_offset(zk, "g", "t", 0) == (20, 1)


def test_batch_of_commits_returns_each_result(zk: ZkSession) -> None:
    group_offsets.commit_offset(zk, "g", "t", 1, 5)
    group_offsets.commit_offset(zk, "g", "t", 1, 6)
    answers = group_offsets.commit_offsets(
        zk, "g", {("t", 0): (1, -1), ("t", 1): (7, 0), ("t", 2): (3, None), ("u", 0): (4, None)}
    )
    assert isinstance(answers.pop(("t", 1)), BadVersion)
    assert answers == {("t", 0): 0, ("t", 2): 0, ("u", 0): 0}


def test_repeated_commit_with_old_version_succeeds(zk: ZkSession) -> None:
    version = group_offsets.commit_offset(zk, "g", "t", 0, 10, version=-1)
    assert group_offsets.commit_offset(zk, "g", "t", 0, 10, version=-1) == version
    assert group_offsets.commit_offset(zk, "g", "t", 0, 11, version=version) == version + 1
    assert group_offsets.commit_offset(zk, "g", "t", 0, 11, version=version) == version + 1
