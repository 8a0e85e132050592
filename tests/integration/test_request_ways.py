"""How long the way of a request is: the files that it passes, and the calls that it makes.

Invariant: what every request costs stays readable. A new step on these ways is a decision, not an
accident. `make docs` shows the same ways in docs/ARCHITECTURE.md.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.request_ways import (
    Line,
    fetch_way,
    leader_and_isr_way,
    produce_way,
    repeated_decision_way,
    serving,
)
from zkbroker.protocol import plain
from zkbroker.records import kernels


@pytest.fixture
def line(chroot: str, tmp_path: Path) -> Iterator[Line]:
    with serving(chroot, tmp_path) as connected:
        yield connected


needs_twins = pytest.mark.skipif(
    not (kernels.NATIVE and plain.NATIVE), reason="the C twins were not built: no compiler"
)


@needs_twins
def test_call_count_of_plain_produce(line: Line) -> None:
    way = produce_way(line)
    print(way)
    assert len(way.files) <= 10
    assert way.count <= 15


@needs_twins
def test_call_count_of_plain_fetch(line: Line) -> None:
    way = fetch_way(line)
    print(way)
    assert len(way.files) <= 10
    assert way.count <= 25


def test_file_count_of_leader_and_isr(line: Line) -> None:
    way = leader_and_isr_way(line)
    print(way)
    assert len(way.files) <= 14


def test_file_count_of_repeated_leader_and_isr(line: Line) -> None:
    way = repeated_decision_way(line)
    print(way)
    assert len(way.files) <= 10
