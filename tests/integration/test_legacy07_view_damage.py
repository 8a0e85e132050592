"""Views with lost or changed files, and topics with 0.7 logs of their own."""

import shutil

import pytest

from tests.support.broker_requests import message_set, produce
from tests.support.brokers import connect
from tests.support.client07 import Broker07, broker_address, entry, gzip_wrapper
from tests.support.cluster07 import broker07
from tests.support.zookeeper import until
from zkbroker.errors import ZkbrokerError
from zkbroker.protocol.messages import CreateTopicsRequest
from zkbroker.protocol.messages.topics import NewTopic

SENT = entry(b"one") + gzip_wrapper([b"two", b"three"]) + entry(b"four", magic=0)
NEW_FIRST_FILE = f"{10**15:020d}.kafka"


@pytest.fixture
def process(tmp_path, chroot, tree):
    shared = {"legacy07_share_new_topics": "true", "num_partitions": 1}
    process = broker07(tmp_path, chroot, tree, legacy07_topics="newer.*", **shared)
    process.start()
    yield process
    process.stop()


def fill(tree, topic="t"):
    broker = Broker07(*broker_address(tree, 0))
    broker.produce(topic, 0, SENT)
    until(lambda: broker.offsets(topic, 0, -1)[0] == len(SENT))
    broker.close()


def reads(tree, topic="t", position=0):
    broker = Broker07(*broker_address(tree, 0))
    ((error, data),) = broker.multifetch([(topic, 0, position)])
    broker.close()
    return error, data


def test_lost_view_files_are_rebuilt_and_lost_view_is_refused(tmp_path, tree, process):
    fill(tree)
    folder = tmp_path / "legacy" / "t-0"
    kafka, mapped = folder / f"{0:020d}.kafka", folder / f"{0:020d}.map"
    process.kill()
    mapped.write_bytes(mapped.read_bytes()[:-20])
    process.start()
    assert reads(tree) == (0, SENT)
    process.stop()
    kafka.unlink()
    process.start()
    assert reads(tree) == (0, SENT)
    process.stop()

    mapped.unlink()
    with pytest.raises(ZkbrokerError, match=r"t-0, has no maps \(\*\.map\)\. Bring it back"):
        process.start()
    shutil.rmtree(folder)
    with pytest.raises(ZkbrokerError, match="t-0, is not there"):
        process.start()

    folder.mkdir()
    (folder / NEW_FIRST_FILE).touch()
    process.start()
    # Old positions are out of range; the messages have new ones.
    assert reads(tree) == (1, b"")
    rendered = b"".join(map(entry, (b"one", b"two", b"three", b"four")))
    until(lambda: reads(tree, position=10**15) == (0, rendered))


def test_topic_with_0_7_logs_is_shared_only_after_they_are_emptied(tmp_path, chroot, tree, process):
    process.stop()
    apart = broker07(tmp_path, chroot, tree, num_partitions=1)
    apart.start()
    fill(tree, "newer")
    apart.stop()
    process.start()
    warning = "topic newer matches legacy07.topics, and has 0.7 logs of its own"
    until(lambda: warning in process.log_path.read_text())
    with connect(process) as connection:
        connection.request(CreateTopicsRequest(topics=[NewTopic("newer", 1, 1)]))
        assert produce(connection, "newer", message_set(2, [b"modern"])).error_code == 0
    assert reads(tree, "newer") == (0, SENT)
    fill_more = Broker07(*broker_address(tree, 0))
    fill_more.produce("newer", 0, entry(b"five"))
    end = len(SENT + entry(b"five"))
    until(lambda: fill_more.offsets("newer", 0, -1)[0] == end)
    fill_more.close()
    process.stop()

    folder = tmp_path / "legacy" / "newer-0"
    (folder / f"{0:020d}.kafka").unlink()
    (folder / f"{end:020d}.kafka").touch()
    process.start()
    # A group that was at the end continues there.
    until(lambda: reads(tree, "newer", end) == (0, entry(b"modern")))
    assert reads(tree, "newer") == (1, b"")
