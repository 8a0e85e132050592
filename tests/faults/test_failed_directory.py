"""A full disk under a real broker: acknowledged messages stay.

The disk is a limit on the size of the files that the process may write: the kernel refuses the
write halfway, as it does when a device is full.
"""

import re
import resource
from contextlib import contextmanager

from click.testing import CliRunner

from tests.support.broker_requests import fetch, led, message_set, produce, values
from tests.support.brokers import MortalBroker, connect
from tests.support.process import wait_until
from zkbroker.cli.main import cli
from zkbroker.errors import ErrorCode

_LARGEST_FILE = 100_000


@contextmanager
def broker(tmp_path, chroot, *directories):
    properties = {
        "broker.id": "0",
        "zookeeper.connect": chroot,
        "log.dirs": ",".join(str(tmp_path / name) for name in directories),
        "log.index.size.max.bytes": "4096",
    }
    process = MortalBroker(tmp_path, properties)
    process.start()
    try:
        yield process
    finally:
        process.stop()


def fill(process, topic):
    """Produce until the disk is full; return the number of acknowledged messages."""
    with connect(process) as connection:
        assert wait_until(lambda: led(connection, topic))
        resource.prlimit(
            process.pid, resource.RLIMIT_FSIZE, (_LARGEST_FILE, resource.RLIM_INFINITY)
        )
        for count in range(1000):
            answer = produce(connection, topic, message_set(2, [b"%d" % count * 500]))
            if answer.error_code:
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                return count
    raise AssertionError("the disk was never full")


def test_broker_exits_without_loss_when_its_last_directory_fails(tmp_path, chroot):
    with broker(tmp_path, chroot, "only") as process:
        acknowledged = fill(process, "t")
        assert wait_until(lambda: not process.alive)
        assert process.ending() == "exited with status 1"
        assert "error: no data directory can be used" in process.log_tail()
        process.start()
        with connect(process) as connection:
            assert wait_until(lambda: led(connection, "t"))
            assert len(values(fetch(connection, "t", 0))) == acknowledged


def test_broker_continues_with_the_remaining_directory(tmp_path, chroot):
    with broker(tmp_path, chroot, "one", "two") as process:
        fill(process, "first")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        with connect(process) as connection:
            assert wait_until(lambda: led(connection, "second"))
            assert produce(connection, "second", message_set(2, [b"v"])).error_code == 0
            assert wait_until(lambda: not led(connection, "first"))
        assert process.alive
        host, port = process.address
        for where in (("-b", f"{host}:{port}"), ("-z", chroot)):
            ran = CliRunner().invoke(cli, ["health", *where])
            assert ran.exit_code == 1
            offline = re.findall(r"data directory (.+) of broker 0 is offline: ", ran.stdout)
            assert offline in ([str(tmp_path / "one")], [str(tmp_path / "two")]), ran.output
