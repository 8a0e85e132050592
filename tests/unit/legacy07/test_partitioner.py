"""0.7's own choice of a partition."""

from zkbroker.legacy07.partitioner import Partitioner07
from zkbroker.producer.partitioners import java_hash


def test_keys_go_by_the_java_hash_code_and_others_anywhere():
    chooser = Partitioner07()
    for key in ("", "a", "10.0.0.7", b"bytes", 12, "Aa", "polygenelubricants"):
        wanted = 0 if java_hash(key) == -(2**31) else abs(java_hash(key))
        assert chooser.partition(key, 7) == wanted % 7
    assert {chooser.choose("t", [3, 5]) for _ in range(100)} == {3, 5}
