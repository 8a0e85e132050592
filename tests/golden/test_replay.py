"""Recorded requests to genuine brokers, sent to ours: the same answers, or a listed reason.

The requests of one file are replayed in order against one fresh broker, since later ones depend on
what earlier ones stored. Answers are compared decoded, so that what depends on the run (cluster id,
member ids) can be left out; each of ours must also be exactly as long as its decoded form, so that
the layout is the genuine one.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import MortalBroker
from tests.support.process import eventually
from tests.support.recorded_exchanges import Exchange, Wire, content, plain
from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import (
    ApiKey,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    supported,
)
from zkbroker.protocol.messages import (
    CreateTopicsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    ProduceRequest,
)
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.records import MessageSetBuilder
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

DATA = Path(__file__).parent / "data" / "wire"
V08, V23 = "kafka-0.8.2.2", "kafka-2.3.0"

_STATE = "the topics depend on requests before the recording"
_FILLER = "2.x brokers keep the stored length of a converted answer: they cut it or add a filler"
_UNCONVERTED = "2.x brokers cut a small answer out of the stored batch without converting it"
_LATER = "only that generation does it; the later one is followed"
_LEVEL = "the table of what is served is ours: the level of Kafka 2.1, without replication"

EXCEPTIONS: dict[tuple[str, ApiKey, int | None, str], str] = {
    (V08, ApiKey.METADATA, 0, "all"): _STATE,
    (V23, ApiKey.METADATA, 0, "all"): _STATE,
    (V08, ApiKey.METADATA, 0, "invalid topic"): f"no brokers are listed: {_LATER}",
    (V23, ApiKey.FETCH, 2, "from 0"): _FILLER,
    (V23, ApiKey.FETCH, 3, "from 0"): _FILLER,
    (V23, ApiKey.FETCH, 0, "small"): _UNCONVERTED,
    (V23, ApiKey.FETCH, 1, "small"): _UNCONVERTED,
    (V23, ApiKey.FETCH, 2, "small"): _UNCONVERTED,
    (V08, ApiKey.OFFSET_FETCH, 1, ""): f"error 3 where nothing was committed: {_LATER}",
    (V08, ApiKey.API_VERSIONS, None, ""): f"the connection is closed: {_LATER}",
    (V08, ApiKey.JOIN_GROUP, None, ""): f"the connection is closed: {_LATER}",
    (V23, ApiKey.DESCRIBE_GROUPS, 0, ""): f"the assignment stands in for the metadata: {_LATER}",
    (V23, ApiKey.API_VERSIONS, None, ""): _LEVEL,
}
"""(generation, API, version or None for all, part of the name) → why our answer may differ."""


def load(generation: str) -> list[Exchange]:
    lines = (DATA / f"{generation}.jsonl").read_text().splitlines()
    return [Exchange.from_row(number, json.loads(line)) for number, line in enumerate(lines, 1)]


def start_broker(zookeeper: EmbeddedZooKeeper, directory: Path, generation: str) -> BrokerProcess:
    port = "19092" if generation == V08 else "29092"
    process = MortalBroker(
        directory,
        {
            "broker.id": "0",
            "zookeeper.connect": f"{zookeeper.connect_string}/replay-{generation}",
            # The port that the genuine brokers advertised; ours listens on another one.
            "advertised.host.name": "127.0.0.1",
            "advertised.port": port,
            "port": "0",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.message.format.version": "0.8.2" if generation == V08 else "2.3-IV1",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "5",
        },
    )
    process.start()
    return process


def real_port(process: BrokerProcess) -> int:
    """Return the port that the broker listens on: its ready line has the advertised one."""
    text = process.log_path.read_text()
    return int(text.rpartition("listening address=127.0.0.1:")[2].split()[0])


@pytest.fixture(scope="module", params=[V08, V23])
def replayed(
    request: pytest.FixtureRequest,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, list[tuple[Exchange, bytes | None]]]]:
    generation: str = request.param
    process = start_broker(zookeeper, tmp_path_factory.mktemp("replay"), generation)
    try:
        yield generation, replay(process, generation)
    finally:
        process.stop()


def replay(process: BrokerProcess, generation: str) -> list[tuple[Exchange, bytes | None]]:
    port = real_port(process)
    if generation == V23:
        prepare(port)
    wire = Wire(("127.0.0.1", port))
    members: dict[str, str] = {}
    done = []
    for exchange in load(generation):
        answer = wire.ask(with_own_members(exchange, members))
        if exchange.api_key == ApiKey.JOIN_GROUP and answer and exchange.response:
            genuine = decode_response(exchange.api_key, exchange.version, exchange.response)[1]
            ours = decode_response(exchange.api_key, exchange.version, answer)[1]
            members[genuine.member_id] = ours.member_id
        done.append((exchange, answer))
        if "auto-create" in exchange.name:
            settle(port, offsets_topic=False)
        if exchange.api_key == ApiKey.FIND_COORDINATOR:
            settle(port, offsets_topic=True)
    wire.close()
    return done


def prepare(port: int) -> None:
    """Store 9 messages in `wire-t`, as the genuine 2.3.0 broker had."""
    with BrokerConnection(get_runtime("threads"), "127.0.0.1", port) as connection:
        connection.request(CreateTopicsRequest(topics=[NewTopic("wire-t", 1, 1)]))
        for _ in range(3):
            builder = MessageSetBuilder(2)
            for number in range(3):
                builder.append(b"k", b"value-%d" % number, timestamp_ms=-1)
            data = ProduceRequestPartition(0, builder.build())
            connection.request(ProduceRequest(topics=[ProduceRequestTopic("wire-t", [data])]))


def settle(port: int, *, offsets_topic: bool) -> None:
    """Wait until the topics have leaders, as the recorder did between its requests."""
    with BrokerConnection(get_runtime("threads"), "127.0.0.1", port) as connection:

        def settled() -> bool:
            topics = connection.request(MetadataRequest(None)).topics
            led = [not part.error_code for topic in topics for part in topic.partitions]
            found = True
            if offsets_topic:
                found = not connection.request(FindCoordinatorRequest(key="any"), 0).error_code
            return bool(led) and all(led) and found

        eventually(settled, "all topics are led")


def with_own_members(exchange: Exchange, members: dict[str, str]) -> bytes:
    """Replace the genuine broker's member ids by ours."""
    if not supported(exchange.api_key, exchange.version):
        return exchange.request
    header, request = decode_request(exchange.request)
    if getattr(request, "member_id", None) not in members:
        return exchange.request
    request.member_id = members[request.member_id]
    for given in getattr(request, "assignments", []):
        given.member_id = members[given.member_id]
    header = RequestHeader(
        header.api_key, header.api_version, header.correlation_id, header.client_id
    )
    return b"".join(encode_request(header, request))[4:]  # type: ignore[arg-type]


