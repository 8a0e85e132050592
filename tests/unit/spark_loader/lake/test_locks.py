"""Locks: loads of different topics run together, commands run alone."""

import pytest

from spark_loader import LoadError
from spark_loader.lake.locks import alone, beginning, loading, optimizing


def test_only_loads_of_different_topics_run_together(lake):
    with loading(lake, ["a", "b"]):
        with beginning(lake), loading(lake, ["c"]):
            pass
        with (
            beginning(lake),
            pytest.raises(LoadError, match=r"a load of topic b into this output is running: .*pro"),
            loading(lake, ["b", "d"]),
        ):
            pass
    with loading(lake, ["b", "d"]):
        pass


def test_command_excludes_loads_and_commands(lake):
    with (
        loading(lake, ["a"]),
        pytest.raises(LoadError, match="a load of topic a"),
        alone(lake),
    ):
        pass
    with (
        alone(lake),
        pytest.raises(LoadError, match="another load or command works on this output: "),
        beginning(lake, patience_s=0.2),
    ):
        pass
    with alone(lake):
        pass


def test_optimize_excludes_only_another_optimize(lake):
    with (
        loading(lake, ["a"]),
        optimizing(lake),
        pytest.raises(LoadError, match="an optimize of this output is running"),
        optimizing(lake),
    ):
        pass
