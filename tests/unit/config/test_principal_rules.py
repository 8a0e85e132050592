import pytest

from zkbroker.config.principal_rules import PrincipalRules
from zkbroker.errors import ConfigError

NAME = "CN=Alice,OU=ServiceUsers,O=example"


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", NAME),
        ("", NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L", "alice@serviceusers"),
        ("RULE:^CN=(.*?),.*$/$1/U,DEFAULT", "ALICE"),
        ("RULE:^UID=(.*)$/$1/,DEFAULT", NAME),
        ("RULE:^UID=(.*)$/$1/, RULE:^CN=([^,]*).*$/u\\/$1/", "u/Alice"),
        ("RULE:CN=Alice/all/", None),
        ("RULE:^UID=(.*)$/$1/", None),
    ],
)
def test_first_matching_rule_gives_user(rules, user):
    assert PrincipalRules.parse(rules).user(NAME) == user


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("RULE", "give RULE:regex/name/"),
        ("RULE:a/b", "give RULE:regex/name/"),
        ("RULE:a/b/X", "give RULE:regex/name/"),
        ("DEFAULTS", "give RULE:regex/name/"),
        ("RULE:(/b/", "is no regular expression"),
        ("RULE:(a)/$2/", "names group 2"),
    ],
)
def test_invalid_rule_is_refused(rules, message):
    with pytest.raises(ConfigError, match=message):
        PrincipalRules.parse(rules)
