"""The first claim decides which replica a view of 0.7 shows."""

import pytest

from zkbroker.errors import RegistryError
from zkbroker.registry.legacy07_views import (
    Shown,
    claim,
    declare,
    declared,
    forget,
    is_declared,
    note_made,
    shown,
)


def test_first_claim_holds_until_topic_is_forgotten(session):
    assert declared(session) == []
    assert not is_declared(session, "t")
    assert shown(session, "t") == {}
    declare(session, "t")
    assert is_declared(session, "t")
    assert declared(session) == ["t"]
    assert shown(session, "t") == {}
    assert claim(session, "t", 0, Shown(1, 0))
    assert claim(session, "t", 2, Shown(7, 12))
    assert not claim(session, "t", 0, Shown(2, 0))
    assert shown(session, "t") == {0: Shown(1, 0), 2: Shown(7, 12)}
    assert session.get("/legacy07/views/t/2")[0] == b"7-12"
    forget(session, "t")
    assert not is_declared(session, "t")
    assert claim(session, "t", 0, Shown(2, 0))


def test_claim_records_finished_view(session):
    assert claim(session, "t", 0, Shown(1, 0, making=True))
    assert session.get("/legacy07/views/t/0")[0] == b"1-0 making"
    assert shown(session, "t") == {0: Shown(1, 0, making=True)}
    note_made(session, "t", 0, Shown(1, 0, making=True))
    assert session.get("/legacy07/views/t/0")[0] == b"1-0"
    assert shown(session, "t") == {0: Shown(1, 0)}


def test_invalid_view_node_is_refused(session):
    declare(session, "t")
    session.create("/legacy07/views/t/0", b"nonsense")
    with pytest.raises(RegistryError, match=r"/legacy07/views/t holds no view of 0\.7"):
        shown(session, "t")
