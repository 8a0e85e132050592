"""A topic has one load at a time."""

import pytest

from spark_loader import LoadError
from spark_loader.lake.checkpoint import Checkpoints
from tests.support.loading import LOCAL


def test_second_load_of_topic_is_refused(run, output):
    checkpoints = Checkpoints(LOCAL, str(output))
    with LOCAL.lock(checkpoints.path("locks/t"), "me"), pytest.raises(LoadError, match="me"):
        run()
