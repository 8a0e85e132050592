import pytest

from zkbroker.consumer import ConsumerClosed, ForkedConsumer
from zkbroker.consumer.fetching.usable import Usable


def test_use_is_refused_after_end():
    usable = Usable("it is closed")
    usable.check()
    assert not usable.ended
    usable.end()
    assert usable.ended
    with pytest.raises(ConsumerClosed, match="it is closed"):
        usable.check()


def test_use_in_forked_child_raises_fork_error_even_after_close():
    usable = Usable()
    usable.abandon_after_fork()
    usable.end()
    with pytest.raises(ForkedConsumer, match="make a consumer in the child"):
        usable.check()
