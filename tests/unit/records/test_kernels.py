"""The environment and the build decide which twin runs."""

import importlib.util
import os
import subprocess
import sys

import pytest

from zkbroker.records import portable

PROGRAM = (
    "from zkbroker.records import kernels; print(kernels.NATIVE, kernels.decode_lists.__module__)"
)


def chosen_twin(**environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.fixture(scope="module", autouse=True)
def loops():
    """Replaces no loop: the subprocesses choose theirs."""


def test_environment_selects_plain_python():
    assert chosen_twin(ZKBROKER_PURE_PYTHON="1") == ["False", portable.decode_lists.__module__]


@pytest.mark.parametrize("unset", ["", "0"])
def test_built_c_twin_runs_by_default(unset):
    built = importlib.util.find_spec("zkbroker.records._speedups") is not None
    assert chosen_twin(ZKBROKER_PURE_PYTHON=unset)[0] == str(built)


def test_c_twin_has_every_loop(native):
    assert set(portable.__all__) <= set(dir(native))
