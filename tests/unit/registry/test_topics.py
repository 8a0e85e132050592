import pytest

from zkbroker.errors import RegistryError
from zkbroker.registry.partitions import PartitionState
from zkbroker.registry.topics import (
    changed_topic,
    decode_assignment,
    decode_config,
    encode_assignment,
    encode_config,
)


@pytest.mark.parametrize(
    ("data", "topic"),
    [
        (b'"access.log"', "access.log"),
        (b'{"version":1,"entity_type":"topics","entity_name":"t"}', "t"),
        (b'{"version":2,"entity_path":"topics/t"}', "t"),
        (b'{"version":1,"entity_type":"clients","entity_name":"c"}', None),
        (b'{"version":2,"entity_path":"users/u"}', None),
        (b'{"version":3}', None),
        (b"[]", None),
        (b"", None),
    ],
)
def test_change_notifications_of_all_generations_are_read(data: bytes, topic: str | None) -> None:
    assert changed_topic(data) == topic


def test_an_assignment_reads_back_in_order_of_partitions() -> None:
    assignment = {10: (1,), 2: (2, 3), 0: (3,)}
    data = encode_assignment(assignment)
    assert data == b'{"version":1,"partitions":{"0":[3],"2":[2,3],"10":[1]}}'
    assert list(decode_assignment("t", data)) == [0, 2, 10]
    with pytest.raises(RegistryError, match="/brokers/topics/t holds no replica assignment"):
        decode_assignment("t", b"")


def test_settings_read_back_and_an_empty_node_has_none() -> None:
    assert decode_config("t", encode_config({"b": "2", "a": "1"})) == {"a": "1", "b": "2"}
    assert decode_config("t", b"") == {}
    with pytest.raises(RegistryError, match="holds no settings"):
        decode_config("t", b"[1]")


def test_a_partition_state_reads_back() -> None:
    state = PartitionState(2, 5, (2, 3), 1)
    assert PartitionState.from_json(state.to_json()) == state
    with pytest.raises(RegistryError):
        PartitionState.from_json(b"{}")
