"""Genuine administration clients and ACLs, on a cluster whose anonymous clients are super users."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.interop.kafka_python import kafka
from tests.support import java_clients
from tests.support.authorized import SETTINGS
from tests.support.clusters import module_cluster
from zkbroker.testing import LocalCluster

# One broker: others learn of a change some milliseconds later.
cluster = module_cluster(check_logs=True, properties={**SETTINGS, "super.users": "User:ANONYMOUS"})


def allowed(
    kind: ResourceType, name: str, operation: AclOperation, form: str = "LITERAL"
) -> AclBinding:
    pattern, allow = ResourcePatternType[form], AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, "User:alice", "*", operation, allow)


def all_acls(name: str | None, form: str, user: str | None = None) -> AclBindingFilter:
    pattern, any_kind = ResourcePatternType[form], AclPermissionType.ANY
    return AclBindingFilter(ResourceType.ANY, name, pattern, user, None, AclOperation.ANY, any_kind)


def test_confluent_kafka_creates_describes_and_deletes(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    bindings = [
        allowed(ResourceType.TOPIC, "confluent", AclOperation.READ),
        allowed(ResourceType.TOPIC, "conf", AclOperation.ALL, "PREFIXED"),
        allowed(ResourceType.GROUP, "confluent", AclOperation.DELETE),
    ]
    for future in admin.create_acls(bindings).values():
        assert future.result(30) is None

    def described(form: str) -> set[AclBinding]:
        return set(admin.describe_acls(all_acls("confluent", form)).result(30))

    assert described("MATCH") == set(bindings)
    assert described("PREFIXED") == set()
    (deleted,) = admin.delete_acls([all_acls(None, "ANY", "User:alice")]).values()
    assert set(deleted.result(30)) == set(bindings)
    assert described("MATCH") == set()


def test_confluent_kafka_reports_refused_acls(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    odd = allowed(ResourceType.TOPIC, "a/b", AclOperation.READ)
    (future,) = admin.create_acls([odd]).values()
    with pytest.raises(KafkaException, match="cannot be kept in ZooKeeper"):
        future.result(30)


def test_kafka_python_creates_describes_and_deletes(cluster: LocalCluster) -> None:
    from kafka.admin import (  # type: ignore[import-not-found, unused-ignore]
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePattern,
        ResourcePatternFilter,
    )
    from kafka.admin import ResourceType as Kind

    admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    acl = ACL(
        "User:bob",
        "10.0.0.1",
        ACLOperation.WRITE,
        ACLPermissionType.DENY,
        ResourcePattern(Kind.TOPIC, "python-", ACLResourcePatternType.PREFIXED),
    )
    created = admin.create_acls([acl])
    assert created["failed"] == []
    assert created["succeeded"] == [acl]
    wanted = ACLFilter(
        "User:bob",
        None,
        ACLOperation.ANY,
        ACLPermissionType.ANY,
        ResourcePatternFilter(Kind.TOPIC, "python-1", ACLResourcePatternType.MATCH),
    )
    found, error = admin.describe_acls(wanted)
    assert (list(found), error.errno) == ([acl], 0)
    ((_, matching, error),) = admin.delete_acls([wanted])
    assert list(matching) == [acl]
    assert error.errno == 0
    admin.close()


@pytest.mark.skipif(not java_clients.versions(), reason=java_clients.REASON)
@pytest.mark.parametrize("version", java_clients.version_parameters())
def test_the_java_client_creates_describes_and_deletes(cluster: LocalCluster, version: str) -> None:
    command = java_clients.command("AclChecks", version, cluster.bootstrap_servers)
    lines = [line.split("\t") for line in java_clients.run(command).splitlines()]
    assert [columns[1:] for columns in lines if columns[0] == "fail"] == []
    assert len([columns for columns in lines if columns[0] == "ok"]) == 4
