"""ACLs in the output of the genuine tool, blanks included."""

from zkbroker.cli.acl_text import adding_lines, current_lines
from zkbroker.security import Operation, ResourceType
from zkbroker.security.acls import Acl, Binding, Pattern, PatternType, Permission

PATTERN = Pattern(ResourceType.TRANSACTIONAL_ID, "tx-", PatternType.PREFIXED)
READ = Binding(PATTERN, Acl("User:a", Permission.ALLOW, Operation.DESCRIBE_CONFIGS))
DENY = Binding(PATTERN, Acl("User:b", Permission.DENY, Operation.ALL, "10.0.0.1"))


def test_lines_of_acls_in_zookeeper():
    assert current_lines([READ, DENY], through_broker=False) == [
        "Current ACLs for resource `TransactionalId:PREFIXED:tx-`: ",
        " \tUser:a has Allow permission for operations: DescribeConfigs from hosts: *",
        "\tUser:b has Deny permission for operations: All from hosts: 10.0.0.1 ",
        "",
    ]


def test_lines_of_acls_from_a_broker():
    name = "`ResourcePattern(resourceType=TRANSACTIONAL_ID, name=tx-, patternType=PREFIXED)`: "
    assert adding_lines([READ], through_broker=True) == [
        f"Adding ACLs for resource {name}",
        " \tUser:a has Allow permission for operations: DescribeConfigs from hosts: * ",
        "",
    ]
    assert current_lines([READ], through_broker=True) == [
        f"Current ACLs for resource {name}",
        " \t(principal=User:a, host=*, operation=DESCRIBE_CONFIGS, permissionType=ALLOW) ",
        "",
    ]
    assert current_lines([], through_broker=True) == []
