"""Notices of changed settings, in the forms of every Kafka version."""

import pytest

from tests.support.instant_session import children_data
from zkbroker.registry import paths
from zkbroker.registry.config_changes import changed_entity, note_change


def test_notice_has_genuine_form(session):
    note_change(session, "users/alice/clients/c1")
    notices = children_data(session, paths.CONFIG_CHANGES)
    assert notices == [b'{"version":2,"entity_path":"users/alice/clients/c1"}']


@pytest.mark.parametrize(
    ("data", "entity"),
    [
        (b'{"version":2,"entity_path":"users/<default>"}', "users/<default>"),
        (b'{"version":1,"entity_type":"clients","entity_name":"c1"}', "clients/c1"),
        (b'"t"', "topics/t"),
        (b"'t'", None),
        (b'{"version":3}', None),
        (b"", None),
    ],
)
def test_changed_entity_is_parsed_from_notice(data, entity):
    assert changed_entity(data) == entity
