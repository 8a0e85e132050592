"""Both runtimes."""

import pytest

from zkbroker.runtime import get_runtime


@pytest.fixture(params=["threads", "gevent"])
def runtime(request):
    return get_runtime(request.param)