def comparable(exchange: Exchange, answer: bytes) -> Any:
    """Return the parts of an answer that must be equal."""
    correlation_id, response = decode_response(exchange.api_key, exchange.version, answer)
    assert correlation_id == exchange.correlation_id
    again = b"".join(encode_response(correlation_id, response, exchange.version))  # type: ignore[arg-type]
    if not (exchange.api_key == ApiKey.LIST_OFFSETS and exchange.version == 5):
        assert again[4:] == answer
    found = plain(response)
    mask(exchange.api_key, found)
    return found


def mask(api_key: int, found: dict[str, Any]) -> None:
    """Remove fields that differ from run to run, and decode stored records."""
    for topic in found.get("topics") or []:
        # Genuine brokers keep topics and partitions in hash maps.
        if isinstance(topic.get("partitions"), list):
            topic["partitions"].sort(key=lambda partition: partition["partition"])
    if found.get("topics") and api_key != ApiKey.API_VERSIONS:
        found["topics"].sort(key=lambda topic: topic["topic"])
    if api_key == ApiKey.METADATA:
        found["cluster_id"] = found["cluster_id"] is not None
    if api_key == ApiKey.FETCH:
        for topic in found["topics"]:
            for partition in topic["partitions"]:
                partition["records"] = content(partition["records"])
    if api_key in (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS):
        for topic in found["topics"]:
            # The protocol demands a message; its words are the broker's own.
            topic["error_message"] = topic["error_message"] is not None
    if api_key == ApiKey.JOIN_GROUP:
        for name in ("leader", "member_id"):
            found[name] = bool(found[name])
        for member in found["members"]:
            member["member_id"] = bool(member["member_id"])
    if api_key == ApiKey.DESCRIBE_GROUPS:
        for group in found["groups"]:
            for member in group["members"]:
                member["member_id"] = bool(member["member_id"])
    if api_key == ApiKey.LIST_GROUPS:
        found["groups"].sort(key=lambda group: group["group_id"])


def exception_for(
    generation: str, exchange: Exchange
) -> tuple[str, ApiKey, int | None, str] | None:
    for key in EXCEPTIONS:
        of, api_key, version, name = key
        if (
            of == generation
            and api_key == exchange.api_key
            and version in (exchange.version, None)
            and name in exchange.name
        ):
            return key
    return None


def test_answers_equal_genuine_ones_or_have_a_reason(
    replayed: tuple[str, list[tuple[Exchange, bytes | None]]],
) -> None:
    generation, exchanges = replayed
    unexplained: list[str] = []
    needed: set[tuple[str, ApiKey, int | None, str]] = set()
    for exchange, answer in exchanges:
        difference = difference_of(exchange, answer)
        if difference is None:
            continue
        exception = exception_for(generation, exchange)
        if exception is None:
            unexplained.append(f"line {exchange.line} {exchange.name}: {difference}")
        else:
            needed.add(exception)
    if unexplained:
        pytest.fail("\n".join(unexplained))
    assert needed == {key for key in EXCEPTIONS if key[0] == generation}


def difference_of(exchange: Exchange, answer: bytes | None) -> str | None:
    """Return both answers if they differ, else None."""
    if answer is exchange.response is None:
        return None
    if answer is None or exchange.response is None:
        return f"genuine {exchange.response!r}, ours {answer!r}"
    genuine = comparable(exchange, exchange.response)
    ours = comparable(exchange, answer)
    return None if ours == genuine else f"genuine {genuine}\n    ours {ours}"
