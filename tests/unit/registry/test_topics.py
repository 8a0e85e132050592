import pytest

from tests.support.instant_session import InstantSession, children_data
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
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
        (b"'t'", None),  # for brokers of 0.8.2; a notice in JSON accompanies it
        (b"", None),
    ],
)
def test_notices_of_every_kafka_version_are_read(data: bytes, topic: str | None) -> None:
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
def test_notice_for_0_8_2_is_added_for_such_brokers(
    session: InstantSession, registrations: list[bytes], more: list[bytes]
) -> None:
    for number, data in enumerate(registrations):
        session.create(paths.broker(number), data, parents=True)
    notify_config_change(session, "access.log")  # type: ignore[arg-type]
    notices = children_data(session, paths.CONFIG_CHANGES)
    assert notices == [b'{"version":2,"entity_path":"topics/access.log"}', *more]


def test_assignment_round_trips_in_partition_order() -> None:
    assignment = {10: (1,), 2: (2, 3), 0: (3,)}
    data = encode_assignment(assignment)
    assert data == b'{"version":1,"partitions":{"0":[3],"2":[2,3],"10":[1]}}'
    assert list(decode_assignment("t", data)) == [0, 2, 10]
    with pytest.raises(RegistryError, match="/brokers/topics/t holds no replica assignment"):
        decode_assignment("t", b"")


def test_topic_settings_round_trip() -> None:
    assert decode_config("t", encode_config({"b": "2", "a": "1"})) == {"a": "1", "b": "2"}
    assert decode_config("t", b"") == {}
    with pytest.raises(RegistryError, match="holds no settings"):
        decode_config("t", b"[1]")
