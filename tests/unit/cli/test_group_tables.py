import pytest

from zkbroker.admin.coordinator_groups import ConsumerGroupDescription, MemberDescription
from zkbroker.cli import group_tables
from zkbroker.errors import ClientError


class ClusterWithoutBrokers:
    def brokers(self):
        return {}


@pytest.fixture
def describe(monkeypatch):
    def set_to(state, *members):
        described = ConsumerGroupDescription("counters", state, "range", 1, members, {})
        monkeypatch.setattr(group_tables, "describe", lambda *_: described)

    return set_to


def show(**wanted):
    asked = {"members": False, "state": False, "genuine": False, "json": False}
    group_tables.show(ClusterWithoutBrokers(), "counters", **{**asked, **wanted})


def test_member_rows_show_clients_hosts_and_partitions(describe, capsys):
    member = MemberDescription("m-1", "reader", "/10.0.0.5", (("t", 1), ("t", 0), ("u", 3)))
    describe("Stable", MemberDescription("m-2", "idle", "/10.0.0.6", ()), member)
    show(members=True)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["m-1", "reader", "10.0.0.5", "3", "t:0,1,", "u:3"]
    assert rows[2] == ["m-2", "idle", "10.0.0.6", "0", "-"]
    show(members=True, genuine=True)
    lines = capsys.readouterr().out.split("\n")
    assert lines[1] == "CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS"
    assert lines[2] == "m-1             /10.0.0.5       reader          3"


def test_empty_group_is_noted_on_standard_error(describe, capsys):
    describe("Empty")
    show(state=True, genuine=True)
    shown = capsys.readouterr()
    assert shown.err == "Consumer group 'counters' has no active members.\n"
    assert shown.out.split("\n")[2].split() == ["-", "(1)", "range", "Empty", "0"]


def test_dead_group_is_an_error(describe):
    describe("Dead")
    with pytest.raises(ClientError, match="there is no group counters"):
        show(state=True)
    with pytest.raises(ClientError, match="Consumer group 'counters' does not exist"):
        show(genuine=True)
