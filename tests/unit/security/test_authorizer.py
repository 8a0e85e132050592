"""Labels of operations and resource types, as in ZooKeeper and in tools."""

from zkbroker.security.authorizer import Operation, ResourceType


def test_labels_are_those_of_znodes():
    assert [each.label for each in Operation] == [
        *("All", "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction"),
        *("DescribeConfigs", "AlterConfigs", "IdempotentWrite"),
    ]
    assert [each.label for each in ResourceType] == [
        *("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken"),
    ]
