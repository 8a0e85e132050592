"""The processes that get a signal of `kafka-server-stop`."""

import os
import signal

import pytest

from zkbroker.cli import server_processes
from zkbroker.errors import ClientError


@pytest.fixture
def sent(monkeypatch, tmp_path):
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    signals = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.append((pid, number)))
    return signals


def test_noted_process_is_stopped_while_it_runs(sent):
    assert server_processes.stop_all() == []
    with server_processes.noted():
        assert server_processes.stop_all() == [os.getpid()]
    assert server_processes.stop_all() == []
    assert sent == [(os.getpid(), signal.SIGTERM)]


def test_broker_of_another_user_is_named(sent, monkeypatch):
    def refuse(pid, number):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", refuse)
    with (
        server_processes.noted(),
        pytest.raises(ClientError, match=f"still run: {os.getpid()}; stop them as that user"),
    ):
        server_processes.stop_all()


@pytest.mark.parametrize("name", ["kafkaServer-{}.pid", "kafkaServer-x.pid"])
@pytest.mark.parametrize("text", ["another time", ""])
def test_other_process_with_the_same_id_gets_no_signal(sent, name, text):
    path = server_processes.directory() / name.format(os.getpid())
    path.parent.mkdir()
    path.write_text(text)
    assert server_processes.stop_all() == []
    assert sent == []
    assert not path.exists()
