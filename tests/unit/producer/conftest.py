"""Fixtures of producer tests: a broker with a topic, both intakes, and a close that cancels."""

import importlib
from collections.abc import Iterator

import pytest

from tests.support.fake_broker import FakeCluster
from zkbroker.producer import outcome_waits, portable, send_queue


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


@pytest.fixture
def cancelling_close(monkeypatch: pytest.MonkeyPatch) -> float:
    """Return a time-out of `close` that cancels messages at its start, and is long for that."""
    monkeypatch.setattr(outcome_waits, "_CANCEL_SHARE", 0.99)
    monkeypatch.setattr(outcome_waits, "_CANCEL_MOST_S", 60.0)
    return 20.0


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    """One broker with a topic `t`, which has one partition."""
    with FakeCluster() as cluster:
        cluster.create("t", [0])
        yield cluster
