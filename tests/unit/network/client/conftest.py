"""Both runtimes, and brokers whose responses a test makes."""

import pytest

from tests.support.played_broker import PlayedBroker
from zkbroker.runtime import get_runtime


@pytest.fixture(params=["threads", "gevent"])
def runtime(request):
    return get_runtime(request.param)


@pytest.fixture
def play():
    played = []

    def start(answer):
        played.append(PlayedBroker(answer))
        return played[-1]

    yield start
    for broker in played:
        broker.close()
