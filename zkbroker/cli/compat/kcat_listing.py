"""Brokers, partitions and offsets in kcat's form: its modes -L and -Q."""

import click

from zkbroker.cli.connection import open_cluster
from zkbroker.cli.output import print_json, say
from zkbroker.cli.security import current_security
from zkbroker.client.metadata_source import parse_address
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.errors import (
    ClientError,
    ConfigError,
    ErrorCode,
    NetworkError,
    RequestTimedOut,
    UnknownTopicOrPartition,
    ZkbrokerError,
)
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import MetadataRequest, MetadataResponse
from zkbroker.runtime import get_runtime

_METADATA_VERSION = 1


def list_metadata(bootstrap: str, topics: list[str], *, as_json: bool) -> None:
    """Print the output of `kcat -L`.

    Args:
        bootstrap: brokers; the first that answers is asked.
        topics: the last one is listed; without any, all are.
        as_json: as one JSON object.

    Raises:
        ClientError: no broker answers.
    """
    topic = topics[-1] if topics else None
    answer, address = _ask(bootstrap, MetadataRequest(None if topic is None else [topic]))
    names = {broker.node_id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
    asked = next((number for number, name in names.items() if name == address), -1)
    origin = f"{address}/{asked if asked >= 0 else 'bootstrap'}"
    if as_json:
        shown = _as_json(answer, names, asked, origin, topic)
        print_json(shown, compact=True)
        return
    say(f"Metadata for {topic or 'all topics'} (from broker {asked}: {origin}):")
    say(f" {len(answer.brokers)} brokers:")
    for broker in sorted(answer.brokers, key=lambda each: each.node_id):
        mark = " (controller)" if broker.node_id == answer.controller_id else ""
        say(f"  broker {broker.node_id} at {names[broker.node_id]}{mark}")
    say(f" {len(answer.topics)} topics:")
    for each in sorted(answer.topics, key=lambda each: each.topic):
        count, fault = len(each.partitions), _fault(each.error_code)
        say(f'  topic "{each.topic}" with {count} partitions:{fault}')
        for part in sorted(each.partitions, key=lambda part: part.partition):
            say(
                f"    partition {part.partition}, leader {part.leader}, "
                f"replicas: {','.join(map(str, part.replicas))}, "
                f"isrs: {','.join(map(str, part.isr))}{_fault(part.error_code, ',')}"
            )


def _ask(bootstrap: str, request: MetadataRequest) -> tuple[MetadataResponse, str]:
    """Ask the first broker that answers; returns its address too."""
    unreached: ZkbrokerError = ClientError("no broker is named")
    for address in bootstrap.split(","):
        host, port = parse_address(address)
        try:
            with BrokerConnection(
                get_runtime("threads"), host, port, security=current_security()
            ) as connection:
                answer: MetadataResponse = connection.request(request, _METADATA_VERSION)
                return answer, f"{host}:{port}"
        except (NetworkError, RequestTimedOut) as error:
            unreached = error
    raise unreached


def _fault(code: int, before: str = "") -> str:
    if not code:
        return ""
    again = " (try again)" if code == ErrorCode.LEADER_NOT_AVAILABLE else ""
    name = ErrorCode(code).name.replace("_", " ").capitalize()
    return f"{before} Broker: {name}{again}"


def _as_json(
    answer: MetadataResponse, names: dict[int, str], asked: int, origin: str, topic: str | None
) -> dict[str, object]:
    return {
        "originating_broker": {"id": asked, "name": origin},
        "query": {"topic": topic or "*"},
        "controllerid": answer.controller_id,
        "brokers": [{"id": number, "name": names[number]} for number in sorted(names)],
        "topics": [
            {
                "topic": each.topic,
                **({"error": _fault(each.error_code).strip()} if each.error_code else {}),
                "partitions": [
                    {
                        "partition": part.partition,
                        **({"error": _fault(part.error_code).strip()} if part.error_code else {}),
                        "leader": part.leader,
                        "replicas": [{"id": number} for number in part.replicas],
                        "isrs": [{"id": number} for number in part.isr],
                    }
                    for part in sorted(each.partitions, key=lambda part: part.partition)
                ],
            }
            for each in sorted(answer.topics, key=lambda each: each.topic)
        ],
    }


def query_offsets(bootstrap: str, topics: list[str], *, as_json: bool) -> None:
    """Print the output of `kcat -Q`; the last `topic:partition:timestamp` of a partition counts.

    Raises:
        ConfigError: one is not of that form.
        ProtocolError: a partition does not exist, or a broker refuses.
    """
    wanted: dict[tuple[str, int], int] = {}
    for text in topics:
        name, _, rest = text.partition(":")
        number, _, when = rest.partition(":")
        if not name or not number.isdecimal() or not when.removeprefix("-").isdecimal():
            raise ConfigError(f"-t {text}: give TOPIC:PARTITION:TIMESTAMP with -Q")
        wanted[name, int(number)] = int(when)
    if not wanted:
        raise click.UsageError("-t TOPIC:PARTITION:TIMESTAMP is missing")
    with open_cluster(bootstrap, None) as cluster:
        cluster.refresh(sorted({topic for topic, _ in wanted}))
        for key in wanted:
            if key[1] not in {each.partition for each in cluster.partitions(key[0])}:
                raise UnknownTopicOrPartition(f"{key[0]} [{key[1]}] does not exist")
        offsets = resolve_offsets(cluster, dict(sorted(wanted.items())))
        found = {key: -1 if offset is None else offset for key, offset in offsets.items()}
    if not as_json:
        for (topic, partition), offset in found.items():
            say(f"{topic} [{partition}] offset {offset}")
        return
    shown: dict[str, dict[str, object]] = {}
    for (topic, partition), offset in found.items():
        shown.setdefault(topic, {"topic": topic})[str(partition)] = {
            "partition": partition,
            "offset": offset,
        }
    print_json(shown, compact=True)
