"""Recorded transactional requests get the answers of a genuine 2.3.0 broker from ours.

`DIFFERENCES` has every difference, with its reason; an entry that does not occur fails the test.
"""

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import MortalBroker
from tests.support.recorded_exchanges import Exchange, Wire, plain
from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import ApiKey, decode_request, decode_response, supported
from zkbroker.protocol.messages import CreateTopicsRequest, FindCoordinatorRequest
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.records import iter_records
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

DATA = Path(__file__).parent / "data" / "transactions"
RAW, RAW2 = "transactions-raw-2.3.0", "transactions-raw2-2.3.0"
TOPICS = {RAW: "tx-raw", RAW2: "tx-raw2"}
FIRST_PRODUCER_ID = {RAW: 25, RAW2: 0}

_ASKED = "a transaction begins only if its coordinator knows it, so that none is left open"
_NO_HANG = "the genuine broker left a transaction open here, ours refused its batch"
_UNKNOWN = "an unknown producer may begin at any sequence, as with brokers from 2.5 on"
_AFTER = "ours accepted the batch of the unknown producer before"
DIFFERENCES: dict[tuple[str, str], str] = {
    (RAW, "unknown producer id, sequence 3"): _UNKNOWN,
    (RAW, "Produce v7 idempotent, sequence "): _AFTER,
    (RAW2, "new epoch, sequence 5"): _ASKED,
    (RAW2, "future epoch, sequence 0"): _ASKED,
    (RAW2, "ListOffsets v5 read_committed latest"): _NO_HANG,
    (RAW2, "Fetch v11 read_committed from 0, both"): _NO_HANG,
    (RAW2, "Fetch v11 read_uncommitted from 0"): _NO_HANG,
    (RAW2, "idempotent, unknown producer"): _UNKNOWN,
    (RAW2, "idempotent, sequence 0"): _AFTER,
    (RAW2, "idempotent, producer epoch -1"): _AFTER,
    (RAW2, "Produce v2 magic 2 batch"): _AFTER,
}
"""(file, part of the row's name) → the reason why our answer differs."""

READ_ONLY = {ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR}
NOT_YET = {14, 15, 16, 51}


def load(name: str) -> list[Exchange]:
    """Return the rows that use only the topic which they fill themselves."""
    found = []
    lines = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).splitlines()
    for number, line in enumerate(lines, 1):
        row = json.loads(line)
        if "marker-sender" in row["name"]:
            continue  # sent by the broker to itself
        if supported(row["api_key"], row["api_version"]):
            request = decode_request(bytes.fromhex(row["request"]))[1]
            names = getattr(request, "topics", None) or ()
            topics = {getattr(topic, "topic", topic) for topic in names}
            if topics - {TOPICS[name], "no-such-topic", "__consumer_offsets"}:
                continue  # filled by other clients
        if "after a restart" in row["name"]:
            continue
        if "at once" in row["name"]:
            # The answer is 51 while markers are still being written, which depends on timing;
            # tests/unit/coordinator/transactions tests it with brokers that do not answer.
            continue
        found.append(Exchange.from_row(number, row))
    return found


def codes(value: Any) -> list[int]:
    """Return every error code in a decoded answer."""
    if isinstance(value, dict):
        own = [value["error_code"]] if value.get("error_code") else []
        return own + [code for each in value.values() for code in codes(each)]
    if isinstance(value, list):
        return [code for each in value for code in codes(each)]
    return []


