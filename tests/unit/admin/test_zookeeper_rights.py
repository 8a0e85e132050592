"""The walk over a tree that is given to a login, on a tree in memory."""

import pytest

from zkbroker.admin.zookeeper_rights import KAFKA_ROOTS, secure, unsecure
from zkbroker.config.secret import Secret
from zkbroker.config.zookeeper_security import UNPROTECTED, ZooKeeperLogin, ZooKeeperSecurity
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.zookeeper import BadVersion, NoNode, NotPermitted
from zkbroker.zookeeper.acls import ALL, OPEN, READ, Grant

OWNER = Grant("sasl", "kafka", ALL)
READABLE = frozenset({OWNER, Grant("world", "anyone", READ)})
LOGIN = ZooKeeperSecurity(sasl=ZooKeeperLogin("kafka", Secret("pw")))


class Tree:
    """A session over nodes with rights; `failures` are raised once for each path."""

    def __init__(self, *paths, security=LOGIN, chroot="/kafka"):
        self.rights = {"/": (OPEN, 0)} | dict.fromkeys(paths, (OPEN, 0))
        self.security, self.chroot = security, chroot
        self.failures = {}

    def children(self, path):
        return sorted(p[1:] for p in self.rights if p != "/" and p.count("/") == 1)

    def children_many(self, paths):
        return [
            [p.removeprefix(path + "/") for p in self.rights if p.rpartition("/")[0] == path]
            for path in paths
        ]

    def acls(self, paths):
        return [self.rights.get(path) for path in paths]

    def set_acls(self, changes):
        answers = []
        for path, acl, version in changes:
            failure = self.failures.pop(path, None)
            if failure is None:
                resolved = frozenset(OWNER if each.scheme == "auth" else each for each in acl)
                self.rights[path] = (resolved, version + 1)
            answers.append(failure)
        return answers

    def create(self, path, **_):
        self.rights[path + "1"] = (OPEN, 0)
        return path + "1"

    def delete(self, path, missing_ok):
        del self.rights[path]


def test_each_level_gets_its_rights_and_what_is_not_kafkas_keeps_them():
    tree = Tree("/brokers", "/brokers/ids", "/config", "/config/users", "/consumers", "/other")
    report = secure(tree)
    assert (report.changed, report.kept, report.left) == (5, 0, ["/other"])
    assert not report.root_open
    shown = {path: acl for path, (acl, _) in tree.rights.items()}
    assert shown == {
        "/": READABLE,
        "/brokers": READABLE,
        "/brokers/ids": READABLE,
        "/config": READABLE,
        "/config/users": frozenset({OWNER}),
        "/consumers": OPEN,
        "/other": OPEN,
    }
    assert (secure(tree).changed, unsecure(tree).changed) == (0, 5)


def test_the_root_of_all_programs_is_left_unless_asked_for():
    tree = Tree("/brokers", chroot="")
    assert secure(tree).root_open
    assert tree.rights["/"][0] == OPEN
    assert not secure(tree, with_root=True).root_open
    assert tree.rights["/"][0] == READABLE


def test_nodes_that_go_or_change_meanwhile():
    tree = Tree("/brokers", "/brokers/ids", "/brokers/gone")
    tree.failures = {"/brokers/ids": BadVersion("changed"), "/brokers/gone": NoNode("gone")}
    assert secure(tree).changed == 3
    assert tree.rights["/brokers/ids"][0] == READABLE


def test_another_owner_ends_it():
    tree = Tree("/brokers")
    tree.failures = {"/brokers": NotPermitted("/brokers: not yours")}
    with pytest.raises(NotPermitted):
        secure(tree)


def test_without_a_login_nothing_is_touched():
    tree = Tree("/brokers", security=UNPROTECTED)
    with pytest.raises(RegistryError, match="this session has no login"):
        secure(tree)
    assert tree.rights["/brokers"] == (OPEN, 0)


def test_a_dry_run_counts_only():
    tree = Tree("/brokers", "/brokers/ids")
    assert secure(tree, dry_run=True).changed == 3
    assert {acl for acl, _ in tree.rights.values()} == {OPEN}


def test_the_walk_begins_at_every_top_of_the_tree():
    known = [value for name, value in vars(paths).items() if name.isupper() and name[0] != "_"]
    texts = {each for each in known if isinstance(each, str) and each.startswith("/")}
    assert {f"/{each.split('/')[1]}" for each in texts} <= {*KAFKA_ROOTS, paths.CONSUMERS}
