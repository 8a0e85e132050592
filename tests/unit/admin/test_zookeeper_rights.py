"""Rights of a cluster's nodes, given to a login and back, on a tree in memory."""

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


class RightsTree:
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


def test_secure_changes_rights_of_kafka_nodes_only():
    tree = RightsTree(
        "/brokers", "/brokers/ids", "/config", "/config/users", "/consumers", "/other"
    )
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


def test_shared_root_changes_only_on_request():
    tree = RightsTree("/brokers", chroot="")
    assert secure(tree).root_open
    assert tree.rights["/"][0] == OPEN
    assert not secure(tree, with_root=True).root_open
    assert tree.rights["/"][0] == READABLE


def test_nodes_changed_or_deleted_meanwhile_are_handled():
    tree = RightsTree("/brokers", "/brokers/ids", "/brokers/gone")
    tree.failures = {"/brokers/ids": BadVersion("changed"), "/brokers/gone": NoNode("gone")}
    assert secure(tree).changed == 3
    assert tree.rights["/brokers/ids"][0] == READABLE


def test_node_of_another_owner_is_refused():
    tree = RightsTree("/brokers")
    tree.failures = {"/brokers": NotPermitted("/brokers: not yours")}
    with pytest.raises(NotPermitted):
        secure(tree)


def test_session_without_login_is_refused():
    tree = RightsTree("/brokers", security=UNPROTECTED)
    with pytest.raises(RegistryError, match="this session has no login"):
        secure(tree)
    assert tree.rights["/brokers"] == (OPEN, 0)


def test_dry_run_only_counts():
    tree = RightsTree("/brokers", "/brokers/ids")
    assert secure(tree, dry_run=True).changed == 3
    assert {acl for acl, _ in tree.rights.values()} == {OPEN}


def test_every_registry_path_has_known_root():
    known = [value for name, value in vars(paths).items() if name.isupper() and name[0] != "_"]
    texts = {each for each in known if isinstance(each, str) and each.startswith("/")}
    assert {f"/{each.split('/')[1]}" for each in texts} <= {*KAFKA_ROOTS, paths.CONSUMERS}
