"""Commands on a 0.7 cluster, and an access log through both generations."""

import json

from examples.demo import access_log
from tests.support.client07 import Broker07, Member07, broker_address, parse
from tests.support.cluster07 import cluster07, commits, ends
from tests.support.clusters import TestCluster
from tests.support.mirroring import caught_up, config
from tests.support.zookeeper import until
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.generation import GENERATION
from zkbroker.consumer import Consumer
from zkbroker.legacy07.producer_config import ProducerConfig07
from zkbroker.mirror import SourceConfig
from zkbroker.producer import KeyedMessage, Producer


def test_produce_and_consume_commands_work_on_0_7_cluster(tmp_path, chroot, tree, tool):
    with cluster07(tmp_path, chroot, tree):
        where = ("--kafka-generation", "0.7", "-z", tree.connect_string)
        lines = [f"{n:03}" for n in range(60)]
        tool("produce", *where, "-t", "t", "--codec", "gzip", stdin="\n".join(lines) + "\n")
        until(lambda: len(ends(tree, "t")) == 4)
        # Both brokers have all their partitions now; a key chooses one of four.
        keyed = "".join(f"k{n % 7}:keyed {n}\n" for n in range(40))
        tool("produce", *where, "-t", "t", "-K", ":", stdin=keyed)
        tool("produce", *where, "-t", "t", "-p", "1-1", stdin="there\n")
        host, port = broker_address(tree, 0)
        listed = ("-X", "kafka.generation=0.7", "-b", f"{host}:{port}")
        tool("produce", *listed, "-t", "t", stdin="listed\n")
        wanted = sorted([*lines, *(f"keyed {n}" for n in range(40)), "there", "listed"])

        def all_read():
            out = tool("consume", *where, "-t", "t", "-o", "beginning", "-e")
            return sorted(out.splitlines()) == wanted

        until(all_read, 120)
        out = tool("consume", *where, "-t", "t", "-p", "1-1", "-o", "beginning", "-e", "-J")
        rows = [json.loads(line) for line in out.splitlines()]
        assert {row["partition"] for row in rows} == {"1-1"}
        assert rows[-1]["payload"] == "there"
        assert rows[-1]["offset"] == ends(tree, "t")["1-1"]
        last = rows[-2]["offset"]
        again = ("-t", "t", "-p", "1-1", "-o", str(last), "-e", "-f", "%p %o %s\\n")
        assert tool("consume", *where, *again) == f"1-1 {rows[-1]['offset']} there\n"
        out = tool(
            "consume", *where, "-G", "g", "t", "-c", str(len(wanted)),
            "-X", "fetcher.backoff.ms=50",
        )  # fmt: skip
        assert sorted(out.splitlines()) == wanted
        assert commits(tree, "g", "t") == ends(tree, "t")
        refused = tool("consume", *where, "-t", "t", "-p", "7-0", "-e", status=1)
        assert "has no partition 7-0; it has 0-0, 0-1, 1-0, 1-1" in refused
        refused = tool("consume", *where, "-t", "t", "-o", "-5", "-e", status=1)
        assert "a position in bytes" in refused
        refused = tool("produce", *where, "-t", "t", "-H", "a=b", status=2)
        assert "no headers" in refused


def test_access_log_is_mirrored_from_0_7_and_produced_back(tmp_path, chroot, tree, tool):
    access_log.generate(tmp_path / "access.log", 3_000)
    lines = (tmp_path / "access.log").read_bytes().splitlines()
    with (
        cluster07(tmp_path / "old", chroot, tree),
        TestCluster(1, zookeeper=f"{chroot}/here") as here,
    ):
        where = ("--kafka-generation", "0.7", "-z", tree.connect_string)
        tool(
            "produce", *where, "-t", "visits", "--codec", "snappy",
            stdin=(tmp_path / "access.log").read_bytes(),
        )  # fmt: skip
        here.create_topic("visits", partitions=3)
        old = {GENERATION: "0.7", "zk.connect": tree.connect_string, "groupid": "mirror"}
        source = SourceConfig(properties=old, label="old")
        until(lambda: len(ends(tree, "visits")) == 4)
        with caught_up(config([source], here, whitelist="visits")):
            pass
        assert commits(tree, "mirror", "visits") == ends(tree, "visits")
        newer = ConsumerConfig(
            group_id="back",
            zookeeper_connect=here.zookeeper,
            auto_offset_reset="smallest",
            consumer_timeout_ms=120_000,
        )
        settings = ProducerConfig07(
            zookeeper_connect=tree.connect_string,
            producer_type="async",
            enqueue_timeout_ms=-1,
            linger_ms=20,
        )
        with Consumer.create(newer) as connector, Producer(settings) as producer:
            (stream,) = connector.create_message_streams({"visits": 1})["visits"]
            seen = []
            for message in stream:
                seen.append(message.value)
                producer.send(KeyedMessage("back", message.value))
                if len(seen) == len(lines):
                    break
            producer.flush()
        assert sorted(seen) == sorted(lines)
        member = Member07(tree.connect_string, "old readers", {"back": 1}).start()
        until(lambda: len(member.messages) >= len(lines), 90)
        assert sorted(payload for *_, payload in member.messages) == sorted(lines)
        member.close()
        # The logs hold the messages in the format of 0.7.
        broker = Broker07(*broker_address(tree, 0))
        ((error, data),) = broker.multifetch([("back", 0, 0)])
        assert error == 0
        assert parse(data)
        broker.close()
