import pytest

from tests.support.instant_session import InstantSession, new_server
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.partitions import PartitionState
from zkbroker.registry.topics import (
    changed_topic,
    decode_assignment,
    decode_config,
    encode_assignment,
    encode_config,
    notify_config_change,
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
        (b"'t'", None),  # ours, for brokers of 0.8.2: the same is said in JSON
        (b"", None),
    ],
)
def test_change_notifications_of_all_generations_are_read(data: bytes, topic: str | None) -> None:
    assert changed_topic(data) == topic


@pytest.mark.parametrize(
    ("registrations", "more"),
    [
        ([], []),
        ([b'{"version":4,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"]}'], []),
        ([b'{"version":2,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"]}'], []),
        (
            [
                b'{"version":4,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"]}',
                b'{"jmx_port":-1,"timestamp":"1","host":"h","version":1,"port":2}',
            ],
            [b"'access.log'"],
        ),
    ],
)
def test_a_change_is_noted_in_the_form_of_0_8_2_where_such_a_broker_is(
    registrations: list[bytes], more: list[bytes]
) -> None:
    session = InstantSession(new_server())
    for number, data in enumerate(registrations):
        session.create(paths.broker(number), data, parents=True)
    notify_config_change(session, "access.log")  # type: ignore[arg-type]
    names = sorted(session.children(paths.CONFIG_CHANGES))
    notes = [session.get(f"{paths.CONFIG_CHANGES}/{name}")[0] for name in names]
    assert notes == [b'{"version":2,"entity_path":"topics/access.log"}', *more]


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
