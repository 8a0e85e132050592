"""`zkbroker produce` and `zkbroker consume` as parts of a pipe, against real brokers."""

import json
import subprocess
import sys

import pytest

from zkbroker.registry import paths
from zkbroker.registry.group_offsets import read_offset
from zkbroker.zookeeper import ZkSession


@pytest.fixture(scope="module")
def cluster(local_cluster):
    with local_cluster(brokers=2, properties={"num.partitions": "4"}) as started:
        started.create_topic("t")
        yield started


@pytest.fixture
def shell(cluster):
    """`zkbroker` as a process of its own, with pipes."""

    def run(*arguments, stdin=b""):
        return subprocess.run(
            [sys.executable, "-m", "zkbroker.cli", *arguments],
            input=stdin,
            stdout=subprocess.PIPE,
            env={"ZKBROKER_BOOTSTRAP": cluster.bootstrap_servers},
            timeout=300,
            check=True,
        ).stdout

    return run


@pytest.fixture
def zkbroker(cluster, tool):
    """`zkbroker` in this process."""

    def run(*arguments, stdin=None, status=0):
        found = tool(
            *arguments, stdin=stdin, status=status, ZKBROKER_BOOTSTRAP=cluster.bootstrap_servers
        )
        return found.encode()

    return run


def test_lines_are_produced_and_consumed(shell, zkbroker, cluster):
    topic = cluster.create_topic(partitions=1)
    shell("produce", "-t", topic, stdin=b"one\ntwo\n\nlast without end")
    assert shell("consume", "-t", topic, "-e") == b"one\ntwo\n\nlast without end\n"
    assert zkbroker("consume", "-t", topic, "-c", "2") == b"one\ntwo\n"
    assert zkbroker("consume", "-t", topic, "-o", "-1", "-e") == b"last without end\n"
    assert zkbroker("consume", "-t", topic, "-o", "1", "-c", "1") == b"two\n"
    assert zkbroker("consume", "-t", topic, "-o", "end", "-e") == b""


def test_terminated_member_commits_and_leaves_group(zkbroker, cluster):
    topic = cluster.create_topic(partitions=1)
    zkbroker("produce", "-t", topic, stdin=b"one\ntwo\n")
    options = ["-z", cluster.zookeeper, "-G", "ended", "-u", "-X", "auto.offset.reset=smallest"]
    member = subprocess.Popen(
        [sys.executable, "-m", "zkbroker.cli", "consume", topic, *options],
        stdout=subprocess.PIPE,
    )
    try:
        assert [member.stdout.readline() for _ in range(2)] == [b"one\n", b"two\n"]
        member.terminate()
        assert member.wait(300) == 143
    finally:
        member.kill()
    with ZkSession(cluster.zookeeper) as session:
        assert session.children(paths.consumer_ids("ended")) == []
        # the message in hand may be left out
        assert read_offset(session, "ended", topic, 0)[0] in (1, 2)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_nulls_headers_and_codecs(zkbroker, cluster, codec):
    topic = cluster.create_topic(partitions=1)
    zkbroker(
        "produce", "-t", topic, "-K", ":", "-Z", "-H", "from=test", "--codec", codec,
        stdin=b"a:1\nb:\n:3\nno key\n",
    )  # fmt: skip
    shown = zkbroker("consume", "-t", topic, "-e", "-Z", "-f", "%o %k=%s %K %S %h\\n")
    assert shown.splitlines() == [
        b"0 a=1 1 1 from=test",
        b"1 b=NULL 1 -1 from=test",
        b"2 NULL=3 -1 1 from=test",
        b"3 NULL=no key -1 6 from=test",
    ]


def test_fixed_key_uses_one_partition_and_json_output(zkbroker, cluster):
    topic = cluster.create_topic(partitions=4)
    zkbroker("produce", "-t", topic, "-k", "member", stdin=b"".join(b"%d\n" % n for n in range(50)))
    lines = [json.loads(line) for line in zkbroker("consume", "-t", topic, "-e", "-J").splitlines()]
    assert [line["payload"] for line in lines] == [str(n) for n in range(50)]
    assert len({line["partition"] for line in lines}) == 1
    chosen = str(lines[0]["partition"])
    assert len(zkbroker("consume", "-t", topic, "-p", chosen, "-e").splitlines()) == 50


