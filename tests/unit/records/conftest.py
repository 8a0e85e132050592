"""Every test of this room runs twice: over the loops in Python and over their twin in C."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from zkbroker.records import kernels, portable


def c_twin() -> Any:
    try:
        return importlib.import_module("zkbroker.records._speedups")
    except ImportError:
        pytest.skip("the C twin was not built: no compiler")


@pytest.fixture(scope="module")
def native() -> Any:
    """The twin in C, for tests that call both by name."""
    return c_twin()


@pytest.fixture(params=["portable", "native"], scope="module", autouse=True)
def loops(request: pytest.FixtureRequest) -> Iterator[str]:
    chosen = portable if request.param == "portable" else c_twin()
    before = {name: getattr(kernels, name) for name in portable.__all__}
    for name in portable.__all__:
        setattr(kernels, name, getattr(chosen, name))
    yield request.param
    for name, function in before.items():
        setattr(kernels, name, function)
