"""Time from a restart to serving, and from a new topic to its first message, against Kafka 0.8.2.2.

Both brokers run in turn on one machine with a running ZooKeeper. A broker with topics is stopped
cleanly and restarted, and measured from the start of its process (by the system, to a hundredth of
a second) until the leader of every partition answers for it. Then topics are created, each until
its first produce is acknowledged. A given checkout of zkbroker replaces the genuine broker; it
needs its own .venv.

    python -m bench.startup [CHECKOUT] [--partitions 100] [--created 20] [--rounds 5]
                            [--results DIR]
"""

import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.clusters import GENUINE, HERE, WITHIN_S, Cluster, need_genuine, start_cluster
from bench.figures import Comparison, Found, options, publish
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import ProduceRequest
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import encode_message_set
from zkbroker.registry.topics import create_topic
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

TOPIC = "many"
LOOK_S = 0.001


def age_s(pid: int) -> float:
    """Seconds since a process was started."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def restart_ms(cluster: Cluster, partitions: int) -> float:
    """Stop and start a broker; return the milliseconds from its start until all partitions are
    led.
    """
    (broker,) = cluster.brokers
    broker.stop()
    broker.start()
    cluster.wait_led(TOPIC, partitions)
    return age_s(broker.pid) * 1000


def first_message_ms(cluster: Cluster, topic: str) -> float:
    """Create a topic; return the milliseconds until a message in it is acknowledged."""
    data = encode_message_set([(None, b"first", 1_700_000_000_000, ())], magic=0)
    request = ProduceRequest(
        acks=1, topics=[ProduceRequestTopic(topic, [ProduceRequestPartition(0, data)])]
    )
    with BrokerConnection(get_runtime("threads"), "127.0.0.1", cluster.ports[0]) as connection:
        started = time.perf_counter()
        create_topic(cluster.session, topic, {0: [1]})
        while connection.request(request, 0).topics[0].partitions[0].error_code:
            if time.perf_counter() - started > WITHIN_S:
                raise TimeoutError(f"{topic} accepts no message")
            time.sleep(LOOK_S)
        return (time.perf_counter() - started) * 1000


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("other", type=Path, nargs="?", help="a checkout in place of 0.8.2.2")
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--created", type=int, default=20)
    given = parser.parse_args()
    if given.other is None:
        need_genuine()
    starts: list[list[float]] = [[], []]
    firsts: list[list[float]] = [[], []]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zkbroker-bench-")))
        connect = stack.enter_context(EmbeddedZooKeeper()).connect_string
        sides = [start_cluster(stack, directory, connect, each) for each in (HERE, given.other)]
        for side in sides:
            side.create(TOPIC, given.partitions)
        for number in range(given.rounds):
            for at in (0, 1) if number % 2 else (1, 0):
                starts[at].append(restart_ms(sides[at], given.partitions))
            times: list[list[float]] = [[], []]
            for each in range(given.created):
                for at, side in enumerate(sides):
                    times[at].append(first_message_ms(side, f"new-{number}-{each}"))
            for at in (0, 1):
                firsts[at].append(statistics.median(times[at]))
    name = GENUINE if given.other is None else str(given.other)
    found = [
        Comparison(work, "ms", name, *sides, more_is_better=False)
        for work, sides in (
            (f"start to serving, {given.partitions} partitions", starts),
            ("new topic to its first message", firsts),
        )
    ]
    publish(Found("start", found), given.results)


if __name__ == "__main__":
    main()
