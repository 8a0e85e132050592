"""The authorizer of a broker, and warnings when it does not authorize the brokers themselves."""

import logging
from types import SimpleNamespace

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.broker.authorization import (
    SIMPLE,
    Authorization,
    make_authorizer,
    own_principal,
)
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.security import ClientSecurity
from zkbroker.errors import ConfigError
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import ListGroupsResponse
from zkbroker.registry.acls import add_acls
from zkbroker.security import ANONYMOUS, CLUSTER, Operation, Principal
from zkbroker.security.acls import Acl, Pattern, Permission
from zkbroker.security.simple_authorizer import SimpleAclAuthorizer


class CustomAuthorizer:
    def configure(self, properties):
        self.properties = properties
        if "broken" in properties:
            raise RuntimeError("no directory")

    def allows(self, principal, operation, resource, host):
        return host == "10.0.0.1"


class NoAuthorizer:
    pass


def config(**given):
    properties = {"zookeeper.connect": "z"}
    properties.update({key.replace("_", "."): value for key, value in given.items()})
    return BrokerConfig.from_properties(properties, warn=lambda text: None)


def here(name):
    return f"{__name__}:{name}"


@pytest.mark.parametrize("name", SIMPLE)
def test_kafka_authorizer_names_select_simple_authorizer(name):
    made = make_authorizer(config(authorizer_class_name=name, super_users="User:ANONYMOUS"))
    assert isinstance(made, SimpleAclAuthorizer)
    assert made.allows(ANONYMOUS, Operation.CLUSTER_ACTION, CLUSTER, "::1")
    assert not made.ready


def test_no_authorizer_is_made_without_a_name():
    assert make_authorizer(config()) is None


def test_custom_authorizer_is_made_and_configured():
    made = make_authorizer(config(authorizer_class_name=here("CustomAuthorizer"), broker_rack="r"))
    assert isinstance(made, CustomAuthorizer)
    assert made.properties["broker.rack"] == "r"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"name": "com.example.RangerAuthorizer"}, "classes of Java are not run"),
        ({"name": "kafka.security.auth.Other"}, r"give kafka\.security\.auth\.SimpleAcl"),
        ({"name": "own"}, r"authorizer\.class\.name='own'"),
        ({"name": here("NoAuthorizer")}, r"has no method allows\(principal"),
        (
            {"name": here("CustomAuthorizer"), "broken": "x"},
            "refused the configuration: .*no directory",
        ),
        ({"name": SIMPLE[0], "super_users": "alice"}, r"super\.users='alice'"),
    ],
)
def test_unusable_authorizer_settings_are_refused(given, text):
    name = given.pop("name")
    with pytest.raises(ConfigError, match=text):
        make_authorizer(config(authorizer_class_name=name, **given))


def authorization(session, **given):
    made = config(**given)
    return Authorization(made, make_authorizer(made), session, session.runtime)


@pytest.fixture
def session():
    return InstantSession()


def test_handlers_are_guarded_only_with_an_authorizer(session):
    handlers = {ApiKey.LIST_GROUPS: lambda request, context: ListGroupsResponse()}
    without = authorization(session)
    assert without.guard(handlers, None) is handlers
    assert without.hint == ""
    guarded = authorization(session, authorizer_class_name=SIMPLE[0])
    assert guarded.guard(handlers, None)[ApiKey.LIST_GROUPS] is not handlers[ApiKey.LIST_GROUPS]
    assert "super.users" in guarded.hint


def test_warning_tells_how_to_authorize_the_broker_itself(session, caplog):
    made = authorization(session, authorizer_class_name=SIMPLE[0])
    made.start()
    for _ in range(3):
        made.check_own()
    (message,) = [each for each in caplog.messages if "may not act for the cluster" in each]
    assert "set super.users=User:ANONYMOUS on every broker" in message
    assert "--operation ClusterAction --cluster" in message
    made.close(5)


@pytest.mark.parametrize("granted", ["super", "acl"])
def test_no_warning_when_the_broker_itself_is_authorized(session, caplog, granted):
    given = {"super_users": "User:ANONYMOUS"} if granted == "super" else {}
    if granted == "acl":
        allowed = Acl("User:ANONYMOUS", Permission.ALLOW, Operation.CLUSTER_ACTION)
        add_acls(session, Pattern(*CLUSTER), [allowed])
    made = authorization(session, authorizer_class_name=SIMPLE[0], **given)
    made.start()
    made.check_own()
    authorization(session).check_own()
    assert not [each for each in caplog.messages if "may not act" in each]
    made.close(5)


def test_own_principal_is_that_of_the_inter_broker_login():
    def own(properties):
        return own_principal(ClientSecurity.from_properties(properties))

    assert own({}) == ANONYMOUS
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "b1",
        "sasl.password": "x",
    }
    assert str(own(login)) == "User:b1"
    assert own({"security.protocol": "SSL"}) is None


def test_refused_broker_is_logged_once(session, caplog):
    caplog.set_level(logging.ERROR, "zkbroker")
    made = authorization(session, authorizer_class_name=SIMPLE[0])
    client = SimpleNamespace(principal=Principal("User", "b2"), peer="10.0.0.2", client_id="c")
    for _ in range(3):
        assert not made.permissions.allowed(client, Operation.CLUSTER_ACTION, CLUSTER)
    assert len([each for each in caplog.messages if "super.users=User:b2" in each]) == 1
