"""Which of the twins runs is said by the environment and by what was built."""

import importlib.util
import os
import subprocess
import sys

import pytest

from zkbroker.records import portable

SAY = "from zkbroker.records import kernels; print(kernels.NATIVE, kernels.decode_lists.__module__)"


def say(**environment):
    done = subprocess.run(
        [sys.executable, "-c", SAY],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.fixture(scope="module", autouse=True)
def loops():
    """Nothing is exchanged here: the processes choose for themselves."""


def test_plain_python_runs_when_it_is_asked_for():
    assert say(ZKBROKER_PURE_PYTHON="1") == ["False", portable.decode_lists.__module__]


@pytest.mark.parametrize("unset", ["", "0"])
def test_the_c_twin_runs_where_it_was_built(unset):
    built = importlib.util.find_spec("zkbroker.records._speedups") is not None
    assert say(ZKBROKER_PURE_PYTHON=unset)[0] == str(built)


def test_every_loop_of_the_interface_exists_in_the_c_twin():
    if importlib.util.find_spec("zkbroker.records._speedups") is None:
        pytest.skip("the C twin was not built: no compiler")
    native = importlib.import_module("zkbroker.records._speedups")
    assert set(portable.__all__) <= set(dir(native))
