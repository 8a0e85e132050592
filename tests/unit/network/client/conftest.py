"""Both runtimes, and brokers that are played."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.played_broker import Answer, PlayedBroker
from zkbroker.runtime import Runtime, get_runtime


@pytest.fixture(params=["threads", "gevent"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    return get_runtime(request.param)


@pytest.fixture
def play() -> Iterator[Callable[[Answer], PlayedBroker]]:
    played: list[PlayedBroker] = []

    def start(answer: Answer) -> PlayedBroker:
        played.append(PlayedBroker(answer))
        return played[-1]

    yield start
    for broker in played:
        broker.close()
