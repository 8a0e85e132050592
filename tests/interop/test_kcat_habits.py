"""Commands of kcat and of `zkbroker kcat`: same output, same status."""

import json
import shutil
import subprocess

import pytest
from click.testing import CliRunner

from tests.support.clusters import module_cluster
from zkbroker.cli.main import cli
from zkbroker.errors import ZkbrokerError

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")


cluster = module_cluster(brokers=2)


@pytest.fixture(scope="module")
def filled(cluster):
    """Two topics: keys, headers, nulls and empty values in `mixed`, numbers in `binary`."""
    lines = b"k:v\n:empty key\nempty value:\nnone\na:b:c\n"
    kcat(cluster, "-P", "-t", "mixed", "-p", "0", "-K:", "-H", "x=1", "-H", "n", stdin=lines)
    kcat(cluster, "-P", "-t", "mixed", "-p", "0", "-K:", "-Z", stdin=lines)
    kcat(cluster, "-P", "-t", "binary", "-p", "0", "-D", "|", stdin=b"\0\0\0\7\0\0\0\10abc|")
    return cluster


def first_broker(cluster):
    # Of several kcat asks any, and prints which.
    return cluster.bootstrap_servers.split(",")[0]


def kcat(cluster, *arguments, stdin=b""):
    ran = subprocess.run(
        ["kcat", "-b", first_broker(cluster), *arguments],
        input=stdin,
        capture_output=True,
        timeout=300,
        check=False,
    )
    return ran.returncode, ran.stdout


def ours(cluster, *arguments, stdin=b""):
    ran = CliRunner().invoke(cli, ["kcat", "-b", first_broker(cluster), *arguments], input=stdin)
    if ran.exception is not None and not isinstance(ran.exception, SystemExit | ZkbrokerError):
        raise ran.exception
    return min(ran.exit_code, 1), ran.stdout_bytes


@pytest.mark.parametrize(
    "arguments",
    [
        "-C -t mixed -e",
        "-C -t mixed -e -q -u -v -E -m 3 -d broker",
        "-C -t mixed -c 3",
        "-C -t mixed -o beginning -e",
        "-C -t mixed -o end -e",
        "-C -t mixed -o -2 -e",
        "-C -t mixed -o -500 -e",
        "-C -t mixed -o 3 -e -p 0",
        "-C -t mixed -o 9999 -e",
        "-C -t mixed -o s@0 -o e@99999999999999 -e",
        "-C -t mixed -o s@99999999999999 -e",
        "-C -t mixed -e -f %t/%p/%o/%k/%K/%s/%S/%T/%h\\n",
        # Without the empty ones: kcat prints them as NULL too.
        "-C -t mixed -o 8 -e -Z -f %R|%k|%s|%%|\\x41|\\101|\\t|\\q|\\\\",
        "-C -t mixed -o 7 -e -Z -K =>",
        "-C -t mixed -e -D | -K \\t",
        "-C -t mixed -e -J",
        "-C -t mixed -e -J -Z",
        "-C -t mixed -e -X topic.auto.offset.reset=earliest -X isolation.level=read_uncommitted",
        "-C -t binary -c 1 -s value=iis",
        "-C -t binary -c 1 -s value=bBhc",
        "-C -t mixed -p 7 -e",
        "-C -t nowhere -e",
        "-C -t mixed -e -f %z",
        "-C -t mixed -e more",
        "-C",
        "-L",
        "-L -t mixed",
        "-L -J",
        "-L -t mixed -J",
        "-Q -t mixed:0:-1",
        "-Q -t mixed:0:-2 -t binary:0:-1",
        "-Q -t mixed:0:0 -t binary:0:0 -J",
        "-Q -t mixed:0:99999999999999",
        "-Q -t mixed:0",
        "-Q -t mixed:9:-1",
    ],
)
def test_reading(filled, arguments):
    given = arguments.split()
    assert ours(filled, *given) == kcat(filled, *given)


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        ("", "one\n\ntwo\nlast without end"),
        ("-Z", "one\n\ntwo\n"),
        ("-c 1", "one\ntwo\n"),
        ("-K :", "k:v\n:v\nk:\n:\nnone\na:b:c\n"),
        ("-K : -Z", "k:v\n:v\nk:\n:\nnone\na:b:c\n"),
        ("-K => -k fixed", "k=>v\nnone\n"),
        ("-H a=1 -H b= -H c -H a=2", "v\n"),
        ("-D ;", "a;b;c"),
        ("-D XY", "aXYbXYc"),
        ("-l {0}", ""),
        ("{0} {1}", ""),
        ("-l {0} {1}", ""),
        ("nowhere", ""),
        ("-l nowhere", ""),
        ("-z snappy", "a\nb\n"),
        ("-z zstd -X enable.idempotence=true", "a\nb\n"),
        ("-z bogus", "a\n"),
        ("-X linger.ms=5 -X acks=all -X topic.request.required.acks=1", "a\n"),
        ("-p 5", "a\n"),
        ("-p -1", "a\n"),
        ("-D ", "a\n"),
    ],
)
def test_writing(cluster, tmp_path, arguments, stdin):
    files = tmp_path / "lines", tmp_path / "whole"
    files[0].write_bytes(b"line 1\nline 2\n")
    files[1].write_bytes(b"all\nof it\n")
    given = [part.format(*files) for part in arguments.split(" ")] if arguments else []
    seen = []
    for run in (kcat, ours):
        topic = cluster.create_topic(partitions=1)
        status, _ = run(cluster, "-P", "-t", topic, *given, stdin=stdin.encode())
        _, written = kcat(cluster, "-C", "-t", topic, "-e", "-q", "-J")
        messages = [json.loads(line) for line in written.splitlines()]
        for message in messages:
            del message["topic"], message["ts"], message["broker"]
        seen.append((status, messages))
    assert seen[0] == seen[1]


