"""Every test of this room runs twice: over the loops in Python and over their twin in C."""

import importlib
from collections.abc import Iterator

import pytest

from zkbroker.records import kernels, portable


@pytest.fixture(params=["portable", "native"], scope="module", autouse=True)
def loops(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "portable":
        chosen = portable
    else:
        try:
            chosen = importlib.import_module("zkbroker.records._speedups")
        except ImportError:
            pytest.skip("the C twin was not built: no compiler")
    before = {name: getattr(kernels, name) for name in portable.__all__}
    for name in portable.__all__:
        setattr(kernels, name, getattr(chosen, name))
    yield request.param
    for name, function in before.items():
        setattr(kernels, name, function)
