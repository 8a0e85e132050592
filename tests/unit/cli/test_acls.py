"""`zkbroker acls` with ACLs in memory."""

import json
from contextlib import nullcontext

import pytest
from click.testing import CliRunner

from zkbroker.cli import acls as module
from zkbroker.cli.main import cli
from zkbroker.security.acl_index import AclIndex


class AclsInMemory:
    """Stands for the ACLs of a cluster."""

    def __init__(self):
        self.index = AclIndex()

    def find(self, filters):
        return [each for wanted in filters for each in self.index.find(wanted)]

    def add(self, bindings):
        for pattern, acl in bindings:
            kept = self.index.acls(pattern)
            self.index.set(pattern, tuple(dict.fromkeys((*kept, acl))))

    def remove(self, filters):
        found = self.find(filters)
        for pattern, acl in found:
            kept = self.index.acls(pattern)
            self.index.set(pattern, tuple(each for each in kept if each != acl))
        return found


@pytest.fixture
def stored(monkeypatch):
    acls = AclsInMemory()
    monkeypatch.setattr(module, "_open", lambda bootstrap, zookeeper: nullcontext(acls))
    return acls


def run(*arguments, answer=None):
    return CliRunner().invoke(cli, ["acls", *arguments], input=answer)


def listed(*arguments):
    done = run("list", "--json", *arguments)
    assert done.exit_code == 0, done.output
    return [
        (each["resource"], each["pattern"], each["name"], each["principal"], each["operation"])
        for each in json.loads(done.stdout)
    ]


PRODUCER = ("add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")


def test_producer_option_adds_and_lists_its_acls(stored):
    done = run(*PRODUCER)
    assert done.exit_code == 0
    assert done.stdout.startswith("added:")
    expected = [
        ("Topic", "literal", "orders", "User:alice", operation)
        for operation in ("Write", "Create", "Describe")
    ]
    assert listed() == listed("--topic", "orders") == expected
    assert listed("--principal", "User:bob") == listed("--topic", "other") == []


def test_names_are_literal_without_a_pattern_type(stored):
    prefixed = ("--topic", "team-", "--resource-pattern-type", "PREFIXED")
    run("add", "--allow-principal", "User:a", *prefixed)
    run("add", "--deny-principal", "User:*", "--topic", "*", "--operation", "delete")
    assert listed("--topic", "team-x") == []
    assert len(listed("--topic", "team-x", "--resource-pattern-type", "match")) == 2
    assert len(listed()) == 2


def test_remove_asks_and_removes_the_shown_acls(stored):
    run(*PRODUCER)
    for answer in ("n\n", ""):
        done = run("remove", "--topic", "orders", answer=answer)
        assert done.exit_code != 0
        assert "Remove these 3 ACLs?" in done.stderr
    assert len(listed()) == 3
    done = run("remove", "--topic", "orders", "--operation", "Write", answer="y\n")
    assert done.exit_code == 0
    assert "removed:" in done.stdout
    assert len(listed()) == 2
    assert run("remove", "--topic", "orders", "--yes").exit_code == 0
    assert listed() == []
    assert run("remove", "--topic", "orders", "--force").exit_code != 0


def test_remove_without_a_resource_is_refused(stored):
    run(*PRODUCER)
    done = run("remove", "--yes")
    assert "no resource is named" in str(done.exception)
    assert len(listed()) == 3


def test_list_without_a_cluster_is_refused(monkeypatch):
    for name in ("ZKBROKER_BOOTSTRAP", "ZKBROKER_ZOOKEEPER"):
        monkeypatch.delenv(name, raising=False)
    assert "no cluster is named" in str(run("list").exception)