def test_tee_prints_lines(cluster):
    topic = cluster.create_topic(partitions=1)
    assert ours(cluster, "-P", "-t", topic, "-T", stdin=b"a\nb\n") == (0, b"a\nb\n")


def test_mode_is_guessed_like_kcat(cluster):
    topic = cluster.create_topic(partitions=1)
    assert ours(cluster, "-t", topic, stdin=b"a\n") == (0, b"")
    assert kcat(cluster, "-C", "-t", topic, "-e", "-q") == (0, b"a\n")


def test_groups_are_shared_with_kcat(cluster):
    topic = cluster.create_topic(partitions=2)
    for partition in range(2):
        numbers = b"".join(b"%d\n" % number for number in range(partition, 100, 2))
        kcat(cluster, "-P", "-t", topic, "-p", str(partition), stdin=numbers)
    first = ("-G", topic, "-q", "-X", "auto.offset.reset=earliest")
    found = []
    for run, more in ((ours, ["-c", "30"]), (kcat, ["-c", "30"]), (ours, ["-e"])):
        status, shown = run(cluster, *first, *more, topic)
        assert status == 0
        found += shown.split()
    assert sorted(map(int, found)) == list(range(100))
    for run in (ours, kcat):
        assert run(cluster, *first, "-e", topic) == (0, b"")
    again = (*first, "-e", "-o", "-2", "^" + topic + "$")
    assert len(ours(cluster, *again)[1].split()) == len(kcat(cluster, *again)[1].split()) == 4


def test_settings_are_read_from_kcat_files(cluster, tmp_path, monkeypatch):
    topic = cluster.create_topic(partitions=1)
    kcat(cluster, "-P", "-t", topic, stdin=b"a\n")
    file = tmp_path / "kcat.conf"
    file.write_text(f"bootstrap.servers={cluster.bootstrap_servers}\n")
    wanted = ["-C", "-t", topic, "-e", "-q"]
    assert CliRunner().invoke(cli, ["kcat", "-F", str(file), *wanted]).stdout == "a\n"
    monkeypatch.setenv("KCAT_CONFIG", str(file))
    assert CliRunner().invoke(cli, ["kcat", *wanted]).stdout == "a\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["produce", "-L", "-t", "t"], "zkbroker metadata"),
        (["consume", "-Q", "-t", "t"], "zkbroker offsets get"),
        (["consume", "-P", "-t", "t"], "zkbroker produce"),
        (["kcat", "-C", "-t", "t"], "-b HOST:PORT is missing"),
        (["kcat", "-b", "h:1", "-C", "-t", "t", "-s", "avro", "-r", "u"], "Avro"),
        (["kcat", "-b", "h:1", "-Y"], "option -Y not recognized"),
    ],
)
def test_errors_name_command_to_use(arguments, message):
    ran = CliRunner().invoke(cli, arguments, env={"KCAT_CONFIG": "/dev/null"})
    assert ran.exit_code != 0
    assert message in ran.stderr


def test_own_commands_accept_kcat_options(cluster):
    topic = cluster.create_topic(partitions=1)
    servers = ["-b", cluster.bootstrap_servers, "-t", topic]
    sent = CliRunner().invoke(cli, ["produce", "-P", "-q", *servers, "-z", "snappy"], input="a\n\n")
    assert sent.exit_code == 0
    read = CliRunner().invoke(cli, ["consume", "-C", "-q", "-E", *servers, "-e", "-f", "%S|"])
    assert read.stdout == "1|0|"
