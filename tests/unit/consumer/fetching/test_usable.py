import pytest

from zkbroker.consumer import ConsumerClosed, ForkedConsumer
from zkbroker.consumer.fetching.usable import Usable


def test_it_can_be_used_until_it_ends():
    usable = Usable("it is closed")
    usable.check()
    assert not usable.ended
    usable.end()
    assert usable.ended
    with pytest.raises(ConsumerClosed, match="it is closed"):
        usable.check()


def test_in_a_child_the_fork_is_the_reason_whatever_comes_after():
    usable = Usable()
    usable.abandon_after_fork()
    usable.end()
    with pytest.raises(ForkedConsumer, match="make a consumer in the child"):
        usable.check()
