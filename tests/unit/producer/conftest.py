"""The Python intake of the send queue and its twin in C."""

import importlib

import pytest

from zkbroker.producer import portable, send_queue


@pytest.fixture(params=["portable", "native"])
def intake_kind(request: pytest.FixtureRequest) -> type[portable.Intake]:
    if request.param == "portable":
        return portable.Intake
    try:
        return importlib.import_module("zkbroker.producer._speedups").Intake
    except ImportError:
        pytest.skip("the C twin was not built: no compiler")


@pytest.fixture
def each_intake(intake_kind: type[portable.Intake], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with producers of both kinds."""
    monkeypatch.setattr(send_queue, "Intake", intake_kind)
