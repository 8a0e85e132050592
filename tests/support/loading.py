"""Shared by tests of loads: a file system, a time, damage to a log, and `verify`."""

from spark_loader.lake.verify import verify
from spark_loader.storage.files import LocalFileSystem
from zkbroker.records import iter_entries

LOCAL = LocalFileSystem(sync=False)
AT = 1_431_857_103_000


def damage(cluster, topic, partition, entry):
    file = cluster._file(topic, partition)
    data = bytearray(file.read_bytes())
    found = list(iter_entries(bytes(data)))[entry]
    data[found.position + found.size - 2] ^= 0xFF
    file.write_bytes(bytes(data))


def proved(output):
    report = verify(LOCAL, str(output))
    assert report.problems == []
    return report
