"""Reassignments: the file that reverts one is kept as long as one may be under way."""

import pytest

from zkbroker.admin import reassignment
from zkbroker.cli.reassign import start
from zkbroker.errors import ClientError, RegistryError

BEFORE = {("t", 0): (1, 2)}


@pytest.mark.parametrize(
    ("error", "kept"),
    [(ClientError("under way"), False), (RegistryError("away"), True), (KeyboardInterrupt(), True)],
)
def test_rollback_file_stays_unless_reassignment_is_refused(tmp_path, monkeypatch, error, kept):
    def execute(session, target, *, throttle):
        raise error

    monkeypatch.setattr(reassignment, "execute", execute)
    monkeypatch.setattr(reassignment, "current_assignment", lambda session, topics: BEFORE)
    file = tmp_path / "rollback.json"
    with pytest.raises(type(error)):
        start(None, {("t", 0): (2, 3)}, None, file)
    assert file.exists() is kept
    if kept:
        assert reassignment.decode_target(file.read_text()) == BEFORE