def comparable(exchange: Exchange, answer: bytes | None) -> Any:
    """Return the parts of an answer that must be equal; decoding checks the layout."""
    if answer is None:
        return None
    _, response = decode_response(exchange.api_key, exchange.version, answer)
    found = plain(response)
    if exchange.api_key == ApiKey.FIND_COORDINATOR:
        for name in ("error_message", "port"):
            found[name] = None
    for topic in found.get("topics") or ():
        partitions = topic.get("partitions") or []
        partitions.sort(key=lambda each: each["partition"])
        for partition in partitions:
            if "records" in partition:
                partition["records"] = [
                    (each.offset, each.key, each.value)
                    for each in iter_records(partition["records"] or b"")
                ]
            if exchange.api_key == ApiKey.PRODUCE and partition["error_code"]:
                # With an error the genuine answer has more fields set.
                partition.pop("log_append_time_ms")
                partition.pop("log_start_offset")
    if found.get("topics"):
        found["topics"].sort(key=lambda topic: topic["topic"])
    return found


@pytest.fixture(scope="module", params=[RAW, RAW2])
def replayed(
    request: pytest.FixtureRequest,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, list[tuple[Exchange, Any, Any]]]]:
    name: str = request.param
    process = MortalBroker(
        tmp_path_factory.mktemp("transactions"),
        {
            "broker.id": "0",
            "zookeeper.connect": f"{zookeeper.connect_string}/{name}",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.message.format.version": "2.3-IV1",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.num.partitions": "5",
            "log.retention.ms": "-1",
            # One run without verification, like the genuine broker; one with it, our default.
            "transaction.partition.verification.enable": str(name == RAW2).lower(),
        },
    )
    process.start()
    try:
        prepare(process, zookeeper, name)
        yield name, replay(process, name)
    finally:
        process.stop()


def prepare(process: BrokerProcess, zookeeper: EmbeddedZooKeeper, name: str) -> None:
    host, port = process.address
    first = FIRST_PRODUCER_ID[name]
    if first:
        with ZkSession(f"{zookeeper.connect_string}/{name}") as session:
            block = {"version": 1, "broker": 0, "block_start": "0", "block_end": str(first - 1)}
            session.create("/latest_producer_id_block", json.dumps(block).encode())
    with BrokerConnection(get_runtime("threads"), host, port) as connection:
        connection.request(CreateTopicsRequest(topics=[NewTopic(TOPICS[name], 2, 1)]))
        for key_type in (0, 1) if name == RAW else (0,):
            asked = FindCoordinatorRequest(key="any", key_type=key_type)
            while connection.request(asked).error_code:
                time.sleep(0.05)
        while connection.request(FindCoordinatorRequest(key="x")).error_code:
            time.sleep(0.05)


def replay(process: BrokerProcess, name: str) -> list[tuple[Exchange, Any, Any]]:
    wire = Wire(process.address)
    done = []
    for exchange in load(name):
        genuine = comparable(exchange, exchange.response)
        if exchange.api_key == ApiKey.PRODUCE and genuine is None:
            # acks=0 has no answer, and keeps the connection.
            wire.send(exchange.request)
            done.append((exchange, None, None))
            continue
        differs = any(key[0] == name and key[1] in exchange.name for key in DIFFERENCES)
        deadline = time.monotonic() + (0 if differs else 60)
        while True:
            ours = comparable(exchange, wire.ask(exchange.request))
            # The genuine broker had time to finish before the request.
            early = exchange.api_key in READ_ONLY or (
                NOT_YET & set(codes(ours)) and not NOT_YET & set(codes(genuine))
            )
            if ours == genuine or not early or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        done.append((exchange, genuine, ours))
    wire.close()
    return done


def test_answers_equal_genuine_ones_or_have_a_reason(
    replayed: tuple[str, list[tuple[Exchange, Any, Any]]],
) -> None:
    name, rows = replayed
    unexplained, needed = [], set()
    for exchange, genuine, ours in rows:
        if genuine == ours:
            continue
        reasons = [key for key in DIFFERENCES if key[0] == name and key[1] in exchange.name]
        needed.update(reasons[:1])
        if not reasons:
            text = f"line {exchange.line} {exchange.name}:\n  genuine {genuine}\n  ours    {ours}"
            unexplained.append(text)
    assert not unexplained, "\n".join(unexplained)
    assert needed == {key for key in DIFFERENCES if key[0] == name}
