"""Shared by tests of loads: a file system, a time, damage to a log, and `verify`."""

from spark_loader.lake.ledger import Entry, TableFile
from spark_loader.lake.verify import verify
from spark_loader.storage.files import LocalFileSystem
from zkbroker.records import iter_entries

LOCAL = LocalFileSystem(sync=False)
AT = 1_431_857_103_000


def entry(run, **fields):
    """Return the entry of a load for the ledger."""
    return Entry(run=run, kind="load", created="now", **fields)


def table_file(number):
    """Return a file of the table, by number, with five rows."""
    path = f"topic=t/date=2015-05-17/hour=05/part-{number}.parquet"
    return TableFile(path=path, rows=5, size_bytes=9, sha256="00", stats='{"numRecords": 5}')


def damage(cluster, topic, partition, entry):
    """Change a byte of an entry of a log; return the entry as it is now."""
    file = cluster._file(topic, partition)
    data = bytearray(file.read_bytes())
    found = list(iter_entries(bytes(data)))[entry]
    data[found.position + found.size - 2] ^= 0xFF
    file.write_bytes(data)
    return bytes(data[found.position : found.position + found.size])


def verified(output, filesystem=LOCAL):
    """Return the report of `verify` on a lake; it has no problems."""
    report = verify(filesystem, str(output))
    assert report.problems == []
    return report
