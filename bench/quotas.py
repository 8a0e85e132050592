"""The cost of quotas: CPU of a broker for each produce request, without and with quotas.

One connection sends small produce requests, many in flight. The CPU time of the broker is read
before and after. Three cases take turns within each round: no quota, a quota of another client, and
quotas of this client that it never reaches.

    python -m bench.quotas [--requests 20000] [--rounds 5]
"""

import argparse
import statistics
import tempfile
import time
from collections import deque

from bench.figures import cpu_seconds
from zkbroker.cluster import ClusterProcesses
from zkbroker.network.client.connection import BrokerConnection, Pending
from zkbroker.protocol.messages import ProduceRequest
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import Codec, MessageSetBuilder
from zkbroker.registry.topics import create_topic
from zkbroker.registry.user_configs import ConfigEntity, change_entity_config
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession

TOPIC, CLIENT = "bench", "measured"
IN_FLIGHT = 50
MUCH = {"producer_byte_rate": str(10**12), "request_percentage": "1000000"}
CASES = {"no quota": None, "another client's": "other", "its own": CLIENT}


def _request() -> ProduceRequest:
    builder = MessageSetBuilder(2, Codec.NONE)
    builder.append(None, b"x" * 100, timestamp_ms=int(time.time() * 1000))
    partition = ProduceRequestPartition(0, builder.build())
    return ProduceRequest(topics=[ProduceRequestTopic(TOPIC, [partition])])


def measure(connection: BrokerConnection, pid: int, requests: int) -> float:
    """Return the microseconds of the broker's CPU that one request took."""
    request, open_ = _request(), deque[Pending]()
    before = cpu_seconds(pid)
    for _ in range(requests):
        open_.append(connection.send(request))
        if len(open_) >= IN_FLIGHT:
            open_.popleft().result()
    while open_:
        open_.popleft().result()
    return (cpu_seconds(pid) - before) / requests * 1e6


def set_quotas(session: ZkSession, holder: str | None) -> None:
    """Set quotas of one client only, and give the broker time to apply them."""
    for client in (CLIENT, "other"):
        wanted = MUCH if client == holder else dict.fromkeys(MUCH)
        change_entity_config(session, ConfigEntity(client=client), wanted)
    time.sleep(0.5)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        ClusterProcesses(directory, brokers=1) as cluster,
        ZkSession(cluster.zookeeper) as session,
    ):
        (broker,) = cluster.brokers
        assert broker.pid is not None
        create_topic(session, TOPIC, {0: [broker.id]})
        host, port = broker.address
        runtime = get_runtime("threads")
        found: dict[str, list[float]] = {case: [] for case in CASES}
        with BrokerConnection(runtime, host, port, client_id=CLIENT) as connection:
            time.sleep(1)
            measure(connection, broker.pid, 2000)
            for _ in range(chosen.rounds):
                for case, holder in CASES.items():
                    set_quotas(session, holder)
                    found[case].append(measure(connection, broker.pid, chosen.requests))
    base = statistics.median(found["no quota"])
    for case, times in found.items():
        median = statistics.median(times)
        print(f"{case:<18} {median:7.1f} us of CPU a request   {median / base:5.2f}")


if __name__ == "__main__":
    main()
