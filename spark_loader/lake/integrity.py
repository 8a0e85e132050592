"""Checks at each load that a directory holds its table's files, by names and lengths.

Invariant: only directory listings and the table's log are read, and only its last entry unless
    there are files beside the table. `verify` checks contents. A Parquet file that no commit names
    is not damage: readers do not see it, and `vacuum` removes it. Files beside the table (JSON,
    raw) are read by directory, so one that no commit names is damage.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from spark_loader.errors import AlteredCheckpoint, DamagedLake
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.contents import data_files, made_by_loads, quarantine_files
from spark_loader.lake.ledger import DataFile, beside
from spark_loader.lake.recover import unfinished_replay
from spark_loader.lake.table_files import LiveFile
from spark_loader.sink.data_formats import in_table
from spark_loader.storage.files import join

_SHOWN = 10


@dataclass(slots=True)
class Damage:
    """What is wrong with a directory.

    Attributes:
        checkpoints: missing or altered parts of the table's log, each a sentence.
        files: files missing or of another length, each a sentence.
        unknown: data files that no commit names, each a sentence.
        first_lost: first offset of the damaged files of each topic and partition, None for a file
            of several partitions.
    """

    checkpoints: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    first_lost: dict[tuple[str, int | None], int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.checkpoints or self.files or self.unknown)

    def add_file(self, place: tuple[str, int | None], first: int, sentence: str) -> None:
        """Add a file of a topic and partition, with its first offset."""
        self.files.append(sentence)
        self.first_lost[place] = min(self.first_lost.get(place, first), first)


def require_whole(checkpoints: Checkpoints) -> None:
    """Check that a load may go on from the table.

    Raises:
        DamagedLake: files or commits are missing or altered; the message names them and says what
            can be done.
    """
    damage = find_damage(checkpoints)
    if damage:
        raise DamagedLake(describe(damage, checkpoints.output))


def needs_adoption(checkpoints: Checkpoints) -> bool:
    """Return whether a directory is damaged, or a stopped run in it cannot be read to resume it."""
    try:
        for _ in _half_published(checkpoints):
            pass
        return bool(find_damage(checkpoints))
    except AlteredCheckpoint:
        return True


def find_damage(checkpoints: Checkpoints) -> Damage:
    """Compare names and lengths with the table's account."""
    output = checkpoints.output
    there = {each.path: each.size_bytes for each in data_files(checkpoints.filesystem, output)}
    try:
        tabled = checkpoints.table.files()
        latest = checkpoints.table.latest()
    except AlteredCheckpoint as error:
        return Damage(checkpoints=[str(error)])
    damage = Damage()
    if latest is None:
        _without_table(checkpoints, there, damage)
        return damage
    # The table stores a partition of Kafka 0.7 as a number; its name differs.
    partitions = {int(each.partition): each.partition for each in latest.positions}

    def size_of(file: LiveFile | DataFile, listed: int | None) -> int | None:
        # A concurrent load may have written it after the listing.
        known = listed == file.size_bytes
        return listed if known else checkpoints.filesystem.size(join(output, file.path))

    for file in tabled:
        size = size_of(file, there.get(file.path))
        if size != file.size_bytes:
            (low, first), (high, _) = file.least, file.greatest
            partition = partitions.get(low, low) if low is not None and low == high else None
            sentence = difference(f"{file.path} ({file.rows} rows)", size, file.size_bytes)
            damage.add_file((file.topic, partition), first or 0, sentence)
    others = {path: size for path, size in there.items() if not in_table(path)}
    others.update(
        (each.path, each.size_bytes) for each in quarantine_files(checkpoints.filesystem, output)
    )
    if not (others or latest.beside):
        return damage
    # Read before the entries, so that a run that counts meanwhile is in one of the two.
    passing = {*latest.withdrawn, *(each.path for each in _half_published(checkpoints))}
    try:
        data, quarantined = beside(checkpoints.table.entries())
    except AlteredCheckpoint as error:
        return Damage(checkpoints=[str(error)])
    for kept in [*data, *quarantined]:
        size = size_of(kept, others.pop(kept.path, None))
        if size != kept.size_bytes:
            name = f"{kept.path} (offsets [{kept.start}, {kept.until}))"
            damage.add_file(kept.source, kept.start, difference(name, size, kept.size_bytes))
    damage.unknown.extend(
        f"{path} is named by no commit"
        for path in sorted(others)
        if path not in passing and made_by_loads(path)
    )
    return damage


