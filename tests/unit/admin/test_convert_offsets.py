"""Offsets of groups converted between generations: all of a group, or none."""

import pytest

from tests.support.instant_session import InstantSession
from tests.support.views07 import shown
from zkbroker.admin.convert_offsets import ConvertedOffset, to_07, to_newer, write_07
from zkbroker.errors import ClientError
from zkbroker.records.legacy07 import build_message
from zkbroker.types import Partition07


@pytest.fixture
def directory(tmp_path):
    with shown(tmp_path) as found:
        found.modern(b"one", b"two")
        found.show()
        yield tmp_path / "legacy"


@pytest.fixture
def session():
    return InstantSession()


ONE = len(build_message(b"one"))


def commit(session, name, position, topic="t"):
    path = f"/consumers/g/offsets/{topic}/{name}"
    session.ensure_path(path)
    session.set(path, str(position).encode())


def test_positions_and_offsets_convert_both_ways(session, directory):
    commit(session, "3-0", ONE)
    found = to_newer(session, "g", {3: directory})
    assert found == [ConvertedOffset("t", Partition07(3, 0), 0, ONE, 1)]
    assert to_07({("t", 0): 2}, {3: directory}) == [
        ConvertedOffset("t", Partition07(3, 0), 0, 2 * ONE, 2)
    ]
    write_07(session, "g", to_07({("t", 0): 2}, {3: directory}))
    assert session.get("/consumers/g/offsets/t/3-0")[0] == b"%d" % (2 * ONE)


def test_unconvertible_offset_prevents_conversion(session, directory):
    with pytest.raises(ClientError, match="group g committed nothing"):
        to_newer(session, "g", {3: directory})
    commit(session, "3-0", ONE)
    commit(session, "4-0", ONE)
    commit(session, "3-0", ONE, topic="plain")
    with pytest.raises(ClientError) as raised:
        to_newer(session, "g", {3: directory})
    assert "add --log-dir 4=DIR" in str(raised.value)
    assert "plain 3-0: there is no" in str(raised.value)
    with pytest.raises(ClientError, match="t-1: no view of it is in these directories"):
        to_07({("t", 0): 0, ("t", 1): 0}, {3: directory})
    with pytest.raises(ClientError, match="offset 9 of"):
        to_07({("t", 0): 9}, {3: directory})
    with pytest.raises(ClientError, match="committed nothing"):
        to_07({}, {3: directory})
    with pytest.raises(ClientError, match="cannot be read"):
        to_07({("t", 0): 0}, {3: directory / "none"})


def test_group_with_members_is_not_converted(session, directory):
    commit(session, "3-0", ONE)
    session.ensure_path("/consumers/g/ids/g_host-1")
    with pytest.raises(ClientError, match="has members in the 0"):
        to_newer(session, "g", {3: directory})
    with pytest.raises(ClientError, match="has members in the 0"):
        write_07(session, "g", [])
