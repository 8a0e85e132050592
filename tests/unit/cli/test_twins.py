"""Warnings of C extensions that were not built."""

import pytest

from zkbroker.cli.twins import missing_twins, warn_of_missing_twins
from zkbroker.protocol import plain
from zkbroker.records import kernels


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZKBROKER_PURE_PYTHON", raising=False)
    for room in (kernels, plain):
        monkeypatch.setattr(room, "NATIVE", True)


def test_no_warning_with_both_extensions(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_missing_twins()
    assert not caplog.records


def test_missing_extension_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kernels, "NATIVE", False)
    warn_of_missing_twins()
    (record,) = caplog.records
    assert "slower: appends and compaction." in record.getMessage()
    assert "compiler" in record.getMessage()


def test_no_warning_if_python_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "NATIVE", False)
    monkeypatch.setenv("ZKBROKER_PURE_PYTHON", "1")
    assert missing_twins() == []
