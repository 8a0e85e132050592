"""Groups in ZooKeeper: exported and imported, verified and deleted."""

from typing import Any

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.admin import zk_groups
from zkbroker.admin.group_lag import GroupPosition
from zkbroker.consumer.streams.filters import make_filter
from zkbroker.errors import ClientError, ConfigError
from zkbroker.registry import groups, paths, topics
from zkbroker.registry.groups import StreamSubscription

LINES = ["/consumers/g/offsets/t/0:5", "/consumers/g/offsets/t/1:7", "/consumers/h/offsets/u/0:0"]


@pytest.fixture
def session() -> Any:
    return InstantSession()


def own(session: Any, partition: int, thread: str) -> None:
    path = paths.owner("g", "t", partition)
    session.create(path, thread.encode(), ephemeral=True, parents=True)


def test_export_and_import_round_trip(session: Any) -> None:
    assert zk_groups.import_offsets(session, [*LINES, "\n"]) == 3
    assert list(zk_groups.export_offsets(session)) == LINES
    assert list(zk_groups.export_offsets(session, ["h"])) == LINES[2:]
    with pytest.raises(ClientError, match="no group typo in ZooKeeper"):
        list(zk_groups.export_offsets(session, ["h", "typo"]))
    other: Any = InstantSession()
    zk_groups.import_offsets(other, zk_groups.export_offsets(session))
    assert zk_groups.committed(other, "g") == {("t", 0): 5, ("t", 1): 7}


def test_invalid_line_prevents_import(session: Any) -> None:
    with pytest.raises(ConfigError, match="line 2 'nonsense' is not an offset"):
        zk_groups.import_offsets(session, [LINES[0], "nonsense"])
    assert list(zk_groups.export_offsets(session)) == []


def test_offsets_of_group_with_members_are_refused(session: Any) -> None:
    for name in ("g_a", "g_b"):
        groups.register_consumer(session, "g", name, StreamSubscription({"t": 1}))
    for act in (
        lambda: zk_groups.set_offsets(session, "g", {("t", 0): 1}),
        lambda: zk_groups.import_offsets(session, LINES),
    ):
        with pytest.raises(ClientError, match=r"2 members now.* stop g_a and the others first"):
            act()
    assert list(zk_groups.export_offsets(session)) == []


def test_verify_finds_unowned_partitions_and_dead_owners(session: Any) -> None:
    topics.create_topic(session, "t", {0: [1], 1: [1], 2: [1]}, {})
    groups.register_consumer(session, "g", "g_a", StreamSubscription({"t": 1}))
    own(session, 0, "g_a-0")
    own(session, 1, "g_dead-0")
    found = zk_groups.verify(session, "g", make_filter)
    assert found.members == ("g_a",)
    assert found.unowned == (("t", 2),)
    assert found.gone == {("t", 1): "g_dead-0"}
    assert not found.settled
    assert zk_groups.owners(session, "g") == {("t", 0): "g_a-0", ("t", 1): "g_dead-0"}


def test_verify_expands_topic_filters(session: Any) -> None:
    for name in ("t", "u"):
        topics.create_topic(session, name, {0: [1]}, {})
    groups.register_consumer(session, "g", "g_a", StreamSubscription({"t": 1}, "white_list"))
    own(session, 0, "g_a-0")
    found = zk_groups.verify(session, "g", make_filter)
    assert found.settled
    with pytest.raises(ClientError, match="no group unknown"):
        zk_groups.verify(session, "unknown", make_filter)


def test_checker_table_shows_missing_offset_as_minus_one() -> None:
    lines = list(
        zk_groups.checker_lines(
            "g",
            {
                ("t", 0): GroupPosition(5, 0, 8, "g_a-0"),
                ("t", 1): GroupPosition(None, 0, 8),
                ("t", 2): GroupPosition(9, 0, 8, "g_a-0"),
                ("t", 3): GroupPosition(5),
            },
        )
    )
    assert [line.split()[2:] for line in lines[1:4]] == [
        ["0", "5", "8", "3", "g_a-0"],
        ["1", "-1", "8", "unknown", "none"],
        ["2", "9", "8", "0", "g_a-0"],
    ]
    assert lines[4] == "No broker for partition t - 3"


def test_delete_removes_all_nodes_of_group(session: Any) -> None:
    zk_groups.import_offsets(session, LINES)
    session.create(paths.consumer_ids("g"), parents=True)
    own(session, 0, "g_dead-0")
    zk_groups.delete(session, "g")
    assert groups.list_groups(session) == ["h"]
    zk_groups.delete(session, "g")


def test_delete_refuses_group_with_members(session: Any) -> None:
    zk_groups.import_offsets(session, LINES)
    groups.register_consumer(session, "g", "g_a", StreamSubscription({"t": 1}))
    with pytest.raises(ClientError, match="group g has members: stop g_a first"):
        zk_groups.delete(session, "g")
    assert list(zk_groups.export_offsets(session)) == LINES


def test_delete_refuses_group_that_gets_member_meanwhile(session: Any) -> None:
    zk_groups.import_offsets(session, LINES)
    session.create(paths.consumer_ids("g"), parents=True)

    def join() -> None:
        session.before = lambda: None
        groups.register_consumer(session, "g", "g_a", StreamSubscription({"t": 1}))

    session.before = join
    with pytest.raises(ClientError, match="stop g_a first"):
        zk_groups.delete(session, "g")
    assert list(zk_groups.export_offsets(session)) == LINES
