"""Recovery of damaged files keeps the longest valid prefix and nothing else."""

import random
import shutil

import pytest

from tests.support import soak
from tests.support.broker_requests import fetch, led, message_set, produce, values
from tests.support.brokers import MortalBroker, connect
from tests.support.damage import Expectation, copy_log, log_files, recovered, store_log
from tests.support.logs import TP, make_manager
from tests.support.process import wait_until
from tests.support.seeded_runs import work_of_seed

JUNK = bytes(range(256)) * 4


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    directory = tmp_path_factory.mktemp("stored") / "data"
    store_log(directory)
    assert len(log_files(directory)) >= 3
    return directory


@pytest.fixture(scope="module")
def expected(stored):
    return Expectation(stored)


def check(directory, wanted):
    records, after = recovered(directory)
    assert records == wanted
    assert after[:-1] == records
    assert after[-1].value.startswith(b"after0")


def test_undamaged_log_is_recovered_whole(stored, expected, tmp_path):
    copy_log(stored, tmp_path / "data")
    check(tmp_path / "data", expected.all_records())


def truncations(stored, step):
    return [
        (path.name, size)
        for path in log_files(stored)
        for size in range(0, path.stat().st_size, step)
    ]


def truncate(stored, expected, work, name, size):
    copy_log(stored, work)
    path = work / str(TP) / name
    with path.open("r+b") as file:
        file.truncate(size)
    wanted = expected.before(name, size)
    boundary = size in {0, *(end for _, end, _ in expected.files[name])}
    last = name == max(expected.files)
    check(work, wanted)
    # The cut bytes and the segments behind them are kept aside.
    kept = list((work / str(TP)).glob("*.corrupt-*"))
    assert bool(kept) == (not boundary or not last)
    shutil.rmtree(work)


def test_truncated_log_keeps_its_whole_entries(stored, expected, tmp_path):
    cuts = truncations(stored, 1)
    # Every byte of one segment; of the others the bytes around the ends of entries.
    first = min(expected.files)
    ends = {
        (n, end + d) for n, each in expected.files.items() for _, end, _ in each for d in (-1, 0, 1)
    }
    for name, size in cuts:
        if (name == first and size % 7 == 0) or (name, size) in ends:
            truncate(stored, expected, tmp_path / "work", name, size)


@pytest.mark.soak
def test_every_segment_truncated_at_every_byte(stored, expected, tmp_path):
    for name, size in truncations(stored, round(1 / soak.SHARE)):
        truncate(stored, expected, tmp_path / "work", name, size)


def damage(chosen, directory, expected):
    """Damage a log in one random way; return the records that must be served."""
    paths = log_files(directory)
    path = chosen.choice(paths)
    data = bytearray(path.read_bytes())
    kind = chosen.choice(["flip", "flip", "zeros", "junk", "index", "timeindex", "block", "offset"])
    if kind in ("index", "timeindex"):
        target = path.with_suffix("." + kind)
        content = bytearray(target.read_bytes()[:64])
        for _ in range(8):
            content[chosen.randrange(len(content))] = chosen.randrange(256)
        if chosen.random() < 0.2:
            target.unlink()
        else:
            target.write_bytes(content[: chosen.randint(0, len(content))])
        return expected.all_records()
    if kind == "junk":
        # A whole valid entry of another offset is junk too.
        entry = data[: expected.files[path.name][0][1]]
        junk = chosen.choice([JUNK[: chosen.randint(1, 600)], bytes(chosen.randint(1, 300)), entry])
        at = len(data)
        data += junk
    elif kind == "zeros":
        at = chosen.randrange(len(data))
        data[at:] = bytes(len(data) - at)
    elif kind == "block":
        at = chosen.randrange(len(data))
        length = min(chosen.randint(1, 64), len(data) - at)
        data[at : at + length] = chosen.randbytes(length)
    elif kind == "offset":
        # Offsets and, in magic 2, the leader's epoch lie outside every CRC.
        at = chosen.choice(expected.files[path.name])[0] + chosen.randrange(8)
        data[at] ^= 1 << chosen.randrange(8)
    else:
        at = chosen.randrange(len(data))
        data[at] ^= 1 << chosen.randrange(8)
    before = path.read_bytes()
    path.write_bytes(data)
    changed = [
        at
        for at in range(max(len(before), len(data)))
        if before[at : at + 1] != data[at : at + 1]
        and not is_leader_epoch(before, expected, path.name, at)
    ]
    return expected.before(path.name, changed[0]) if changed else expected.all_records()


def is_leader_epoch(data, expected, name, at):
    """Whether a byte belongs to the leader epoch of a batch, which does not affect its messages."""
    for position, end, _ in expected.files[name]:
        if position <= at < end:
            return data[position + 16] == 2 and position + 12 <= at < position + 16
    return False


def run_damages(stored, expected, tmp_path, seeds):
    for seed in seeds:
        with work_of_seed(tmp_path, seed) as work:
            copy_log(stored, work / "data")
            check(work / "data", damage(random.Random(seed), work / "data", expected))


def test_damaged_log_serves_its_longest_valid_prefix(stored, expected, tmp_path):
    run_damages(stored, expected, tmp_path, range(150))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_10000_damaged_logs_serve_their_longest_valid_prefix(stored, expected, tmp_path):
    run_damages(stored, expected, tmp_path, soak.seeds(0, 10_000))


def test_recovery_reports_the_cut_and_the_messages_behind_it(stored, expected, tmp_path):
    copy_log(stored, tmp_path / "data")
    name = sorted(expected.files)[1]
    position, end, _ = expected.files[name][1]
    path = tmp_path / "data" / str(TP) / name
    data = bytearray(path.read_bytes())
    data[position + 30] ^= 255
    path.write_bytes(data)
    manager = make_manager(tmp_path / "data")
    first, *later = manager.start()
    manager.close()
    assert (first.file.name, first.position) == (name, position)
    assert first.bytes_cut == len(data) - position
    assert "CRC" in first.reason
    assert first.kept_in.read_bytes() == data[position:]
    behind = len(expected.all_records()) - len(expected.before(name, end))
    assert first.valid_messages_behind + sum(each.valid_messages_behind for each in later) == behind
    assert [each.file.name for each in later] == sorted(expected.files)[2:]


@pytest.mark.parametrize(
    ("form", "logged"),
    [
        ("ephemeral", "leader epoch raised partition=t-0 from=0 to=131072"),
        ("persistent", "later leader epochs dropped partition=t-0 latest=131072 decided="),
    ],
)
def test_broker_leads_again_despite_a_damaged_leader_epoch(tmp_path, chroot, form, logged):
    properties = {
        "broker.id": "0",
        "zookeeper.connect": chroot,
        "log.dirs": str(tmp_path / "data"),
        "partition.state.znodes": form,
    }
    process = MortalBroker(tmp_path, properties)
    process.start()
    try:
        with connect(process) as connection:
            assert wait_until(lambda: led(connection, "t"))
            for value in (b"a", b"b"):
                assert not produce(connection, "t", message_set(2, [value])).error_code
        process.kill()
        (path,) = (tmp_path / "data" / "t-0").glob("*.log")
        data = bytearray(path.read_bytes())
        data[len(data) // 2 + 13] ^= 2  # 131,072 more
        path.write_bytes(data)
        process.start()
        with connect(process) as connection:
            assert wait_until(lambda: led(connection, "t"))
            assert not produce(connection, "t", message_set(2, [b"c"])).error_code
            assert values(fetch(connection, "t", 0)) == [b"a", b"b", b"c"]
        assert logged in process.log_tail()
    finally:
        process.stop()
