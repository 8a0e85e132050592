"""Notices of changed settings, of every generation."""

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.registry import paths
from zkbroker.registry.config_changes import changed_entity, note_change


def test_a_notice_names_the_node_as_genuine_tools_do():
    session = InstantSession()
    note_change(session, "users/alice/clients/c1")
    (note,) = session.children(paths.CONFIG_CHANGES)
    assert session.get(f"{paths.CONFIG_CHANGES}/{note}")[0] == (
        b'{"version":2,"entity_path":"users/alice/clients/c1"}'
    )


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
def test_what_a_notice_names(data, entity):
    assert changed_entity(data) == entity