def test_consume_by_timestamp(zkbroker, cluster):
    topic = cluster.create_topic(partitions=1)
    zkbroker("produce", "-t", topic, stdin=b"early\n")
    zkbroker("produce", "-t", topic, stdin=b"late\n")
    first, second = (
        json.loads(line) for line in zkbroker("consume", "-t", topic, "-e", "-J").splitlines()
    )
    assert first["ts"] < second["ts"]
    late = str(second["ts"])
    assert zkbroker("consume", "-t", topic, "-o", f"s@{late}", "-e") == b"late\n"
    assert zkbroker("consume", "-t", topic, "-o", f"e@{late}") == b"early\n"


def test_file_is_one_message(zkbroker, cluster, tmp_path):
    topic = cluster.create_topic(partitions=1)
    (tmp_path / "a").write_bytes(b"line\nline\0binary")
    zkbroker("produce", "-t", topic, str(tmp_path / "a"))
    assert zkbroker("consume", "-t", topic, "-e", "-D", "") == b"line\nline\0binary"


def test_group_continues_from_its_commit(zkbroker, cluster):
    topic = cluster.create_topic(partitions=2)
    zkbroker("produce", "-t", topic, stdin=b"".join(b"%d\n" % n for n in range(10)))
    group = [
        "consume", "-z", cluster.zookeeper, "-G", "pipe", topic, "-X", "auto.offset.reset=smallest"
    ]  # fmt: skip
    seen = zkbroker(*group, "-c", "4").splitlines() + zkbroker(*group, "-c", "6").splitlines()
    assert sorted(map(int, seen)) == list(range(10))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["consume", "-t", "t", "-o", "middle"], b"give beginning, end, stored"),
        (["consume", "-t", "t", "-f", "%q"], b"%q"),
        (["consume", "-t", "t", "-o", "stored", "-e"], b"group.id"),
        (["produce", "-t", "bad/name"], b"bad/name"),
    ],
)
def test_invalid_arguments_are_refused(zkbroker, arguments, message):
    assert message in zkbroker(*arguments, stdin=b"x\n", status=1)


def test_perf_output_matches_genuine_tools(zkbroker, cluster):
    topic = cluster.create_topic(partitions=2)
    header, row = (
        zkbroker("perf", "produce", "-t", topic, "--messages", "5000", "--threads", "2")
        .decode()
        .splitlines()
    )
    assert header == (
        "start.time, end.time, compression, message.size, batch.size, "
        "total.data.sent.in.MB, MB.sec, total.data.sent.in.nMsg, nMsg.sec"
    )
    assert row.split(", ")[2:6] == ["0", "100", "200", "0.48"]
    assert row.split(", ")[7] == "5000"
    header, row = (
        zkbroker("perf", "consume", "-t", topic, "--messages", "5000").decode().splitlines()
    )
    assert header == (
        "start.time, end.time, fetch.size, data.consumed.in.MB, MB.sec, "
        "data.consumed.in.nMsg, nMsg.sec"
    )
    assert row.split(", ")[2:4] == ["1048576", "0.4768"]
    assert row.split(", ")[5] == "5000"
    assert b"fewer than 5001" in zkbroker(
        "perf", "consume", "-t", topic, "--messages", "5001", status=1
    )


def test_topic_is_replayed_into_another(zkbroker, cluster):
    source, target = cluster.create_topic(partitions=2), cluster.create_topic(partitions=3)
    zkbroker("produce", "-t", source, "-K", ":", stdin=b"a:1\nb:2\na:3\n")
    assert b"replayed 3 messages" in zkbroker("replay", "--from", source, "--to", target)
    shown = zkbroker("consume", "-t", target, "-e", "-K", ":").splitlines()
    assert sorted(shown) == [b"a:1", b"a:3", b"b:2"]
    assert shown.index(b"a:1") < shown.index(b"a:3")
