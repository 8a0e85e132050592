"""Groups in ZooKeeper: offsets out and in again, and what of a group is out of order."""

from typing import Any

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.admin import zk_groups
from zkbroker.admin.group_lag import GroupPosition
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


def test_what_an_export_wrote_an_import_writes_back(session: Any) -> None:
    assert zk_groups.import_offsets(session, [*LINES, "\n"]) == 3
    assert list(zk_groups.export_offsets(session)) == LINES
    assert list(zk_groups.export_offsets(session, ["h"])) == LINES[2:]
    with pytest.raises(ClientError, match="no group typo in ZooKeeper"):
        list(zk_groups.export_offsets(session, ["h", "typo"]))
    other: Any = InstantSession()
    zk_groups.import_offsets(other, zk_groups.export_offsets(session))
    assert zk_groups.committed(other, "g") == {("t", 0): 5, ("t", 1): 7}


def test_one_line_that_is_not_understood_leaves_everything_as_it_was(session: Any) -> None:
    with pytest.raises(ConfigError, match="line 2 'nonsense' is not an offset"):
        zk_groups.import_offsets(session, [LINES[0], "nonsense"])
    assert list(zk_groups.export_offsets(session)) == []


def test_offsets_of_a_group_with_members_are_left_to_them(session: Any) -> None:
    for name in ("g_a", "g_b"):
        groups.register_consumer(session, "g", name, StreamSubscription({"t": 1}))
    for act in (
        lambda: zk_groups.set_offsets(session, "g", {("t", 0): 1}),
        lambda: zk_groups.import_offsets(session, LINES),
    ):
        with pytest.raises(ClientError, match=r"2 members now.* stop g_a and the others first"):
            act()
    assert list(zk_groups.export_offsets(session)) == []


def test_partitions_without_owner_and_owners_that_are_gone_are_found(session: Any) -> None:
    topics.create_topic(session, "t", {0: [1], 1: [1], 2: [1]}, {})
    groups.register_consumer(session, "g", "g_a", StreamSubscription({"t": 1}))
    own(session, 0, "g_a-0")
    own(session, 1, "g_dead-0")
    found = zk_groups.verify(session, "g")
    assert found.members == ("g_a",)
    assert found.unowned == (("t", 2),)
    assert found.gone == {("t", 1): "g_dead-0"}
    assert not found.settled
    assert zk_groups.owners(session, "g") == {("t", 0): "g_a-0", ("t", 1): "g_dead-0"}


def test_topics_of_a_filter_are_those_that_it_matches(session: Any) -> None:
    for name in ("t", "u"):
        topics.create_topic(session, name, {0: [1]}, {})
    groups.register_consumer(session, "g", "g_a", StreamSubscription({"t": 1}, "white_list"))
    own(session, 0, "g_a-0")
    found = zk_groups.verify(session, "g", lambda pattern, text: lambda name: name == text)
    assert found.settled
    with pytest.raises(ClientError, match="no group nobody"):
        zk_groups.verify(session, "nobody")


def test_the_checker_s_table_tells_unknown_from_zero() -> None:
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
        ["1", "unknown", "8", "unknown", "none"],
        ["2", "9", "8", "0", "g_a-0"],
    ]
    assert lines[4] == "No broker for partition t - 3"


def test_a_group_is_deleted_with_all_its_nodes(session: Any) -> None:
    zk_groups.import_offsets(session, LINES)
    session.create(paths.consumer_ids("g"), parents=True)
    own(session, 0, "g_dead-0")
    zk_groups.delete(session, "g")
    assert groups.list_groups(session) == ["h"]
    zk_groups.delete(session, "g")


def test_a_group_with_members_keeps_everything(session: Any) -> None:
    zk_groups.import_offsets(session, LINES)
    groups.register_consumer(session, "g", "g_a", StreamSubscription({"t": 1}))
    with pytest.raises(ClientError, match="group g has members: stop g_a first"):
        zk_groups.delete(session, "g")
    assert list(zk_groups.export_offsets(session)) == LINES


def test_a_member_that_comes_meanwhile_keeps_its_group(session: Any) -> None:
    zk_groups.import_offsets(session, LINES)
    session.create(paths.consumer_ids("g"), parents=True)

    def join() -> None:
        session.before = lambda: None
        groups.register_consumer(session, "g", "g_a", StreamSubscription({"t": 1}))

    session.before = join
    with pytest.raises(ClientError, match="stop g_a first"):
        zk_groups.delete(session, "g")
    assert list(zk_groups.export_offsets(session)) == LINES