def missing_files(checkpoints: Checkpoints, files: Sequence[LiveFile]) -> list[LiveFile]:
    """Return the files of the table that are gone or of another length."""
    output = checkpoints.output
    return [
        each
        for each in files
        if checkpoints.filesystem.size(join(output, each.path)) != each.size_bytes
    ]


def _without_table(checkpoints: Checkpoints, there: dict[str, int], damage: Damage) -> None:
    """Report data files where there is no table: it was lost, or another release loaded them."""
    if checkpoints.filesystem.names(checkpoints.path("manifests")):
        damage.checkpoints.append(
            f"{checkpoints.output} was loaded by an older release, without a table. Take it over "
            f"as it is: zkbroker-load convert --output {checkpoints.output}"
        )
        return
    passing = {each.path for each in _half_published(checkpoints)}
    for plan in checkpoints.open_plans():
        # Files of a first run that is under way or was stopped, its mappers finished or not.
        tokens = f"-{plan.run:06d}-"
        passing.update(path for path in there if tokens in path.rpartition("/")[2])
    damage.unknown.extend(
        f"{path} is named by no table"
        for path in sorted(there)
        if path not in passing and made_by_loads(path)
    )


def describe(damage: Damage, output: str) -> str:
    """Return the damage and the remedies as text for people."""
    if damage.checkpoints:
        found, advice = damage.checkpoints, [_ADVICE_CHECKPOINTS]
    elif damage.files:
        found, advice = damage.files, list(_rewinds(damage, output))
    else:
        found, advice = damage.unknown, [_ADVICE_UNKNOWN]
    if any("zkbroker-load convert" in each for each in found):
        return found[0]
    shown = [f"  {each}" for each in found[:_SHOWN]]
    if len(found) > _SHOWN:
        shown.append(f"  … and {len(found) - _SHOWN} more")
    return "\n".join(
        [
            f"{output} is not as the last load left it, so nothing was loaded:",
            *shown,
            *advice,
            f"`zkbroker-load verify --output {output}` checks the contents of every file",
        ]
    )


_TAKE_OVER = (
    "or adopt the data files that are there as a new beginning: the same command with --adopt"
)
_ADVICE_CHECKPOINTS = f"""\
Going on would load rows a second time or leave some out.
Put the table's log (_delta_log) and _zkbroker back from a backup;
{_TAKE_OVER}"""
_ADVICE_UNKNOWN = f"""\
Going on would load their rows a second time, unless they were put there by hand.
Put the table's log (_delta_log) and _zkbroker back from a backup, or move the files away;
{_TAKE_OVER}"""


def _rewinds(damage: Damage, output: str) -> Iterator[str]:
    yield "Put the files back from a backup; or load their offsets again:"
    places = sorted(damage.first_lost.items(), key=lambda each: (each[0][0], each[0][1] or 0))
    for (topic, partition), offset in places[:_SHOWN]:
        chosen = f" --partition {partition}" if partition is not None else ""
        yield f"  zkbroker-load rewind --output {output} --topic {topic}{chosen} --to {offset}"
    yield "or go on without them, with a gap for the missing offsets: the same command with --adopt"


def _half_published(checkpoints: Checkpoints) -> Iterator[DataFile]:
    """Yield the files beside the table of a run or a replay that was stopped before it counted."""
    replayed = unfinished_replay(checkpoints)
    if replayed is not None:
        yield from (*replayed.files, *replayed.quarantined)
    for plan in checkpoints.open_plans():
        for done in checkpoints.done_so_far(plan):
            yield from (*done.files, *done.quarantined)


def difference(file: str, size: int | None, published: int) -> str:
    """Return how a file differs from the published one: it is missing or of another length."""
    if size is None:
        return f"{file} is missing"
    return f"{file} has {size} bytes, {published} were published"
