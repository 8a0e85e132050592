import pytest

from zkbroker.admin.reassignment import (
    decode_partitions,
    decode_target,
    encode_partitions,
    encode_target,
    throttled_replicas,
)
from zkbroker.errors import ConfigError

# As genuine tools of 0.8.2.2 and 2.3.0 wrote them.
GENUINE = (
    b'{"version":1,"partitions":[{"topic":"t2","partition":0,"replicas":[1,2]},'
    b'{"topic":"t2","partition":1,"replicas":[2,0]}]}'
)
GENUINE_ELECTION = (
    b'{"version":1,"partitions":[{"topic":"t3","partition":1},{"topic":"t2","partition":1}]}'
)


def test_genuine_json_round_trips():
    target = {("t2", 0): (1, 2), ("t2", 1): (2, 0)}
    assert decode_target(GENUINE) == target
    assert encode_target(target) == GENUINE
    partitions = [("t3", 1), ("t2", 1)]
    assert decode_partitions(GENUINE_ELECTION) == partitions
    assert encode_partitions(partitions) == GENUINE_ELECTION


def test_log_dirs_are_accepted_only_as_any():
    text = (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["any"]}]}'
    )
    assert decode_target(text) == {("t", 0): (1,)}
    with pytest.raises(ConfigError, match="leave log_dirs out"):
        decode_target(text.replace('"any"', '"/data"'))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "this is no reassignment"),
        ("[]", "this is no reassignment"),
        ("[" * 100_000, "this is no reassignment"),
        ('{"partitions":[{"topic":"t","partition":1e999}]}', "this is no reassignment"),
        ('{"partitions":[{"topic":"t","partition":0}]}', "this is no reassignment"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "t-0 needs different"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "t-0 needs different"),
        (
            (
                '{"partitions":[{"topic":"t","partition":0,"replicas":[1]},'
                '{"topic":"t","partition":0,"replicas":[2]}]}'
            ),
            "t-0 is named twice",
        ),
    ],
)
def test_invalid_reassignment_is_refused(text, problem):
    with pytest.raises(ConfigError, match=problem):
        decode_target(text)


def test_throttles_name_present_and_new_replicas():
    # As the genuine tool of 2.3.0 did it for t2-2 from [2,0] to [1,2].
    assert throttled_replicas({("t2", 2): (1, 2)}, {("t2", 2): (2, 0)}) == {
        "t2": ("2:2,2:0", "2:1")
    }
    both = {("t", 0): (1, 2), ("t", 1): (3, 1)}
    assert throttled_replicas(both, {("t", 0): (2, 1), ("t", 1): (1,)}) == {"t": ("1:1", "1:3")}


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"partitions":[{"topic":"t","partition":1e999}]}']
)
def test_invalid_election_is_refused(text):
    with pytest.raises(ConfigError, match="these are not partitions"):
        decode_partitions(text)
