"""Every test here runs twice: with the loops in Python and with their twin in C."""

from collections.abc import Iterator
from typing import Any

import pytest

from zkbroker.records import kernels, portable


@pytest.fixture(scope="module")
def native() -> Any:
    """The twin in C, for tests that call both by name."""
    return pytest.importorskip("zkbroker.records._speedups", reason="the C twin was not built")


@pytest.fixture(params=["portable", "native"], scope="module", autouse=True)
def loops(request: pytest.FixtureRequest) -> Iterator[str]:
    chosen = portable if request.param == "portable" else request.getfixturevalue("native")
    before = {name: getattr(kernels, name) for name in portable.__all__}
    for name in portable.__all__:
        setattr(kernels, name, getattr(chosen, name))
    yield request.param
    for name, function in before.items():
        setattr(kernels, name, function)
