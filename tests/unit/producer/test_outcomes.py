"""What an error means, and what a user is told to change."""

from zkbroker.errors import protocol_error
from zkbroker.producer.outcomes import gave_up


def test_a_broker_without_disk_is_not_told_to_start():
    error = gave_up("t", "topic t partition 0", 4, protocol_error(56), uncertain=False)
    assert "the disk of this partition, which may be full" in str(error)
